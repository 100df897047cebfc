"""Clients, devices, memories and topologies of a plugin."""

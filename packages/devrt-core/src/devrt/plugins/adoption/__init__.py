"""Plugins that were made for JAX: what their modules register, found out in a child process."""

"""Plugins and their clients, tried in a child process."""

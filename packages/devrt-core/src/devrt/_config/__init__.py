"""Configuration: options, their values, where each comes from, and the layers that decide."""

"""A job over a store that all its processes reach: no service in between."""

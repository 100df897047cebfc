"""A plugin as an object: its module, its manifest and its records."""

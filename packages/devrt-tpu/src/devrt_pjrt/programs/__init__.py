"""Programs of a plugin: compiled, loaded, run, in the disk cache."""

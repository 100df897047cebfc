"""Programs of a plugin: compiled, loaded, run, kept on disk."""

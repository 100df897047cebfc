"""Which plugins are installed, found without an import."""

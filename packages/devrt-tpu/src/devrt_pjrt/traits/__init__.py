"""What differs from plugin to plugin."""

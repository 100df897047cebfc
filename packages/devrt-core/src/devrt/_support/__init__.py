"""What every package of the core may use, and no one outside."""

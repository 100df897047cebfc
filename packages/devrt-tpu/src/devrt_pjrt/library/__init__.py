"""A plugin's library: opened once, its functions called, its errors translated."""

"""Buffers of a plugin: made, read, sent piece by piece, lent and borrowed."""

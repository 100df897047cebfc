"""Shardings as pictures of text and SVG."""

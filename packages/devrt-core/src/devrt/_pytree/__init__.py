"""Trees of Python containers, by JAX's rules: what is a node, and how it is taken apart."""

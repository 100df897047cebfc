"""What JAX has under ``jax.experimental``, as far as devrt has it, by the same names."""

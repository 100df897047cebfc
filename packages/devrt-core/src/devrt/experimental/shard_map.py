"""`devrt.shard_map` by the name that it had in JAX before."""

from devrt.programs.shard_map import shard_map

__all__ = ["shard_map"]

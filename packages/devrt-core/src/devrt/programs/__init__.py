"""Compiled programs on arrays: what executables take and give, as shardings over a mesh."""

from devrt.programs._arrays import ArrayProgram, load_program
from devrt.programs._shardings import mesh_of, named_sharding

__all__ = ["ArrayProgram", "load_program", "mesh_of", "named_sharding"]

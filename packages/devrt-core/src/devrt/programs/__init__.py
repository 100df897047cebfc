"""Compiled programs on arrays: what executables take and give, as shardings over a mesh."""

from devrt.programs.array_program import ArrayProgram, load_program
from devrt.programs.chosen_shardings import mesh_of, named_sharding

__all__ = ["ArrayProgram", "load_program", "mesh_of", "named_sharding"]

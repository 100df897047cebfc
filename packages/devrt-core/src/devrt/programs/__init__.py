"""Compiled programs on arrays: what executables take and give, as shardings over a mesh."""

from devrt.programs.array_program import ArrayProgram
from devrt.programs.chosen_shardings import mesh_of, named_sharding
from devrt.programs.load import load_program

__all__ = ["ArrayProgram", "load_program", "mesh_of", "named_sharding"]

"""Shardings as Shardy writes them in a program's text."""

from __future__ import annotations

from typing import Any

from devrt.sharding import NamedSharding, PartitionSpec

__all__ = ["mesh_line", "sharding_text"]

MESH = "mesh"


def mesh_line(mesh: Any, name: str = MESH) -> str:
    """Return the line that declares a mesh by its axes; its devices are the program's, in order."""
    axes = ", ".join(f'"{axis}"={size}' for axis, size in mesh.shape.items())
    return f"sdy.mesh @{name} = <[{axes}]>"


def sharding_text(sharding: NamedSharding, ndim: int, name: str = MESH) -> str:
    """Return ``#sdy.sharding<@mesh, [{"x"}, {}]>`` for an array of so many dimensions."""
    dims = [*sharding.spec, *(None,) * (ndim - len(sharding.spec))]
    return f"#sdy.sharding<@{name}, [{', '.join(map(_dimension, dims))}]>"


def _dimension(entry: Any) -> str:
    if entry is PartitionSpec.UNCONSTRAINED:
        return "{?}"
    axes = () if entry is None else (entry,) if isinstance(entry, str) else entry
    return "{" + ", ".join(f'"{axis}"' for axis in axes) + "}"

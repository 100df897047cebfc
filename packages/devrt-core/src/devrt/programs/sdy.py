"""Shardings of a program's arguments and results, as its text says them."""

from __future__ import annotations

from devrt.sharding import NamedSharding, Sharding
from devrt.tracing import Meshes, TensorSharding

__all__ = ["sharding_attribute"]


def sharding_attribute(sharding: Sharding | None, ndim: int, meshes: Meshes) -> str:
    """Return ``sdy.sharding = #sdy.sharding<...>``; nothing where the compiler decides.

    A program of one device divides nothing.
    """
    if not isinstance(sharding, NamedSharding) or meshes.num_partitions == 1:
        return ""
    return f"sdy.sharding = {TensorSharding(sharding.mesh, sharding.spec, ndim).mlir_in(meshes)}"

"""Shardings of a program's arguments and results, as its text says them."""

from __future__ import annotations

import numpy as np

from devrt.sharding import GSPMDSharding, Mesh, NamedSharding, PartitionSpec, Sharding
from devrt.tracing import Meshes, TensorSharding

__all__ = ["over_mesh", "sharding_attribute"]


def sharding_attribute(sharding: Sharding | None, ndim: int, meshes: Meshes) -> str:
    """Return ``sdy.sharding = #sdy.sharding<...>``; nothing where the compiler decides.

    A program of one device divides nothing.
    """
    if sharding is None or meshes.num_partitions == 1:
        return ""
    named = over_mesh(sharding)
    return f"sdy.sharding = {TensorSharding(named.mesh, named.spec, ndim).mlir_in(meshes)}"


def over_mesh(sharding: Sharding) -> NamedSharding:
    """Return a sharding over a mesh; where it has none, over one that is made for it."""
    if isinstance(sharding, NamedSharding):
        return sharding
    given = sharding.op_sharding() if isinstance(sharding, GSPMDSharding) else None
    devices = np.empty(len(sharding._device_assignment), object)
    devices[:] = list(sharding._device_assignment)
    if given is None or given.is_replicated:
        return NamedSharding(Mesh(devices, ("devices",)), PartitionSpec())
    names = tuple(f"dim{i}" for i in range(len(given.tile_dims)))
    grid = devices[list(given.devices)].reshape(given.tile_dims)
    divided = names[: len(given.partitions)]
    return NamedSharding(Mesh(grid, names), PartitionSpec(*divided))

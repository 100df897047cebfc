"""Shardings of a program's arguments and results, as its text says them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from devrt.sharding import GSPMDSharding, Mesh, NamedSharding, PartitionSpec, Sharding
from devrt.tracing import Graph, Meshes, TensorSharding, Value

__all__ = ["as_stated", "over_mesh", "sharding_attribute"]


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


def as_stated(
    found: Sequence[Sharding | None], graph: Graph, wanted: Sequence[Sharding | None]
) -> list[Sharding | None]:
    """Return results' shardings by the specs that the function states, where they say the same.

    A compiler does not tell of axes of size 1, nor of entries that divide nothing.
    """
    stated = _stated(graph)
    pairs = zip(found, graph.results, wanted, strict=True)
    return [
        stated[value]
        if request is None
        and isinstance(sharding, NamedSharding)
        and value in stated
        and sharding.is_equivalent_to(stated[value], value.aval.ndim)
        else sharding
        for sharding, value, request in pairs
    ]


def _stated(graph: Graph) -> dict[Value, NamedSharding]:
    """Return how results of `shard_map` and of constraints lie, as their specs say."""
    found: dict[Value, NamedSharding] = {}
    for op in graph.ops:
        given: Sequence[TensorSharding] = ()
        if op.name == "sdy.manual_computation":
            given = op.attributes["out_shardings"].shardings
        elif op.name == "sdy.sharding_constraint":
            given = (op.attributes["sharding"],)
        for value, each in zip(op.results, given, strict=False):
            is_whole = not each.is_open and PartitionSpec.UNCONSTRAINED not in each.spec
            if is_whole and isinstance(each.mesh, Mesh):
                found[value] = NamedSharding(each.mesh, each.spec)
    return found

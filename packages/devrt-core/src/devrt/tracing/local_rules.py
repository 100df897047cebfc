"""What operations do with blocks: which compute them alone, and what collectives exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.tracing.division import Division
from devrt.tracing.forms import SHORT
from devrt.tracing.ir import Op
from devrt.tracing.sdy import Meshes

__all__ = ["is_elementwise", "plan_of", "result_division"]

_ELEMENTWISE = SHORT | {
    f"stablehlo.{name}"
    for name in "clamp compare complex convert imag is_finite real reduce_precision select".split()
}

_PLANS = {
    "stablehlo.all_gather": ("all_gather_dim", None),
    "stablehlo.all_reduce": (None, None),
    "stablehlo.all_to_all": ("split_dimension", "concat_dimension"),
    "stablehlo.collective_permute": (None, None),
    "stablehlo.reduce_scatter": ("scatter_dimension", None),
}
"""Collectives, and the attributes that say which dimensions they divide and join."""


def is_elementwise(op: Op) -> bool:
    """Return whether each element of the results depends on those at its own index alone."""
    is_known = op.name in _ELEMENTWISE or (op.name.startswith("chlo.") and op.name != "chlo.top_k")
    shape = op.results[0].aval.shape
    # A predicate and limits may be scalars.
    return is_known and all(value.aval.shape in (shape, ()) for value in op.operands)


def result_division(
    op: Op, divided: Sequence[Division], operands: Sequence[Division]
) -> Division | None:
    """Return how the results of an operation are divided; None if devices would exchange blocks.

    Parameters
    ----------
    op
        The operation.
    divided
        The different ways in which its inputs are divided, those that are whole apart.
    operands
        How each operand is divided.
    """
    if op.regions or len(divided) != 1:
        return None
    if is_elementwise(op):
        return divided[0]
    if op.name == "stablehlo.broadcast_in_dim":
        return _spread(op, operands[0])
    if op.name == "stablehlo.transpose":
        blocks = [operands[0].blocks[i] for i in op.attributes["permutation"]]
        return Division(blocks, divided[0].mesh, _named(divided[0], op.attributes["permutation"]))
    return None


def _spread(op: Op, given: Division) -> Division | None:
    """Return the division of an operand with more dimensions, of which none is longer."""
    places = op.attributes["broadcast_dimensions"]
    shape, wanted = op.operands[0].aval.shape, op.results[0].aval.shape
    blocks: list[tuple[int, ...] | None] = [None] * len(wanted)
    sources: list[int | None] = [None] * len(wanted)
    for i, place in enumerate(places):
        if given.blocks[i] and shape[i] != wanted[place]:
            return None
        blocks[place], sources[place] = given.blocks[i], i
    return Division(blocks, given.mesh, _named(given, sources))


def _named(given: Division, sources: Sequence[int | None]) -> Any:
    """Return a spec whose entries are those of another one's dimensions."""
    assert given.spec is not None
    old = [*given.spec, *(None,) * (len(given.blocks) - len(given.spec))]
    return type(given.spec)(*(None if i is None else old[i] for i in sources))


def plan_of(op: Op, meshes: Meshes | None) -> str | None:
    """Return what a collective exchanges, as a call says it; None of other operations.

    Words: the operation, what reduces, the dimensions, how many devices a group has, and these.
    Without ``meshes`` the devices' numbers are left out.
    """
    if op.name not in _PLANS:
        return None
    axis, other = (0 if name is None else op.attributes[name] for name in _PLANS[op.name])
    rows = _rows(op, meshes)
    word = op.regions[0].ops[0].name if op.regions else "."
    words = [op.name, word, axis, other, rows.shape[1], *rows.ravel().tolist()]
    return " ".join(str(each).rpartition(".")[2] or "-" for each in words)


def _rows(op: Op, meshes: Meshes | None) -> np.ndarray[Any, Any]:
    """Return the devices of a collective, those that exchange in one row."""
    if meshes is None:
        return np.zeros((0, 1), int)
    pairs = op.attributes.get("source_target_pairs")
    found: np.ndarray[Any, Any] = (pairs or op.attributes["replica_groups"]).numbers(meshes)
    return found.reshape(-1, 2) if pairs is not None else found

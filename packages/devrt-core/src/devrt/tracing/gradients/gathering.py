"""Rules of reading and writing at positions that are values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.tracing.conversions import convert
from devrt.tracing.elementwise import clamp, compare, nary
from devrt.tracing.gathering import gather, scatter
from devrt.tracing.gradients.reductions import function_of
from devrt.tracing.gradients.rules import add, div, full, mul, select, where, zeros
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.promotion import named
from devrt.tracing.reductions import reduce
from devrt.tracing.shapes import broadcast_in_dim, concatenate, iota, reshape
from devrt.tracing.trace import constant

__all__ = ["RULES"]


def _limits(indices: Any, axis: int, sizes: Sequence[int]) -> Any:
    """Return for each component of index vectors the last position where a slice fits."""
    shape = indices.aval.shape
    last = constant(np.array(sizes, indices.aval.dtype), indices.aval.dtype)
    if axis == len(shape):
        return broadcast_in_dim(reshape(last, ()), shape, ())
    return broadcast_in_dim(last, shape, (axis,))


def _gather(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    x, indices = op.operands
    dims, sizes = op.attributes["dimension_numbers"], op.attributes["slice_sizes"]
    last = [x.aval.shape[d] - sizes[d] for d in dims.start_index_map]
    most = _limits(indices, dims.index_vector_dim, last)
    inside = clamp(zeros(indices), indices, most)
    found = scatter(
        zeros(x),
        inside,
        given[0],
        "add",
        update_window_dims=dims.offset_dims,
        inserted_window_dims=dims.collapsed_slice_dims,
        scatter_dims_to_operand_dims=dims.start_index_map,
        input_batching_dims=dims.operand_batching_dims,
        scatter_indices_batching_dims=dims.start_indices_batching_dims,
        index_vector_dim=dims.index_vector_dim,
        indices_are_sorted=op.attributes["indices_are_sorted"],
    )
    return [found, None]


class _Written:
    """A scatter: where it writes, and reading there."""

    def __init__(self, op: Op) -> None:
        self.x, self.indices, self.updates = op.operands
        self.dims = op.attributes["scatter_dimension_numbers"]
        gone = {*self.dims.inserted_window_dims, *self.dims.input_batching_dims}
        windows = iter([self.updates.aval.shape[d] for d in self.dims.update_window_dims])
        self.sizes = [1 if i in gone else next(windows) for i in range(self.x.aval.ndim)]

    def read(self, x: Any) -> Any:
        """Return what is where updates go; for updates that go nowhere anything."""
        return gather(
            x,
            self.indices,
            offset_dims=self.dims.update_window_dims,
            collapsed_slice_dims=self.dims.inserted_window_dims,
            start_index_map=self.dims.scatter_dims_to_operand_dims,
            operand_batching_dims=self.dims.input_batching_dims,
            start_indices_batching_dims=self.dims.scatter_indices_batching_dims,
            index_vector_dim=self.dims.index_vector_dim,
            slice_sizes=self.sizes,
        )

    def write(self, x: Any, updates: Any, combine: str) -> Any:
        """Return a value with updates at the same places."""
        fields = self.dims._asdict()
        return scatter(x, self.indices, updates, combine, **fields)

    def inside(self, g: Any) -> Any:
        """Return the cotangents of updates, 0 where an update goes outside and is left out."""
        last = [
            self.x.aval.shape[d] - self.sizes[d] for d in self.dims.scatter_dims_to_operand_dims
        ]
        axis = self.dims.index_vector_dim
        at_least = compare("GE", self.indices, zeros(self.indices))
        at_most = compare("LE", self.indices, _limits(self.indices, axis, last))
        fits = nary("and", at_least, at_most)
        if axis < fits.aval.ndim:
            fits = reduce("and", fits, True, [axis])
        batch = [i for i in range(g.aval.ndim) if i not in self.dims.update_window_dims]
        fits = broadcast_in_dim(fits, g.aval.shape, batch)
        return select(fits, g, zeros(g))


def _scatter(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    region = op.regions[0]
    is_set = not region.ops and list(region.results) == region.parameters[1:]
    rule = _set if is_set else _COMBINED.get(function_of(region))
    if rule is None or len(op.operands) != 3:
        raise walk.refuse(op, "it combines elements by a function of its own")
    of_x, of_updates = rule(_Written(op), given[0], op.results[0])
    return [of_x, None, of_updates]


def _set(at: _Written, g: Any, _: Any) -> tuple[Any, Any]:
    """Give the cotangent of each element to the update that was written last."""
    number = named("int32" if at.updates.aval.size < 2**31 - 1 else "int64")
    shape = at.updates.aval.shape
    each = add(reshape(iota((at.updates.aval.size,), 0, number), shape), constant(1, number, shape))
    nobody = constant(0, number, at.x.aval.shape)
    is_last = compare("EQ", at.read(at.write(nobody, each, "set")), each)
    read = at.read(g)
    of_updates = select(is_last, read, zeros(read))
    return at.write(g, zeros(at.updates), "set"), of_updates


def _added(at: _Written, g: Any, _: Any) -> tuple[Any, Any]:
    return g, at.inside(at.read(g))


def _multiplied(at: _Written, g: Any, y: Any) -> tuple[Any, Any]:
    factors = at.write(full(1, at.x), at.updates, "mul")
    others = div(at.read(mul(g, y)), where("EQ", at.updates, 0, 1, at.updates))
    alone = at.read(mul(g, at.x))
    return mul(g, factors), at.inside(where("EQ", at.updates, 0, alone, others))


def _extreme(at: _Written, g: Any, y: Any) -> tuple[Any, Any]:
    """Give equal parts to all that are the largest or smallest at an element."""
    is_x = where("EQ", at.x, y, 1, 0)
    is_update = at.inside(where("EQ", at.updates, at.read(y), 1, 0))
    count = at.write(is_x, is_update, "add")
    part = div(g, where("EQ", count, 0, 1, count))
    return mul(is_x, part), mul(is_update, at.read(part))


_COMBINED = {
    "stablehlo.add": _added,
    "stablehlo.multiply": _multiplied,
    "stablehlo.maximum": _extreme,
    "stablehlo.minimum": _extreme,
}


def add_at(shape: Sequence[int], positions: Any, values: Any) -> Any:
    """Return zeros with values added at positions along the last dimension.

    ``positions`` and ``values`` have the leading dimensions of the result; the last one is theirs.
    """
    *batch, size = shape
    lines, count = int(np.prod(batch, dtype=int)), values.aval.shape[-1]
    rows = iota((lines, count, 1), 0, named("int32"))
    columns = reshape(convert(positions, named("int32")), (lines, count, 1))
    found = scatter(
        constant(0, values.aval.dtype, (lines, size)),
        concatenate([rows, columns], 2),
        reshape(values, (lines, count)),
        "add",
        update_window_dims=(),
        inserted_window_dims=(0, 1),
        scatter_dims_to_operand_dims=(0, 1),
        index_vector_dim=2,
    )
    return reshape(found, tuple(shape))


RULES: dict[str, Rule] = {"stablehlo.gather": _gather, "stablehlo.scatter": _scatter}

"""Operations between the devices of a `devrt.shard_map` or `devrt.pmap`, by `jax.lax`'s names.

Each takes a tree of values and the name of an axis, or a tuple of names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt import tracing, tree_util
from devrt.errors import UnimplementedError
from devrt.lax.axes import axes_of
from devrt.tracing import Tracer, as_value, at_user_line, convert, named, reshape

__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pbroadcast",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
    "pvary",
]


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Return the sums over the devices along axes.

    Parameters
    ----------
    x
        A tree of values. Truth values count as integers. Of numbers and NumPy arrays, which are the
        same on all devices, the sum is known while tracing: ``psum(1, "x")`` is the axis's size.
    axis_name
        The name of an axis, or several.
    axis_index_groups
        Positions along the axes in groups: each group has a sum of its own.

    Raises
    ------
    UnboundAxisError
        If no enclosing computation binds an axis.
    """
    axes = axes_of("psum", axis_name, axis_index_groups)

    def summed(leaf: Any) -> Any:
        if _is_constant(leaf) and axes.is_even:
            return leaf * axes.size
        value = as_value(leaf)
        if value.aval.dtype == named("bool"):
            value = convert(value, named("int32"))
        return tracing.all_reduce("add", value, axes.names, axes.groups)

    return tree_util.tree_map(summed, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Return the means over the devices along axes; see `psum`."""
    axes = axes_of("pmean", axis_name, axis_index_groups)
    total, count = psum((x, 1), axes.names, axis_index_groups=axes.groups)
    return tree_util.tree_map(lambda leaf: leaf / count, total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Return the largest values over the devices along axes; see `psum`."""
    axes = axes_of("pmax", axis_name, axis_index_groups)
    return _map(lambda x: tracing.all_reduce("maximum", x, axes.names, axes.groups), x)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Return the smallest values over the devices along axes; see `psum`."""
    axes = axes_of("pmin", axis_name, axis_index_groups)
    return _map(lambda x: tracing.all_reduce("minimum", x, axes.names, axes.groups), x)


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Return the values of all devices along axes.

    Parameters
    ----------
    x
        A tree of values.
    axis_name, axis_index_groups
        As for `psum`.
    axis
        The dimension along which they stand.
    tiled
        Whether that is a dimension of ``x``, along which they are joined, in place of a new one.
    to
        Whether the result counts as one that may differ between the devices (``"varying"``), as in
        JAX, so that no ``out_specs`` may leave the axes out; or as the same on all
        (``"invarying"``).

    Raises
    ------
    InvalidArgumentError
        If ``to`` is another word, or each group has a result of its own and it is to be the same.
    """
    axes = axes_of("all_gather", axis_name, axis_index_groups, same_sizes=True)
    if to not in ("varying", "invarying") or (to == "invarying" and axes.groups is not None):
        reason = f"to={to!r} is no result of a gather"
        hint = " It is 'varying', or without axis_index_groups 'invarying'."
        raise axes.error(reason, "to", hint)

    def gathered(value: Any) -> Any:
        shape = value.aval.shape
        dimension = axes.dimension(axis, len(shape) + (not tiled))
        if not tiled:
            value = reshape(value, (*shape[:dimension], 1, *shape[dimension:]))
        made = tracing.all_gather(value, axes.names, dimension, axes.groups)
        return tracing.unvary(made, axes.names) if to == "invarying" else made

    return _map(gathered, x)


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Return a part of the sums over the devices along axes: another part on each device.

    Parameters
    ----------
    x
        A tree of values.
    axis_name, axis_index_groups
        As for `psum`.
    scatter_dimension
        The dimension that is divided.
    tiled
        Whether parts keep that dimension; otherwise it is as long as there are devices, and goes.

    Raises
    ------
    InvalidArgumentError
        If the dimension does not divide.
    """
    axes = axes_of("psum_scatter", axis_name, axis_index_groups, same_sizes=True)

    def scattered(value: Any) -> Any:
        shape = value.aval.shape
        dimension = axes.dimension(scatter_dimension, len(shape))
        axes.check_divides(value, dimension, tiled)
        part = tracing.reduce_scatter("add", value, axes.names, dimension, axes.groups)
        return part if tiled else reshape(part, (*shape[:dimension], *shape[dimension + 1 :]))

    return _map(scattered, x)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Send a part of the values to each device along axes, and join those that come.

    Parameters
    ----------
    x
        A tree of values.
    axis_name, axis_index_groups
        As for `psum`.
    split_axis
        The dimension that is divided among the devices.
    concat_axis
        The dimension of the result along which the parts stand.
    tiled
        Whether the dimensions stay. Otherwise ``split_axis`` is as long as there are devices, and
        goes, and ``concat_axis`` is new.

    Raises
    ------
    InvalidArgumentError
        If the dimension does not divide.
    """
    axes = axes_of("all_to_all", axis_name, axis_index_groups, same_sizes=True)

    def exchanged(value: Any) -> Any:
        shape = value.aval.shape
        split = axes.dimension(split_axis, len(shape))
        concat = axes.dimension(concat_axis, len(shape))
        axes.check_divides(value, split, tiled)
        if tiled or split == concat:
            return tracing.all_to_all(value, axes.names, split, concat, axes.groups)
        # The position of the new dimension counts without the one that goes.
        place = concat + 1 if split < concat else concat
        gone = split if split < concat else split + 1
        wide = reshape(value, (*shape[:place], 1, *shape[place:]))
        sent = tracing.all_to_all(wide, axes.names, gone, place, axes.groups)
        kept = sent.aval.shape
        return reshape(sent, (*kept[:gone], *kept[gone + 1 :]))

    return _map(exchanged, x)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Return what another device holds.

    Parameters
    ----------
    x
        A tree of values.
    axis_name
        As for `psum`.
    perm
        Pairs of positions along the axes: of the device that sends, and of the one that receives.
        Each sends once and receives once at most; who receives nothing has zeros.

    Raises
    ------
    InvalidArgumentError
        If a position is there twice, or beyond the axes.
    """
    axes = axes_of("ppermute", axis_name)
    pairs = [(operator.index(a), operator.index(b)) for a, b in perm]
    for side, what in enumerate(("source", "destination")):
        ends = [pair[side] for pair in pairs]
        for position in ends:
            axes.check_position(position, what)
            if ends.count(position) > 1:
                reason = f"{what} {position} of perm={pairs} is there more than once"
                raise axes.error(reason, what, " Name each position once.")
    return _map(lambda value: tracing.permute(value, axes.names, pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Return on device ``i`` along axes what device ``perm[i]`` holds."""
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchange a dimension of the values and the devices along axes; see `all_to_all`."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Return what the device at position ``source`` along axes holds, on all of them."""
    axes = axes_of("pbroadcast", axis_name)
    axes.check_position(source, "source")
    return _map(lambda value: tracing.broadcast_from(value, axes.names, source), x)


def axis_index(axis_name: Any) -> Any:
    """Return the device's position along axes, the last one fastest: an int32."""
    return tracing.axis_index(axes_of("axis_index", axis_name).names)


def axis_size(axis_name: Any) -> int:
    """Return the number of devices along axes: a number of Python's."""
    return axes_of("axis_size", axis_name).size


def pvary(x: Any, axis_name: Any) -> Any:
    """Return the values as ones that may differ between the devices along axes."""
    return pcast(x, axis_name, to="varying")


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Return the values as ones that vary along axes; ``to`` is ``"varying"``.

    Nothing is computed: values that are equal on all devices are used with those that vary without
    it too.
    """
    if to != "varying":
        msg = f"pcast to {to!r} is not there{at_user_line()}: devrt has no unreduced values."
        raise UnimplementedError(msg, operation="pcast")
    axes = axes_of("pcast", axis_name)
    return _map(lambda value: tracing.pvary(value, axes.names), x)


def _map(function: Callable[[Any], Any], x: Any) -> Any:
    """Return a tree with a function of each leaf, as a value of the trace."""
    return tree_util.tree_map(lambda leaf: function(as_value(leaf)), x)


def _is_constant(leaf: Any) -> bool:
    numbers = bool, int, float, complex, np.ndarray, np.generic
    return isinstance(leaf, numbers) and not isinstance(leaf, Tracer)

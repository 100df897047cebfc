"""Operations between the devices of a `devrt.shard_map` or `devrt.pmap`, by `jax.lax`'s names.

Each takes a tree of values and the name of an axis, or a tuple of names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt import tracing, tree_util
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
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

Axes = tuple[str, ...]
Groups = tuple[tuple[int, ...], ...] | None


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
    axes, groups = _resolved("psum", axis_name, axis_index_groups)

    def summed(leaf: Any) -> Any:
        if _is_constant(leaf):
            return leaf * _count(axes, groups)
        value = as_value(leaf)
        is_bool = value.aval.dtype == named("bool")
        return tracing.all_reduce(
            "add", convert(value, named("int32")) if is_bool else value, axes, groups
        )

    return _map(summed, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Return the means over the devices along axes; see `psum`."""
    axes, groups = _resolved("pmean", axis_name, axis_index_groups)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    return _map(lambda leaf: leaf / _count(axes, groups), total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Return the largest values over the devices along axes; see `psum`."""
    axes, groups = _resolved("pmax", axis_name, axis_index_groups)
    return _map(lambda leaf: tracing.all_reduce("maximum", leaf, axes, groups), x)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Return the smallest values over the devices along axes; see `psum`."""
    axes, groups = _resolved("pmin", axis_name, axis_index_groups)
    return _map(lambda leaf: tracing.all_reduce("minimum", leaf, axes, groups), x)


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False
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

    Notes
    -----
    The result counts as varying along the axes, as in JAX, so that no ``out_specs`` may leave them
    out.
    """
    axes, groups = _resolved("all_gather", axis_name, axis_index_groups, same_sizes=True)

    def gathered(leaf: Any) -> Any:
        value = as_value(leaf)
        shape = value.aval.shape
        dimension = _dimension("all_gather", axis, len(shape) + (not tiled))
        if not tiled:
            value = reshape(value, (*shape[:dimension], 1, *shape[dimension:]))
        return tracing.all_gather(value, axes, dimension, groups)

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
    axes, groups = _resolved("psum_scatter", axis_name, axis_index_groups, same_sizes=True)

    def scattered(leaf: Any) -> Any:
        value = as_value(leaf)
        shape = value.aval.shape
        dimension = _dimension("psum_scatter", scatter_dimension, len(shape))
        _check_divides("psum_scatter", value, dimension, axis_name, _count(axes, groups), tiled)
        part = tracing.reduce_scatter("add", value, axes, dimension, groups)
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
    axes, groups = _resolved("all_to_all", axis_name, axis_index_groups, same_sizes=True)
    count = _count(axes, groups)

    def exchanged(leaf: Any) -> Any:
        value = as_value(leaf)
        shape = value.aval.shape
        split = _dimension("all_to_all", split_axis, len(shape))
        concat = _dimension("all_to_all", concat_axis, len(shape))
        _check_divides("all_to_all", value, split, axis_name, count, tiled)
        if tiled or split == concat:
            return tracing.all_to_all(value, axes, split, concat, groups)
        # The position of the new dimension counts without the one that goes.
        place = concat + 1 if split < concat else concat
        gone = split if split < concat else split + 1
        wide = reshape(value, (*shape[:place], 1, *shape[place:]))
        sent = tracing.all_to_all(wide, axes, gone, place, groups)
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
    axes = tracing.bound_axes(axis_name, "ppermute")
    pairs = [(operator.index(a), operator.index(b)) for a, b in perm]
    count = tracing.axis_count(axes)
    for side, name in enumerate(("source", "destination")):
        ends = [pair[side] for pair in pairs]
        wrong = [n for n in ends if ends.count(n) > 1 or not 0 <= n < count]
        if wrong:
            msg = (
                f"ppermute: {name} {wrong[0]} of perm={pairs} is there twice or not within the "
                f"{count} positions along {axis_name!r}{at_user_line()}. Name each position once."
            )
            raise InvalidArgumentError(msg, perm=tuple(pairs))
    return _map(lambda leaf: tracing.permute(leaf, axes, pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Return on device ``i`` along axes what device ``perm[i]`` holds."""
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchange a dimension of the values and the devices along axes; see `all_to_all`."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Return what the device at position ``source`` along axes holds, on all of them."""
    axes = tracing.bound_axes(axis_name, "pbroadcast")
    count = tracing.axis_count(axes)
    if not 0 <= source < count:
        msg = f"pbroadcast: source {source} is not within the {count} positions along {axis_name!r}"
        raise InvalidArgumentError(f"{msg}{at_user_line()}.", source=source)
    return _map(lambda leaf: tracing.broadcast_from(leaf, axes, source), x)


def axis_index(axis_name: Any) -> Any:
    """Return the device's position along axes, the last one fastest: an int32."""
    return tracing.axis_index(tracing.bound_axes(axis_name, "axis_index"))


def axis_size(axis_name: Any) -> int:
    """Return the number of devices along axes: a number of Python's."""
    return tracing.axis_count(tracing.bound_axes(axis_name, "axis_size"))


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
    axes = tracing.bound_axes(axis_name, "pcast")
    return _map(lambda leaf: tracing.pvary(leaf, axes), x)


def _map(function: Callable[[Any], Any], x: Any) -> Any:
    return tree_util.tree_map(function, x)


def _is_constant(leaf: Any) -> bool:
    numbers = bool, int, float, complex, np.ndarray, np.generic
    return isinstance(leaf, numbers) and not isinstance(leaf, Tracer)


def _count(axes: Axes, groups: Groups) -> int:
    return tracing.axis_count(axes) if groups is None else len(groups[0])


def _resolved(
    operation: str, axis_name: Any, given: Any, *, same_sizes: bool = False
) -> tuple[Axes, Groups]:
    """Return the axes of a name, and groups of positions along them."""
    axes = tracing.bound_axes(axis_name, operation)
    if given is None:
        return axes, None
    groups = tuple(tuple(operator.index(i) for i in group) for group in given)
    count = tracing.axis_count(axes)
    if sorted(i for group in groups for i in group) != list(range(count)):
        msg = (
            f"{operation}: axis_index_groups {groups} are not the positions 0 to {count - 1} along "
            f"{axis_name!r}, each once{at_user_line()}."
        )
        raise InvalidArgumentError(msg, axis_index_groups=groups)
    if len({len(group) for group in groups}) > 1:
        msg = f"{operation}: axis_index_groups {groups} are of different sizes{at_user_line()}."
        if same_sizes:
            raise InvalidArgumentError(msg, axis_index_groups=groups)
        raise UnimplementedError(msg, operation=operation)
    return axes, groups


def _dimension(operation: str, axis: int, ndim: int) -> int:
    try:
        axis = operator.index(axis)
    except TypeError:
        msg = f"{operation}: a dimension is an integer, not {axis!r}{at_user_line()}."
        raise InvalidTypeError(msg, axis=axis) from None
    if not -ndim <= axis < ndim:
        msg = f"{operation}: dimension {axis} of a value of {ndim}{at_user_line()}."
        raise InvalidArgumentError(msg, axis=axis, ndim=ndim)
    return axis % ndim


def _check_divides(
    operation: str, value: Any, dimension: int, axis_name: Any, count: int, tiled: bool
) -> None:
    size = value.aval.shape[dimension]
    if size == count or (tiled and size % count == 0):
        return
    what = "does not divide into" if tiled else "is not"
    hint = "" if tiled else " Give tiled=True to divide a longer one."
    msg = (
        f"{operation}: dimension {dimension} of {value.aval} has size {size}, which {what} the "
        f"{count} devices along {axis_name!r}{at_user_line()}.{hint}"
    )
    raise InvalidArgumentError(msg, dimension=dimension, size=size, count=count)

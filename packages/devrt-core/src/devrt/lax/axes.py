"""The devices that a collective is over: axes by their names, and groups along them."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from devrt import tracing
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tracing import at_user_line

__all__ = ["Axes", "axes_of"]

Groups = tuple[tuple[int, ...], ...] | None


class Axes(NamedTuple):
    """Along what a collective goes.

    Attributes
    ----------
    operation : str
        The collective's name, for errors.
    given : object
        The axes as they were given.
    names : tuple of str
        The axes of the mesh.
    groups : tuple of tuple of int, or None
        Positions along them in groups, each of which is by itself.
    """

    operation: str
    given: Any
    names: tuple[str, ...]
    groups: Groups

    @property
    def is_even(self) -> bool:
        """Whether all groups are of one size."""
        return self.groups is None or len({len(group) for group in self.groups}) == 1

    @property
    def size(self) -> int:
        """How many devices are in a group, or along the axes."""
        return tracing.axis_count(self.names) if self.groups is None else len(self.groups[0])

    def dimension(self, given: Any, ndim: int) -> int:
        """Return a dimension of a value of ``ndim``, counted from the first."""
        try:
            axis = operator.index(given)
        except TypeError:
            msg = f"{self.operation}: a dimension is an integer, not {given!r}{at_user_line()}."
            raise InvalidTypeError(msg, axis=given) from None
        if not -ndim <= axis < ndim:
            msg = f"{self.operation}: dimension {axis} of a value of {ndim}{at_user_line()}."
            raise InvalidArgumentError(msg, axis=axis, ndim=ndim)
        return axis % ndim

    def check_position(self, position: int, what: str) -> None:
        """Raise `InvalidArgumentError` if there is no such position along the axes."""
        if not 0 <= position < self.size:
            raise self.error(f"{what} {position} is not within the {self.size} positions", what)

    def check_divides(self, value: Any, dimension: int, tiled: bool) -> None:
        """Raise `InvalidArgumentError` unless each device gets a part of a dimension."""
        length, size = value.aval.shape[dimension], self.size
        if length == size or (tiled and length % size == 0):
            return
        what = "does not divide into" if tiled else "is not"
        hint = "" if tiled else " Give tiled=True to divide a longer one."
        reason = f"dimension {dimension} of {value.aval} has size {length}, which {what} the {size}"
        raise self.error(f"{reason} devices", "dimension", hint)

    def error(self, reason: str, what: str, hint: str = "") -> InvalidArgumentError:
        """Return the error for an argument, ``what``, for a reason that ends before the axes."""
        msg = f"{self.operation}: {reason} along {self.given!r}{at_user_line()}.{hint}"
        return InvalidArgumentError(msg, operation=self.operation, argument=what)


def axes_of(
    operation: str, axis_name: Any, groups: Any = None, *, same_sizes: bool = False
) -> Axes:
    """Return along what a collective goes.

    Parameters
    ----------
    operation
        Its name.
    axis_name
        The name of an axis, or several.
    groups
        Positions along the axes in groups; each position is in one.
    same_sizes
        Whether the groups must be of one size.

    Raises
    ------
    UnboundAxisError
        If no enclosing computation binds an axis.
    InvalidArgumentError
        If the groups are others.
    """
    names = tracing.bound_axes(axis_name, operation)
    found = Axes(operation, axis_name, names, None)
    if groups is None:
        return found
    taken = tuple(tuple(operator.index(i) for i in group) for group in groups)
    if sorted(i for group in taken for i in group) != list(range(found.size)):
        reason = (
            f"axis_index_groups {taken} are not the positions 0 to {found.size - 1}, each once,"
        )
        raise found.error(reason, "axis_index_groups")
    found = found._replace(groups=taken)
    if same_sizes and not found.is_even:
        raise found.error(f"axis_index_groups {taken} are of different sizes", "axis_index_groups")
    return found

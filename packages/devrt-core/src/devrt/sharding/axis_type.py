"""Axis types: who decides how arrays are divided over a mesh axis."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["AxisType", "check_axis_types"]


class AxisType(enum.Enum):
    """Who decides how the values of a program are divided over a mesh axis."""

    Auto = enum.auto()
    """The compiler, from the shardings of the inputs."""
    Explicit = enum.auto()
    """The program: the sharding is part of the type of every value."""
    Manual = enum.auto()
    """The program, device by device."""

    def __repr__(self) -> str:
        return self.name


def check_axis_types(types: Any, names: tuple[str, ...]) -> tuple[AxisType, ...]:
    """Return one `AxisType` for each axis; ``Auto`` for all of them for None.

    An entry is an `AxisType`, its name in any case, or an enum member of that name.
    """
    if types is None:
        return (AxisType.Auto,) * len(names)
    given = tuple(types) if isinstance(types, Iterable) and not isinstance(types, str) else (types,)
    if len(given) != len(names):
        msg = (
            f"axis_types {given} has {len(given)} entries, and the mesh has {len(names)} axes: "
            f"{names}. Give one for each."
        )
        raise InvalidArgumentError(msg, axis_types=given, axis_names=names)
    return tuple(map(_axis_type, given))


def _axis_type(given: Any) -> AxisType:
    if isinstance(given, AxisType):
        return given
    name = given if isinstance(given, str) else getattr(given, "name", None)
    for each in AxisType:
        if isinstance(name, str) and name.lower() == each.name.lower():
            return each
    msg = f"an axis type is one of {', '.join(map(repr, AxisType))}, not {given!r}."
    raise InvalidTypeError(msg, axis_type=given)

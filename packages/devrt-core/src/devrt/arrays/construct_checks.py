"""What the functions that make arrays of parts are given, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt import dtypes
from devrt._support.words import kind_of
from devrt.arrays import tree
from devrt.arrays.array import Array
from devrt.arrays.missing import gone
from devrt.arrays.put import as_host, as_host_array
from devrt.contract import Device
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import DeviceList, Sharding

if TYPE_CHECKING:
    import numpy as np

    from devrt.layout import Format

__all__ = [
    "as_format",
    "check_are_devices",
    "check_is_callback",
    "check_is_sharding",
    "check_no_parts",
    "check_part",
    "check_parts",
    "dtype_of",
    "host_of",
    "made_part",
    "names_of",
]

Shape = tuple[int, ...]


def made_part(part: Any, index: tuple[slice, ...]) -> np.ndarray[Any, Any]:
    """Return what the callback made for an index as a NumPy array."""
    if part is None:
        msg = (
            f"data_callback returned None for the part {index}. Return the part itself, an array "
            "of the shape that the index cuts out."
        )
        raise InvalidTypeError(msg, index=index)
    try:
        host = as_host_array(part)
        dtypes.code_of(host.dtype)
    except tree.NAMED_BY_PATH as error:
        msg = f"the callback's part {index}: {error.message}"
        raise type(error)(msg, code=error.code, **{**error.data, "index": index}) from error
    return host


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype that a dtype names; raises if no device holds it."""
    import numpy as np

    dtypes.code_of(dtype)  # refuses what no device holds
    resolved: np.dtype[Any] = np.dtype(dtype)
    return resolved


def check_is_sharding(sharding: object, operation: str) -> None:
    """Raise `InvalidTypeError` unless it is a sharding."""
    if not isinstance(sharding, Sharding):
        msg = (
            f"{operation} takes a sharding, not {sharding!r} of type {kind_of(sharding)}. "
            "For one device write SingleDeviceSharding(device)."
        )
        raise InvalidTypeError(msg, sharding=sharding, operation=operation)


def as_format(given: Any, operation: str) -> Format:
    """Return what was given, if it is a format of an array.

    Raises
    ------
    InvalidTypeError
        If it is none, has no sharding, or leaves the layout to a compiler.
    """
    from devrt.layout import AutoLayout, Format  # not at the top: few programs need it

    check_is_sharding(given.sharding if isinstance(given, Format) else given, operation)
    if isinstance(given.layout, AutoLayout):
        msg = (
            f"`Layout.AUTO` cannot be used in place of a device-local layout in {operation}: no "
            "compiler is there to choose one. Pass a Layout, or none."
        )
        raise InvalidTypeError(msg, operation=operation)
    form: Format = given
    return form


def check_is_callback(callback: object, operation: str) -> None:
    """Raise `InvalidTypeError` unless it can be called."""
    if not callable(callback):
        msg = (
            f"{operation} takes a function of an index that returns that part, not {callback!r} "
            f"of type {type(callback).__name__}. For data that is there already use "
            "devrt.device_put."
        )
        raise InvalidTypeError(msg, operation=operation)


def host_of(value: Any, operation: str) -> np.ndarray[Any, Any]:
    """Return a value as `as_host` does; a deleted array is an error that names the operation."""
    if type(value) is Array and value.is_deleted():
        raise gone(value, operation)
    return as_host(value)


def check_are_devices(devices: Any, operation: str) -> None:
    """Raise `InvalidTypeError` unless it is a sequence of devices."""
    is_sequence = isinstance(devices, Sequence | DeviceList)
    if not is_sequence or not all(isinstance(device, Device) for device in devices):
        msg = (
            f"{operation} takes a sequence of devices, not {devices!r} of type "
            f"{type(devices).__name__}. Pass one, for example devrt.local_devices()."
        )
        raise InvalidTypeError(msg, devices=devices, operation=operation)


def check_no_parts(arrays: Sequence[Array], sharding: Sharding) -> None:
    """Raise if there are arrays for a sharding that has no device in this process."""
    if arrays:
        given = names_of([part.device for part in arrays])
        msg = (
            f"no device of {sharding} belongs to this process, so it has no part of the array, but "
            f"arrays on {given} were given. Pass an empty list."
        )
        raise InvalidArgumentError(msg, sharding=sharding)


def check_parts(parts: Sequence[Array], shape: Shape, sharding: Sharding, dtype: Any) -> None:
    """Raise `InvalidArgumentError` unless every part has the shape and the dtype."""
    expected = parts[0].dtype if dtype is None else dtypes.to_numpy(dtypes.code_of(dtype))
    for part in parts:
        check_part(part, shape, expected, f"the array on {part.device} for {sharding}")


def check_part(part: Any, shape: Shape, dtype: Any, what: str) -> None:
    """Raise `InvalidArgumentError` unless a part has the shape and the dtype."""
    if part.shape != shape or part.dtype != dtype:
        msg = (
            f"{what} must have shape {shape} and dtype {dtype}, not {part.shape} and {part.dtype}."
        )
        raise InvalidArgumentError(msg, shape=part.shape, dtype=str(part.dtype))


def names_of(devices: Any) -> str:
    """Return the names of devices, for a message."""
    return ", ".join(map(str, devices))

"""Arrays put together from parts that are on devices already, or that a callback makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from devrt.arrays._array import Array
from devrt.arrays._placement import device_put
from devrt.contract import Buffer, Device
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "device_put_replicated",
    "device_put_sharded",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
]

Shape = tuple[int, ...]


def make_array_from_single_device_arrays(*arguments: Any, **named: Any) -> Array:
    """Make one array of arrays that lie on the devices of a sharding, without copying.

    Called as ``(arrays, sharding)``, or as JAX has it, ``(shape, sharding, arrays)``.

    Parameters
    ----------
    shape
        The global shape; worked out from the parts when it is not given.
    sharding
        Which part lies where.
    arrays
        One array per addressable device of the sharding, in any order.

    Raises
    ------
    InvalidArgumentError
        If a device has no array or two, or the parts' shapes and dtypes do not fit.
    """
    shape, sharding, arrays = _from_parts_arguments(arguments, named)
    by_device = {part.device: part for part in arrays}
    expected = sharding.device_list.addressable_device_list
    if len(by_device) != len(arrays) or set(by_device) != set(expected):
        msg = (
            f"{sharding} needs one array on each of {_names(expected)}, but the arrays are on "
            f"{_names([part.device for part in arrays])}."
        )
        raise InvalidArgumentError(msg, sharding=sharding)
    parts = [by_device[device] for device in expected]
    shape = _global_shape(sharding, parts[0].shape) if shape is None else tuple(shape)
    _check_parts(parts, sharding.placement(shape).shard_shape, sharding)
    buffers = tuple(part._buffers[0].clone() for part in parts)
    return Array(buffers, sharding, shape)


def make_array_from_callback(
    shape: Shape,
    sharding: Sharding,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: Any = None,
) -> Array:
    """Make an array whose parts a callback makes.

    Parameters
    ----------
    shape
        The global shape.
    sharding
        Which part goes where.
    data_callback
        Called with the index of a part, a tuple of slices into the global array; returns it. Only
        parts that this process addresses are asked for, equal ones once.
    dtype
        The element type that the parts must have; that of the first part when omitted.

    Raises
    ------
    InvalidArgumentError
        If a part's shape or dtype is not the expected one.
    """
    import numpy as np

    plan = sharding.placement(tuple(shape))
    expected = None if dtype is None else np.dtype(dtype)
    made: dict[Shape, np.ndarray[Any, Any]] = {}
    buffers: list[Buffer] = []
    for device, offset, index in zip(plan.devices, plan.offsets, plan.indices, strict=True):
        if offset not in made:
            part = np.asarray(data_callback(index))
            expected = part.dtype if expected is None else expected
            _check_part(part, plan.shard_shape, expected, f"the callback's part {index}")
            made[offset] = part
        where = SingleDeviceSharding(device, memory_kind=sharding.memory_kind)
        buffers.append(device_put(made[offset], where)._buffers[0])
    return Array(tuple(buffers), sharding, tuple(shape))


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Shape | None = None
) -> Array:
    """Make an array of the part that this process has.

    Parameters
    ----------
    sharding
        Which part goes where.
    local_data
        This process's part of the array: all of it where there is one process.
    global_shape
        The shape of the whole array; worked out from the local part when omitted.

    Raises
    ------
    InvalidArgumentError
        If ``local_data`` does not have the shape of this process's part.
    """
    import numpy as np

    local = np.asarray(local_data)
    if not sharding.is_fully_addressable:
        msg = (
            f"{sharding} spans several processes; arrays of process-local data over processes "
            "need the distributed runtime, which this release does not have yet."
        )
        raise InvalidArgumentError(msg, sharding=sharding)
    shape = local.shape if global_shape is None else tuple(global_shape)
    if shape != local.shape:
        msg = (
            f"this process holds every part of {sharding}, so its data must have the global shape "
            f"{shape}, not {local.shape}."
        )
        raise InvalidArgumentError(msg, shape=local.shape, global_shape=shape)
    placed: Array = device_put(local, sharding)
    return placed


def device_put_sharded(
    sharded_values: Sequence[Any], devices: Sequence[Device], indices: Any = None
) -> Array:
    """Put one value on each device, and see them as one array with a leading axis of devices.

    Parameters
    ----------
    sharded_values
        As many values as devices, of one shape and dtype.
    devices
        The devices, in the order of the values.
    indices
        Not used; there for programs written against older interfaces.

    Returns
    -------
    Array
        Of shape ``(len(devices), *value.shape)``, divided along its first dimension.
    """
    import numpy as np

    values = [np.asarray(value) for value in sharded_values]
    if len(values) != len(devices) or not values:
        msg = f"device_put_sharded needs one value per device: {len(values)} for {len(devices)}."
        raise InvalidArgumentError(msg, values=len(values), devices=len(devices))
    first = values[0]
    for number, value in enumerate(values):
        _check_part(value, first.shape, first.dtype, f"value {number}")
    buffers = tuple(
        device_put(value[None], device)._buffers[0]
        for value, device in zip(values, devices, strict=True)
    )
    return Array(buffers, _along_devices(devices), (len(values), *first.shape))


def device_put_replicated(x: Any, devices: Sequence[Device]) -> Array:
    """Put a value on each device, and see the copies as one array with a leading axis of devices.

    Returns
    -------
    Array
        Of shape ``(len(devices), *x.shape)``, divided along its first dimension. Devices that
        share memory share the copy.
    """
    import numpy as np

    value = np.asarray(x)
    shape = (len(devices), *value.shape)
    placed: Array = device_put(np.broadcast_to(value, shape), _along_devices(devices))
    return placed


def _along_devices(devices: Sequence[Device]) -> NamedSharding:
    import numpy as np

    grid = np.empty(len(devices), dtype=object)
    grid[:] = list(devices)
    return NamedSharding(Mesh(grid, ("_device_put_sharded",)), PartitionSpec("_device_put_sharded"))


def _from_parts_arguments(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Shape | None, Sharding, Sequence[Array]]:
    order = ("arrays", "sharding") if len(arguments) + len(named) == 2 else _JAX_ORDER
    given = dict(zip(order, arguments, strict=False)) | named
    fits = len(arguments) <= len(order) and {"arrays", "sharding"} <= set(given) <= set(_JAX_ORDER)
    if not fits or not isinstance(given["sharding"], Sharding):
        msg = (
            "make_array_from_single_device_arrays takes (arrays, sharding) or "
            f"(shape, sharding, arrays), not {sorted(given)}."
        )
        raise InvalidTypeError(msg)
    arrays = given["arrays"]
    is_list = isinstance(arrays, Sequence) and len(arrays) > 0
    if not is_list or not all(type(part) is Array and len(part._buffers) == 1 for part in arrays):
        msg = "make_array_from_single_device_arrays takes a list of arrays on one device each."
        raise InvalidTypeError(msg)
    return given.get("shape"), given["sharding"], arrays


_JAX_ORDER = ("shape", "sharding", "arrays")


def _global_shape(sharding: Sharding, block: Shape) -> Shape:
    """Return the shape whose blocks are ``block``: each dimension times its number of parts."""
    count = sharding.num_devices
    probe = sharding.placement((count,) * len(block)).shard_shape
    return tuple(size * (count // part) for size, part in zip(block, probe, strict=True))


def _check_parts(parts: Sequence[Array], shape: Shape, sharding: Sharding) -> None:
    for part in parts:
        _check_part(part, shape, parts[0].dtype, f"the array on {part.device} for {sharding}")


def _check_part(part: Any, shape: Shape, dtype: Any, what: str) -> None:
    if part.shape != shape or part.dtype != dtype:
        msg = (
            f"{what} must have shape {shape} and dtype {dtype}, not {part.shape} and {part.dtype}."
        )
        raise InvalidArgumentError(msg, shape=part.shape, dtype=str(part.dtype))


def _names(devices: Any) -> str:
    return ", ".join(map(str, devices))

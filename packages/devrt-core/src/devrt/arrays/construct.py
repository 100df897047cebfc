"""Arrays put together from parts that are on devices already, or that a callback makes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt._pytree.functions import tree_map
from devrt.arrays import tree
from devrt.arrays.array import Array
from devrt.arrays.construct_checks import (
    as_format,
    check_are_devices,
    check_is_callback,
    check_is_sharding,
    check_no_parts,
    check_part,
    check_parts,
    dtype_of,
    host_of,
    made_part,
    names_of,
)
from devrt.arrays.guards import Config, check_transfer
from devrt.arrays.missing import NoShards, gone
from devrt.arrays.placement import device_put
from devrt.arrays.reshard import targets_of
from devrt.contract import Buffer, Device
from devrt.errors import ClosedError, DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.runtime.plugin_errors import names_plugins
from devrt.sharding import Mesh, NamedSharding, PartitionSpec, Placement, Sharding, as_shape

if TYPE_CHECKING:
    import numpy as np

    from devrt.layout import Format

__all__ = [
    "device_put_replicated",
    "device_put_sharded",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "put_parts",
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
    dtype
        The element type that the parts must have; by name only. Needed, as ``shape`` is, where
        this process addresses no device of the sharding and so has no parts.

    Raises
    ------
    InvalidArgumentError
        If a device has no array or two, or the parts' shapes and dtypes do not fit.
    """
    dtype = named.pop("dtype", None)
    shape, sharding, arrays = _from_parts_arguments(arguments, named)
    name = "make_array_from_single_device_arrays"
    try:
        by_device = {part.device: part for part in arrays}
    except (ClosedError, DeletedError) as error:
        # Where the client is being closed, no part need be deleted yet.
        raise next((gone(part, name) for part in arrays if part.is_deleted()), error) from None
    expected = sharding.device_list.addressable_device_list
    if not expected:
        check_no_parts(arrays, sharding)
        return _without_parts(shape, sharding, dtype, name)
    if len(by_device) != len(arrays) or set(by_device) != set(expected):
        msg = (
            f"{sharding} needs one array on each of {names_of(expected)}, but the arrays are on "
            f"{names_of([part.device for part in arrays])}."
        )
        raise InvalidArgumentError(msg, sharding=sharding)
    parts = [by_device[device] for device in expected]
    shape = _global_shape(sharding, parts[0].shape) if shape is None else shape
    check_parts(parts, sharding.placement(shape).shard_shape, sharding, dtype)
    buffers = tuple(part._buffers[0].clone() for part in parts)
    return Array(buffers, sharding, shape)


@names_plugins
def make_array_from_callback(
    shape: Shape,
    sharding: Sharding | Format,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: Any = None,
) -> Array:
    """Make an array whose parts a callback makes.

    Parameters
    ----------
    shape
        The global shape.
    sharding
        Which part goes where; or a `devrt.layout.Format`, which says its layout too.
    data_callback
        Called with the index of a part, a tuple of slices into the global array; returns it. Only
        parts that this process addresses are requested, equal ones once.
    dtype
        The element type that the parts must have; that of the first part when omitted. Needed
        where this process addresses no device of the sharding, and so no part is requested.

    Raises
    ------
    InvalidArgumentError
        If a part's shape or dtype is not the expected one.
    """
    name = "make_array_from_callback"
    if not isinstance(sharding, Sharding):
        from devrt.arrays.formats import move_to_format  # few programs need it

        form = as_format(sharding, name)
        made = make_array_from_callback(shape, form.sharding, data_callback, dtype)
        return move_to_format(made, form)
    shape = as_shape(shape, name)
    plan = sharding.placement(shape)
    check_is_callback(data_callback, name)
    if not plan.devices:
        return _without_parts(shape, sharding, dtype, name)
    expected = None if dtype is None else dtype_of(dtype)
    parts: dict[Shape, np.ndarray[Any, Any]] = {}
    for offset, index in zip(plan.offsets, plan.indices, strict=True):
        if offset not in parts:
            part = made_part(data_callback(index), index)
            expected = part.dtype if expected is None else expected
            check_part(part, plan.shard_shape, expected, f"the callback's part {index}")
            parts[offset] = part
    if Config.guards_are_set:
        first = next(iter(parts.values()))
        check_transfer("host_to_device", name, first, sharding, is_explicit=False)
    return Array(put_parts(parts, plan, sharding), sharding, shape)


def put_parts(
    parts: Mapping[Shape, np.ndarray[Any, Any]], plan: Placement, sharding: Sharding
) -> list[Buffer]:
    """Put each part on its devices: from the host once, then by copies between them."""
    targets = targets_of(plan.devices, sharding.memory_kind)
    first = {offset: index for index, offset in reversed(list(enumerate(plan.offsets)))}
    client = plan.devices[0].client
    made = client.buffers_from_pyvals(
        [parts[offset] for offset in first], [targets[index] for index in first.values()]
    )
    by_offset = dict(zip(first, made, strict=True))
    others = [index for index, offset in enumerate(plan.offsets) if first[offset] != index]
    copies = client.batched_copy_to_memory(
        [by_offset[plan.offsets[index]] for index in others], [targets[index] for index in others]
    )
    placed = [by_offset[offset] for offset in plan.offsets]
    for index, copy in zip(others, copies, strict=True):
        placed[index] = copy
    return placed


@names_plugins
def make_array_from_process_local_data(
    sharding: Any,
    local_data: Any,
    global_shape: Any = None,
) -> Any:
    """Make an array, or a tree of arrays, of the parts that this process has.

    Parameters
    ----------
    sharding
        Which part goes where: a `Sharding`, or a tree of them that is a prefix of ``local_data``.
    local_data
        The parts that this process addresses, put together as they lie in the array: all of it
        where there is one process. A dimension may hold all of the array's elements instead. Or a
        tree of such values.
    global_shape
        The shape of the whole array; None, or None for a dimension, to have it worked out from
        the local part: as many times that as processes divide it. Or a tree of shapes that is a
        prefix of ``local_data``.

    Returns
    -------
    Array or tree of Array
        One for each leaf of ``local_data``. Does not wait for the devices.

    Raises
    ------
    InvalidArgumentError
        If ``local_data`` does not have the shape of this process's part, or the parts of this
        process do not form a block.
    """
    if tree.is_leaf(local_data):
        return _of_local_data(local_data, sharding, global_shape)
    shapes = tree_map(_Shape, global_shape, is_leaf=_is_shape)
    return tree.map_leaves(
        lambda data, where, shape: _of_local_data(data, where, shape.sizes),
        local_data,
        sharding,
        shapes,
    )


class _Shape:
    """A shape as a leaf: a tuple would be a node."""

    def __init__(self, sizes: Any) -> None:
        self.sizes = sizes


def _is_shape(x: Any) -> bool:
    if not isinstance(x, tuple | list):
        return x is None
    return all(size is None or hasattr(size, "__index__") for size in x)


def _of_local_data(local_data: Any, sharding: Any, global_shape: Any) -> Array:
    from devrt.arrays.process_local import LocalBlock

    name = "make_array_from_process_local_data"
    check_is_sharding(sharding, name)
    local = host_of(local_data, name)
    block = LocalBlock.of(sharding, local.shape, global_shape)
    if Config.guards_are_set:
        check_transfer("host_to_device", name, local, sharding, is_explicit=True)
    plan = sharding.placement(block.global_shape)
    targets = targets_of(plan.devices, sharding.memory_kind)
    offsets = [block.local_offset(offset) for offset in plan.offsets]
    buffers = plan.devices[0].client.batched_buffer_from_pyval(
        local, targets, offsets, plan.shard_shape
    )
    return Array(buffers, sharding, block.global_shape)


@names_plugins
def device_put_sharded(
    sharded_values: Sequence[Any], devices: Sequence[Device], indices: Any = None
) -> Any:
    """Put one value on each device, and see them as one array with a leading axis of devices.

    Parameters
    ----------
    sharded_values
        As many values as devices, of one shape and dtype; or as many trees of one structure.
    devices
        The devices, in the order of the values.
    indices
        Not used; there for programs written against older interfaces.

    Returns
    -------
    Array or tree of Array
        Of shape ``(len(devices), *value.shape)``, divided along its first dimension.

    Raises
    ------
    InvalidArgumentError
        If there is not one value per device, or their structures, shapes or dtypes differ.
    """
    check_are_devices(devices, "device_put_sharded")
    if len(sharded_values) != len(devices) or not devices:
        msg = (
            "device_put_sharded needs one value per device: "
            f"{len(sharded_values)} for {len(devices)}."
        )
        raise InvalidArgumentError(msg, values=len(sharded_values), devices=len(devices))
    first, *others = sharded_values
    columns = [
        tree.leaves_like(other, first, f"value {number}")
        for number, other in enumerate(others, start=1)
    ]
    rows = iter(zip(*columns, strict=True)) if columns else itertools.repeat(())
    sharding = _along_devices(devices)
    return tree.map_leaves(lambda leaf: _stacked([leaf, *next(rows)], sharding), first)


def _stacked(values: Sequence[Any], sharding: NamedSharding) -> Array:
    hosts = [host_of(value, "device_put_sharded") for value in values]
    for number, host in enumerate(hosts):
        check_part(host, hosts[0].shape, hosts[0].dtype, f"value {number}")
    shape = (len(hosts), *hosts[0].shape)
    if Config.guards_are_set:
        check_transfer("host_to_device", "device_put_sharded", hosts[0], sharding, is_explicit=True)
    parts = {(n, *(0,) * hosts[0].ndim): host[None] for n, host in enumerate(hosts)}
    return Array(put_parts(parts, sharding.placement(shape), sharding), sharding, shape)


@names_plugins
def device_put_replicated(x: Any, devices: Sequence[Device]) -> Any:
    """Put a value on each device, and see the copies as one array with a leading axis of devices.

    Parameters
    ----------
    x
        A value or a tree of values.
    devices
        The devices.

    Returns
    -------
    Array or tree of Array
        Of shape ``(len(devices), *x.shape)``, divided along its first dimension. Devices that
        share memory share the copy.
    """
    import numpy as np

    check_are_devices(devices, "device_put_replicated")
    sharding = _along_devices(devices)

    def put(leaf: Any) -> Any:
        host = host_of(leaf, "device_put_replicated")
        return device_put(np.broadcast_to(host, (len(devices), *host.shape)), sharding)

    return tree.map_leaves(put, x)


def _along_devices(devices: Sequence[Device]) -> NamedSharding:
    import numpy as np

    if not devices:
        msg = "there are no devices to put the value on. Pass at least one."
        raise InvalidArgumentError(msg)
    grid = np.empty(len(devices), dtype=object)
    grid[:] = list(devices)
    return NamedSharding(Mesh(grid, ("_device_put_sharded",)), PartitionSpec("_device_put_sharded"))


def _from_parts_arguments(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Shape | None, Sharding, Sequence[Array]]:
    order = ("arrays", "sharding") if len(arguments) + len(named) == 2 else _JAX_ORDER
    given = dict(zip(order, arguments, strict=False)) | named
    name = "make_array_from_single_device_arrays"
    fits = len(arguments) <= len(order) and {"arrays", "sharding"} <= set(given) <= set(_JAX_ORDER)
    if not fits or not isinstance(given["sharding"], Sharding):
        msg = f"{name} takes (arrays, sharding) or (shape, sharding, arrays), not {sorted(given)}."
        raise InvalidTypeError(msg)
    arrays = given["arrays"]
    is_list = isinstance(arrays, Sequence)
    if not is_list or not all(type(part) is Array and len(part._buffers) == 1 for part in arrays):
        msg = f"{name} takes a list of arrays on one device each."
        raise InvalidTypeError(msg)
    shape = given.get("shape")
    return None if shape is None else as_shape(shape, name), given["sharding"], arrays


_JAX_ORDER = ("shape", "sharding", "arrays")


def _global_shape(sharding: Sharding, block: Shape) -> Shape:
    """Return the shape whose blocks are ``block``: each dimension times its number of parts."""
    count = sharding.num_devices
    probe = sharding.placement((count,) * len(block)).shard_shape
    return tuple(size * (count // part) for size, part in zip(block, probe, strict=True))


def _without_parts(shape: Shape | None, sharding: Sharding, dtype: Any, operation: str) -> Array:
    """Return an array of which this process holds nothing."""
    if shape is None or dtype is None:
        msg = (
            f"no device of {sharding} belongs to this process, so {operation} has no parts to "
            "learn from: pass the global shape and dtype."
        )
        raise InvalidArgumentError(msg, sharding=sharding)
    sharding.placement(shape)  # refuses shapes that do not fit
    return Array(NoShards(dtype, sharding), sharding, shape)

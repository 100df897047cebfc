"""Arrays whose shards have a layout of their own: what `device_put` does for a `Format`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from devrt.arrays.array import Array
from devrt.arrays.missing import NoShards
from devrt.arrays.read_only import host_of
from devrt.arrays.reshard import reshard, targets_of
from devrt.contract import Buffer, Device, Memory
from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError
from devrt.layout import AutoLayout, Format, Layout, PjRtLayout
from devrt.runtime.plugin_errors import names_plugins
from devrt.sharding import Sharding

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "is_in_format",
    "move_to_format",
    "put_in_format",
    "sharding_of",
]


def sharding_of(target: Format, operation: str) -> Sharding:
    """Return the sharding of a format that values can be put in.

    Raises
    ------
    InvalidArgumentError
        If its layout is left to a compiler, or it has no sharding.
    """
    if isinstance(target.layout, AutoLayout) or target.sharding is None:
        msg = (
            f"{operation} cannot place in {target}: the sharding and layout in a Format should be "
            "concrete where a value is put. Layout.AUTO is for programs, whose compiler chooses; "
            "pass a Layout or None, and a sharding."
        )
        raise InvalidArgumentError(msg, operation=operation, target=target)
    sharding: Sharding = target.sharding
    return sharding


@names_plugins
def put_in_format(x: np.ndarray[Any, Any], target: Format, semantics: int) -> Array:
    """Put a host array that is no plain one for its devices: each shard in the layout; no wait."""
    sharding, layout = sharding_of(target, "device_put"), cast(Layout, target.layout)
    layout.check_compatible_aval(x.shape)
    plan = sharding.placement(x.shape)
    if not plan.devices:
        return Array(NoShards(x.dtype, sharding), sharding, x.shape)
    targets = targets_of(plan.devices, sharding.memory_kind)
    pairs = zip(targets, plan.indices, strict=True)
    buffers = [_put(x[index], where, layout, semantics) for where, index in pairs]
    return Array(buffers, sharding, x.shape)


def move_to_format(x: Array, target: Format, may_alias: bool = True) -> Array:
    """Return an array under a format's sharding and in its layout.

    Shards that lie in another layout are read, and put again.
    """
    placed = reshard(x, sharding_of(target, "device_put"), may_alias)
    layout = target.layout
    if not isinstance(layout, Layout):
        return placed
    layout.check_compatible_aval(x.shape)
    if all(buffer.layout == layout for buffer in placed._buffers):
        return placed
    return Array(_laid_out(placed._buffers, layout), placed.sharding, placed.shape)


@names_plugins
def _laid_out(buffers: Sequence[Buffer], layout: Layout) -> list[Buffer]:
    for buffer in buffers:
        buffer.copy_to_host_async()
    return [_put(host_of(buffer), buffer.memory, layout, 0) for buffer in buffers]


def is_in_format(x: Array, target: Format) -> bool:
    """Return whether an array lies so already."""
    sharding, layout = target.sharding, target.layout
    if sharding is None or not x.sharding.is_equivalent_to(sharding, x.ndim):
        return False
    return layout is None or all(buffer.layout == layout for buffer in x._buffers)


def _put(
    block: np.ndarray[Any, Any], where: Device | Memory, layout: Layout, semantics: int
) -> Buffer:
    device = where if isinstance(where, Device) else where.addressable_by_devices()[0]
    client: Any = device.client
    if PjRtLayout(layout) == client.get_default_layout(block.dtype, block.shape, where):
        made: Buffer = client.buffer_from_pyval(block, where, False, semantics)
        return made
    try:
        laid: Buffer = client.buffer_from_pyval(block, where, False, semantics, layout=layout)
    except TypeError as error:
        if isinstance(error, DevrtError):
            raise
        msg = (
            f"the {device.platform} backend puts values in its default layout only, and "
            f"device_put was given the layout {layout}. Leave the layout out."
        )
        raise UnimplementedError(msg, operation="device_put", layout=str(layout)) from error
    return laid

"""Meshes made from a shape and a sequence of devices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from devrt.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from devrt.sharding.abstract_mesh import check_axis_names, check_axis_sizes
from devrt.sharding.mesh import Mesh
from devrt.sharding.topology_order import order_by_topology

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["make_mesh", "make_mesh_from_devices"]


def make_mesh(
    mesh_shape: Iterable[int] | None = None,
    axis_names: str | Iterable[str] = (),
    axis_types: Any = None,
    *,
    devices: Iterable[Device] | None = None,
    axis_shapes: Iterable[int] | None = None,
) -> Mesh:
    """Lay devices out as a mesh of a given shape.

    Parameters
    ----------
    mesh_shape
        The size of each axis.
    axis_names
        The name of each axis; a str alone is one name.
    axis_types
        The `AxisType` of each axis, or its name; ``Auto`` when omitted, as for `Mesh`. (JAX has
        ``Explicit`` here: pass it where a program is to see shardings in its types.)
    devices
        The devices in the order in which the mesh shall have them. When omitted, those of the
        default backend, laid out by their position in the hardware (`order_by_topology`). Of more
        devices than the mesh has positions the first ones are taken.
    axis_shapes
        JAX's name for ``mesh_shape``.

    Returns
    -------
    Mesh
        The mesh.

    Raises
    ------
    InvalidArgumentError
        If a size is not positive, the names do not match the shape, or there are too few devices.
    """
    if (mesh_shape is None) == (axis_shapes is None):
        msg = "make_mesh takes the size of each axis once, as mesh_shape or as axis_shapes."
        raise InvalidTypeError(msg)
    sizes = axis_shapes if mesh_shape is None else mesh_shape
    assert sizes is not None
    if devices is not None:
        return make_mesh_from_devices(sizes, axis_names, devices, axis_types=axis_types)
    from devrt import runtime  # not at the top: meshes of given devices need no runtime

    found = runtime.devices()
    return make_mesh_from_devices(sizes, axis_names, found, by_topology=True, axis_types=axis_types)


def make_mesh_from_devices(
    mesh_shape: Iterable[int],
    axis_names: str | Iterable[str],
    devices: Iterable[Device],
    *,
    by_topology: bool = False,
    axis_types: Any = None,
) -> Mesh:
    """Lay devices out as a mesh of a given shape.

    Parameters
    ----------
    mesh_shape
        The size of each axis.
    axis_names
        The name of each axis; a str alone is one name.
    devices
        The devices to choose from; the first ones are taken, as many as the mesh has positions.
    by_topology
        Whether to lay the chosen devices out by their position in the hardware
        (`order_by_topology`) instead of in the order given.
    axis_types
        The `AxisType` of each axis, or its name; ``Auto`` when omitted.

    Returns
    -------
    Mesh
        A mesh of the first devices.

    Raises
    ------
    InvalidArgumentError
        If a size is not positive, the names do not match the shape, or there are too few devices.
    """
    sizes = check_axis_sizes(mesh_shape)
    names = check_axis_names(axis_names, sizes)
    available = list(devices)
    needed = math.prod(sizes)
    if needed > len(available):
        _raise_too_few(sizes, names, available)
    chosen = available[:needed]
    if by_topology:
        chosen = order_by_topology(chosen, sizes)

    import numpy as np

    grid = np.empty(needed, dtype=object)
    grid[:] = chosen
    return Mesh(grid.reshape(sizes), names, axis_types)


def _is_option(name: str) -> bool:
    from devrt.runtime import default_runtime

    try:
        return bool(default_runtime().config.spec(name))
    except ConfigError:
        return False


def _raise_too_few(sizes: tuple[int, ...], names: tuple[str, ...], available: list[Device]) -> None:
    needed = math.prod(sizes)
    platform = available[0].platform if available else ""
    option = f"num_{platform}_devices"
    more = ""
    if _is_option(option):  # its devices are virtual
        more = f", or set {option} before its first use (DEVRT_{option.upper()}={needed})"
    of = f" {platform}" if platform else ""
    axes = ", ".join(f"{name!r}: {size}" for name, size in zip(names, sizes, strict=True))
    msg = (
        f"A mesh of shape {sizes} ({axes}) needs {needed} devices, but only {len(available)}"
        f"{of} devices are available. Make the mesh smaller, or pass more devices{more}."
    )
    raise InvalidArgumentError(
        msg, needed=needed, available=len(available), mesh_shape=sizes, platform=platform
    )

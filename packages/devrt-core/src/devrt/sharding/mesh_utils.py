"""Arrays of devices for meshes: of one network, or of several that a slower one joins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError
from devrt.sharding.abstract_mesh import check_axis_sizes
from devrt.sharding.topology_order import order_by_topology

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from devrt.contract import Device

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Iterable[int],
    devices: Sequence[Device] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> npt.NDArray[np.object_]:
    """Return devices as an array for a `devrt.sharding.Mesh`, neighbours beside each other.

    Parameters
    ----------
    mesh_shape
        The shape of the array.
    devices
        As many devices as it has positions; those of the default backend when omitted.
    contiguous_submeshes, allow_split_physical_axes
        Taken for JAX's sake: an axis of the mesh is made of several dimensions of the hardware, or
        of a part of one, where nothing else fits, and devices of a process are not kept together.

    Returns
    -------
    numpy.ndarray of Device
        Laid out as `devrt.make_mesh` does.

    Raises
    ------
    InvalidArgumentError
        If a size is not positive, or there are more or fewer devices than positions.
    """
    sizes = check_axis_sizes(mesh_shape)
    given = _given_or_all(devices)
    if math.prod(sizes) != len(given):
        msg = (
            f"Number of devices {len(given)} must equal the product of mesh_shape {sizes}. Pass "
            "as many devices as the mesh has positions."
        )
        raise InvalidArgumentError(msg, mesh_shape=sizes, available=len(given))
    return _grid(order_by_topology(given, sizes), sizes)


def create_hybrid_device_mesh(
    mesh_shape: Iterable[int],
    dcn_mesh_shape: Iterable[int],
    devices: Sequence[Device] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> npt.NDArray[np.object_]:
    """Return devices as an array for a mesh over several groups that a slower network joins.

    Parameters
    ----------
    mesh_shape
        The shape of the part of each group.
    dcn_mesh_shape
        How many groups there are along each axis; as many entries.
    devices
        The devices; those of the default backend when omitted.
    process_is_granule
        Whether the devices of a process are a group; else those with one ``slice_index``.
    should_sort_granules_by_key
        Whether groups are taken by their number; else in the order of their first devices.
    allow_split_physical_axes
        As for `create_device_mesh`.

    Returns
    -------
    numpy.ndarray of Device
        Of the shape ``mesh_shape * dcn_mesh_shape``: along each axis, whole groups one after the
        other.

    Raises
    ------
    InvalidArgumentError
        If the shapes are of different lengths, devices have no such number, or groups and their
        devices are not as many as the shapes have positions.
    """
    import numpy as np

    sizes, groups = check_axis_sizes(mesh_shape), check_axis_sizes(dcn_mesh_shape)
    if len(sizes) != len(groups):
        msg = (
            f"mesh_shape {sizes} and dcn_mesh_shape {groups} have one entry for each axis, and are "
            "of different lengths. Write 1 where an axis is not divided."
        )
        raise InvalidArgumentError(msg, mesh_shape=sizes, dcn_mesh_shape=groups)
    name = "process_index" if process_is_granule else "slice_index"
    granules = _granules(_given_or_all(devices), name)
    if math.prod(groups) != len(granules):
        msg = (
            f"Number of slices {len(granules)} must equal the product of dcn_mesh_shape {groups}: "
            f"{name} tells the devices apart. Give the shape of {len(granules)} groups, or "
            f"process_is_granule={not process_is_granule}."
        )
        raise InvalidArgumentError(msg, dcn_mesh_shape=groups, granules=len(granules))
    keys = sorted(granules) if should_sort_granules_by_key else list(granules)
    shape = tuple(n * m for n, m in zip(groups, sizes, strict=True))
    grid = np.empty(shape, dtype=object)
    for key, place in zip(keys, np.ndindex(*groups), strict=True):
        cuts = tuple(slice(at * n, (at + 1) * n) for at, n in zip(place, sizes, strict=True))
        grid[cuts] = create_device_mesh(sizes, granules[key])
    return grid


def _granules(devices: Sequence[Device], name: str) -> dict[int, list[Device]]:
    granules: dict[int, list[Device]] = {}
    for device in devices:
        key: Any = getattr(device, name, None)
        if key is None:
            msg = (
                f"Device {device} does not have attribute {name}, which tells the groups of "
                "devices apart. Pass process_is_granule=True where each process is one."
            )
            raise InvalidArgumentError(msg, device=str(device))
        granules.setdefault(key, []).append(device)
    return granules


def _given_or_all(devices: Sequence[Device] | None) -> list[Device]:
    if devices is not None:
        return list(devices)
    from devrt import runtime  # not at the top: meshes of given devices need no runtime

    return list(runtime.devices())


def _grid(devices: Sequence[Device], sizes: tuple[int, ...]) -> npt.NDArray[np.object_]:
    import numpy as np

    grid = np.empty(len(devices), dtype=object)
    grid[:] = devices
    return grid.reshape(sizes)

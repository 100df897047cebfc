"""Meshes: devices laid out along named axes."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from devrt._support.context import Context
from devrt._support.words import kind_of
from devrt.contract import Device
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding.abstract_mesh import AbstractMesh, MeshAxes, check_axis_names
from devrt.sharding.axis_type import AxisType
from devrt.sharding.device_list import DeviceList
from devrt.sharding.device_ref import find_devices, refer_to_devices

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    import numpy.typing as npt

__all__ = [
    "Mesh",
    "computing_mesh",
    "current_mesh",
    "get_mesh",
    "mesh_context",
    "set_mesh",
    "use_mesh",
]

# The meshes that are entered in this thread or task, the innermost last.
_entered: contextvars.ContextVar[tuple[Mesh, ...]] = contextvars.ContextVar(
    "devrt_meshes", default=()
)

# The mesh over which this thread or task computes: of those, the last that was set.
_computing: contextvars.ContextVar[Mesh | None] = contextvars.ContextVar(
    "devrt_computing_mesh", default=None
)


def current_mesh() -> Mesh | None:
    """Return the mesh that is entered in this thread or task, the innermost one, or None.

    By ``with mesh:``, `use_mesh` or `set_mesh`.
    """
    entered = _entered.get()
    return entered[-1] if entered else None


get_mesh = current_mesh  # JAX's name


def computing_mesh() -> Mesh | None:
    """Return the mesh that `set_mesh` set in this thread or task: programs run on its devices."""
    return _computing.get()


class set_mesh:  # noqa: N801  JAX's name
    """Enter a mesh from now on, or for a block: ``with set_mesh(mesh):``.

    Parameters
    ----------
    mesh
        The mesh that a `PartitionSpec` alone is over, and `devrt.shard_map` without one; all
        programs run on its devices. It stays the current one of this thread or task until another
        one is set; as a context manager, to the end of the block.

    Raises
    ------
    InvalidTypeError
        If ``mesh`` is no mesh.

    Notes
    -----
    ``with mesh:`` only names a mesh: what nobody placed is computed on the default device there.
    """

    def __init__(self, mesh: Mesh) -> None:
        given: object = mesh
        if not isinstance(given, Mesh):
            msg = f"set_mesh takes a Mesh, not {given!r} of type {kind_of(given)}."
            raise InvalidTypeError(msg, operation="set_mesh")
        Context.not_plain()
        self._mesh = mesh
        self._before = _entered.get(), _computing.get()
        _entered.set((*self._before[0], mesh))
        _computing.set(mesh)

    def __enter__(self) -> Mesh:
        return self._mesh

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        entered, computing = self._before
        _entered.set(entered)
        _computing.set(computing)


def mesh_context() -> tuple[Mesh | None, Mesh | None]:
    """Return `current_mesh` and `computing_mesh`: what a call depends on."""
    return current_mesh(), _computing.get()


@contextlib.contextmanager
def use_mesh(mesh: Mesh) -> Iterator[Mesh]:
    """Set a mesh for a block; JAX's older name of ``with set_mesh(mesh):``."""
    with set_mesh(mesh):
        yield mesh


class Mesh(MeshAxes, contextlib.ContextDecorator):
    """Devices laid out along named axes.

    Parameters
    ----------
    devices
        The devices as an array or nested lists, one dimension per axis; a single device for a
        mesh with no axes.
    axis_names
        A name for each dimension; a str alone is one name.
    axis_types
        The `AxisType` of each axis, or its name; ``Auto`` when omitted.

    Raises
    ------
    InvalidArgumentError
        If there are no devices, a device is there twice, they are of several platforms, or the
        names are not one distinct str per dimension.
    InvalidTypeError
        If an entry is no device.

    Notes
    -----
    Meshes are immutable; they are equal when their devices, in order and layout, and their names
    are. As a context manager, or a decorator of functions, a mesh is the current one of its
    thread or task.
    """

    __slots__ = ("_device_list", "_devices")

    _devices: npt.NDArray[np.object_]
    _device_list: DeviceList

    def __init__(
        self, devices: Any, axis_names: str | Iterable[str], axis_types: Any = None
    ) -> None:
        import numpy as np

        grid = np.array(devices, dtype=object)
        flat = tuple(grid.flat)
        _check_devices(flat)
        sizes = tuple(grid.shape)
        self._set_axes(sizes, check_axis_names(axis_names, sizes), axis_types)
        grid.flags.writeable = False
        self._devices = grid
        self._device_list = DeviceList(flat)

    @property
    def devices(self) -> npt.NDArray[np.object_]:
        """The devices as a read-only object array, one dimension per axis."""
        return self._devices

    @property
    def device_list(self) -> DeviceList:
        """The devices row by row."""
        return self._device_list

    @property
    def size(self) -> int:
        """The number of devices."""
        return len(self._device_list)

    @functools.cached_property
    def device_ids(self) -> npt.NDArray[np.int_]:
        """The devices' ids as an integer array of the mesh's shape."""
        import numpy as np

        ids = np.array([device.id for device in self._device_list], dtype=int)
        ids.flags.writeable = False
        return ids.reshape(self._axis_sizes)

    @property
    def local_devices(self) -> list[Device]:
        """The devices that this process addresses, in mesh order."""
        return list(self._device_list.addressable_device_list)

    @property
    def is_multi_process(self) -> bool:
        """Whether some device belongs to another process."""
        return not self._device_list.is_fully_addressable

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh that this process addresses, with the same axes.

        Raises
        ------
        InvalidArgumentError
            If this process's devices do not form a block of the mesh.
        """
        return self._local_part if self.is_multi_process else self

    @functools.cached_property
    def _local_part(self) -> Mesh:
        import numpy as np

        mine = frozenset(self._device_list.addressable_device_list)
        mask = np.array([device in mine for device in self._device_list]).reshape(self._axis_sizes)
        block = self._devices[np.ix_(*(np.unique(where) for where in np.nonzero(mask)))]
        if block.size != len(mine) or not mine:
            msg = (
                f"{self} has no local mesh: the {len(mine)} devices of this process do not form a "
                f"block of it. Lay the devices of each process out together."
            )
            raise InvalidArgumentError(msg, mesh=str(self), local_device_count=len(mine))
        return Mesh(block, self._axis_names, self._axis_types)

    @functools.cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes alone."""
        return AbstractMesh(self._axis_sizes, self._axis_names, self._axis_types)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """Return the mesh with other devices, names or types of axes; None keeps what it has."""
        return Mesh(
            self._devices if devices is None else devices,
            self._axis_names if axis_names is None else axis_names,
            self._axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        Context.not_plain()
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _entered.set(_entered.get()[:-1])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Mesh):
            return (
                self._axis_names == other._axis_names
                and self._axis_sizes == other._axis_sizes
                and self._axis_types == other._axis_types
                and self._device_list == other._device_list
            )
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(
                (self._axis_names, self._axis_sizes, self._axis_types, self._device_list)
            )
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        devices = refer_to_devices(self._device_list)
        return _rebuild, (self._axis_sizes, devices, self._axis_names, self._axis_types)

    def __copy__(self) -> Mesh:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Mesh:
        return self

    def __repr__(self) -> str:
        axes = f"axis_sizes={self._axis_sizes!r}, axis_names={self._axis_names!r}"
        is_plain = all(each is AxisType.Auto for each in self._axis_types)
        return f"Mesh({axes})" if is_plain else f"Mesh({axes}, axis_types={self._axis_types!r})"


def _rebuild(
    sizes: tuple[int, ...],
    devices: list[Any],
    axis_names: tuple[str, ...],
    axis_types: tuple[AxisType, ...],
) -> Mesh:
    import numpy as np

    grid = np.empty(len(devices), dtype=object)
    grid[:] = find_devices(devices)
    return Mesh(grid.reshape(sizes), axis_names, axis_types)


def _check_devices(devices: tuple[Any, ...]) -> None:
    if not devices:
        msg = "A mesh needs at least one device, but got none."
        raise InvalidArgumentError(msg)
    for device in devices:
        if not isinstance(device, Device):
            msg = (
                f"A mesh is made of devices, but got {device!r} of type "
                f"{kind_of(device)}. Nested lists must be as long as one another."
            )
            raise InvalidTypeError(msg, entry=device)
    if len(set(devices)) < len(devices):
        twice = next(device for device in devices if devices.count(device) > 1)
        msg = f"Device {twice} is in the mesh more than once. Give each device one position."
        raise InvalidArgumentError(msg, device=str(twice))
    platforms = tuple(dict.fromkeys(device.platform for device in devices))
    if len(platforms) > 1:
        msg = (
            f"The devices of a mesh are of one platform, but got {', '.join(platforms)}. "
            f"Make one mesh for each platform."
        )
        raise InvalidArgumentError(msg, platforms=platforms)

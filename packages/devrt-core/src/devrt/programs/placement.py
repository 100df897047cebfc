"""Where a traced program runs, and how it takes its arguments and gives its results.

As in JAX: arrays that were placed on request decide, requests of the function's options, and the
mesh that is set; all else goes to the default device, or where those lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from devrt.arrays.dispatch_key import DispatchKey
from devrt.errors import DevrtError, InvalidArgumentError
from devrt.programs.leaves import Kind, aval_of
from devrt.programs.sdy import over_mesh
from devrt.runtime import default_runtime
from devrt.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    computing_mesh,
    is_addressable,
)
from devrt.tracing import ShapedArray, at_user_line

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt.layout import Format
    from devrt.programs.traced import Trace

__all__ = ["Placement", "Requests", "check_fits", "placement_of"]


class Requests(NamedTuple):
    """What a function's options ask for.

    Attributes
    ----------
    arguments, results : sequence of Sharding or None
        For each leaf; None where nothing is requested.
    device : Device or None
        Where everything is to run, whatever lies elsewhere.
    formats : sequence of Format or None
        For each result the format that it is put in, if one with a layout is requested.
    """

    arguments: Sequence[Sharding | None]
    results: Sequence[Sharding | None]
    device: Device | None = None
    formats: Sequence[Format | None] = ()


class Placement(NamedTuple):
    """Where a program runs, and how.

    Attributes
    ----------
    devices : tuple of Device
        The program's devices, partition 0 first.
    meshes : tuple of Mesh
        All meshes that name shardings. The first one names those that the compiler chooses.
    arguments, results : tuple of Sharding or None
        How each leaf lies; None where the compiler decides.
    committed : bool
        Whether the results are placed on request.
    formats : tuple of Format or None
        As in `Requests`.
    """

    devices: tuple[Device, ...]
    meshes: tuple[Any, ...]
    arguments: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    committed: bool
    formats: tuple[Format | None, ...] = ()

    @property
    def local_devices(self) -> tuple[Device, ...]:
        """Those of the devices that are this process's."""
        return tuple([device for device in self.devices if is_addressable(device)])


class _Place(NamedTuple):
    """What lies somewhere, and where."""

    what: str
    sharding: Sharding

    @property
    def devices(self) -> tuple[Device, ...]:
        return self.sharding._device_assignment


def placement_of(
    trace: Trace, kinds: Sequence[Kind], requests: Requests, default: Device | None
) -> Placement:
    """Return where a program runs for arguments of some kinds.

    Raises
    ------
    InvalidArgumentError
        If arguments, requests and meshes are on different devices, an argument lies otherwise than
        is requested, or a request does not fit a shape; names both sides.
    """
    out_avals = trace.out_avals
    arguments = [
        _argument(trace, path, kind, request, requests.device)
        for path, kind, request in zip(trace.paths, kinds, requests.arguments, strict=True)
    ]
    for request, aval in zip(requests.results, out_avals, strict=True):
        check_fits(f"a result of {trace.name}", aval, request)
    places = list(_places(trace, arguments, requests))
    if places:
        devices = places[0].devices
    else:
        devices = (requests.device or default or default_runtime().default_device(),)
    for place in places:
        if set(place.devices) != set(devices):
            raise _apart(trace.name, places[0], place)
    meshes = _meshes(trace, places, len(devices))
    if len(devices) > 1:  # partitions are numbered along the first mesh
        devices = NamedSharding(meshes[0], PartitionSpec())._device_assignment
    committed = bool(places) or requests.device is not None
    wanted, formats = tuple(requests.results), tuple(requests.formats)
    return Placement(devices, meshes, tuple(arguments), wanted, committed, formats)


def _argument(
    trace: Trace, path: str, kind: Kind, request: Sharding | None, device: Device | None
) -> Sharding | None:
    """Return how an argument is taken."""
    there = kind.sharding if isinstance(kind, DispatchKey) and kind.committed else None
    if device is not None:
        return None
    if request is None:
        return there
    aval = aval_of(kind)
    check_fits(f"argument {path} of {trace.name}", aval, request)
    if there is None or there.is_equivalent_to(request, aval.ndim):
        return request
    if set(there._device_assignment) != set(request._device_assignment):
        raise _apart(
            trace.name, _Place(f"argument {path}", there), _Place("its in_shardings", request)
        )
    msg = (
        f"argument {path} of {trace.name}, {aval}, lies as {there}, and in_shardings asks for "
        f"{request}{at_user_line()}. Move it with devrt.device_put, or leave in_shardings out."
    )
    raise InvalidArgumentError(msg, argument=path)


def check_fits(what: str, aval: ShapedArray, sharding: Sharding | None) -> None:
    """Refuse a sharding that a shape does not divide by."""
    if sharding is None:
        return
    try:
        sharding.check_compatible_aval(aval.shape)
        sharding.shard_shape(aval.shape)
    except DevrtError as error:
        msg = f"{what}, {aval}, does not fit its sharding{at_user_line()}: {error.message}"
        raise InvalidArgumentError(msg, shape=aval.shape) from None


def _places(
    trace: Trace, arguments: Sequence[Sharding | None], requests: Requests
) -> Iterator[_Place]:
    """Yield all that decides where a program runs, in the order of its weight."""
    for path, sharding in zip(trace.paths, arguments, strict=True):
        if sharding is not None:
            yield _Place(f"argument {path}", sharding)
    for sharding in requests.results:
        if sharding is not None:
            yield _Place("out_shardings", sharding)
    for mesh in trace.meshes:
        if isinstance(mesh, Mesh):
            yield _Place("a mesh that the function names", NamedSharding(mesh, PartitionSpec()))
    mesh = computing_mesh()
    if mesh is not None and requests.device is None:
        yield _Place("the mesh of devrt.set_mesh", NamedSharding(mesh, PartitionSpec()))
        return
    if any(sharding is not None for sharding in (*arguments, *requests.results)) or trace.meshes:
        return
    committed = [array for array in trace.hidden if getattr(array, "committed", False)]
    # What a function closes over decides where nothing else does; the rest is moved there.
    for array in sorted(committed, key=lambda array: -len(array.devices()))[:1]:
        yield _Place("an array that the function closes over", array.sharding)


def _meshes(trace: Trace, places: Sequence[_Place], count: int) -> tuple[Any, ...]:
    """Return the meshes of a program; on one device only to name results by."""
    found = [p.sharding.mesh for p in places if isinstance(p.sharding, NamedSharding)]
    if not found and count > 1:
        found = [over_mesh(places[0].sharding).mesh]
    # The function's own meshes first: results are named by them rather than by the arguments'.
    return tuple(dict.fromkeys(m for m in (*trace.meshes, *found) if isinstance(m, Mesh)))


def _apart(name: str, first: _Place, second: _Place) -> InvalidArgumentError:
    is_one = not _are_of_two_clients(first.devices, second.devices)
    what, of_one, of_other = (
        ("different devices", "", "")
        if is_one
        else ("devices of two clients", " of one client", " of another")
    )
    msg = (
        f"{name} cannot run on {what}: {first.what} is on {_shown(first.devices)}{of_one}, and "
        f"{second.what} on {_shown(second.devices)}{of_other}{at_user_line()}. Move one of them "
        f"with devrt.device_put{'' if is_one else ' to a device of the other client'}."
    )
    return InvalidArgumentError(msg, operation="jit")


def _are_of_two_clients(some: Sequence[Device], others: Sequence[Device]) -> bool:
    """Return whether clients of one platform differ, whose devices may have the same names."""
    return any(
        one.platform == other.platform and one.client is not other.client
        for one in some
        for other in others
    )


def _shown(devices: Sequence[Device]) -> str:
    return ", ".join(map(str, devices))

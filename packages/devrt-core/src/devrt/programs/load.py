"""Loading programs: what a user gives, compiled where it is to run, as a function of arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt.compiling import Program
from devrt.contract import Client, Device
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs.across import by_calls
from devrt.programs.array_program import ArrayProgram
from devrt.programs.chosen_shardings import mesh_of
from devrt.programs.jax_objects import library_of
from devrt.programs.signature import Signature
from devrt.programs.sources import Source, read_source
from devrt.runtime import default_runtime
from devrt.sharding import Mesh, is_addressable

if TYPE_CHECKING:
    import os

__all__ = ["load_program"]

_PLACES = {
    "backend": "client=devrt.get_backend(...)",
    "device": "devices=[...]",
    "platform": "client=devrt.get_backend(...)",
}
"""What is passed in place of arguments that others' functions have."""


def load_program(
    program: str | bytes | os.PathLike[str] | Any,
    client: Client | None = None,
    devices: Sequence[Device] | None = None,
    mesh: Mesh | None = None,
    **options: Any,
) -> ArrayProgram:
    """Make a function of arrays of a program that JAX, PyTorch or a compiler wrote.

    Parameters
    ----------
    program
        One of

        - StableHLO, as text or as bytecode;
        - the path of a file with one of the kinds of bytes in this list;
        - what ``jax.export.export`` returns, or what its ``serialize()`` does;
        - what ``jax.jit(f).lower(...)`` or ``.trace(...)`` returns;
        - what ``torch.export.export`` returns, if torchax is installed;
        - a serialised executable, as ``devrt compile`` and ``serialize_executable`` write it.

        JAX need not be installed for any that is bytes.
    client
        The client; None for the one of ``devices``, of ``mesh``, or of the default device.
    devices
        Where it runs; None for the mesh's devices, or for as many as the program needs. A program
        for one device then runs on the default device as it is now, or, where arrays that were
        placed on request lie on another device of the client, there: it is compiled for that
        device at the first such call.
    mesh
        The mesh that names how arguments and results are divided; None for the one that the
        program declares, over its devices.
    **options
        Compile options, as `Client.compile_and_load` takes them.

    Returns
    -------
    ArrayProgram
        The program, as a function. What was exported or lowered takes and gives the trees that the
        function does; else it takes arrays by position and gives a list. Does not run it.

    Raises
    ------
    InvalidTypeError
        If the program is none of these, or a target is of another type.
    InvalidArgumentError
        If a file cannot be read, the function was exported for other platforms or has a symbolic
        dimension, or the program, an option, a device or the mesh does not fit.
    UnimplementedError
        If it was exported by a calling convention that is not known, or takes what is not here:
        custom calls, torchax, a compiler for the devices of several processes.
    """
    source = read_source(program)
    if not source.executable:  # one object, as its facts are read once for the place and compiler
        source = dataclasses.replace(source, code=Program.of(source.code, "load_program"))
    _check_target(client, devices, mesh)
    for name in _PLACES.keys() & options.keys():
        msg = f"load_program takes no {name!r}: pass {_PLACES[name]}."
        raise InvalidArgumentError(msg, operation="load_program")
    is_free = devices is None and mesh is None and "device_assignment" not in options
    if mesh is not None and devices is None:
        devices = list(mesh.device_list)
    if client is None:
        client = devices[0].client if devices else default_runtime().default_device().client
    if is_free:
        return _following(source, client, options)
    return _loaded(source, client, devices, mesh, options)


def _following(source: Source, client: Client, options: dict[str, Any]) -> ArrayProgram:
    """Return a program on the default device, that of one device where its arguments lie."""

    def load_on(device: Device) -> ArrayProgram:
        return _loaded(source, client, [device], None, options)

    if client not in default_runtime().live_clients().values():  # it is the program's own
        default = client.local_devices()[0]
    else:
        default = default_runtime().default_device()
    is_first = default.client is not client or default is client.local_devices()[0]
    if not is_first and _is_for_one(source, options):
        made = load_on(default)
    else:
        made = _loaded(source, client, None, None, options)
        if made.mesh is None and not is_first:
            made = load_on(default)
    if made.mesh is None:
        made.follow(load_on)
    return made


def _is_for_one(source: Source, options: dict[str, Any]) -> bool:
    """Return whether a program is known to be for one device before it is compiled."""
    if source.executable or options.keys() & {"num_replicas", "num_partitions"}:
        return False
    facts = Program.of(source.code, "load_program").facts
    return (facts.num_replicas or 1, facts.num_partitions or 1) == (1, 1)


def _loaded(
    source: Source,
    client: Client,
    devices: Sequence[Device] | None,
    mesh: Mesh | None,
    options: dict[str, Any],
) -> ArrayProgram:
    if devices and by_calls(devices):
        msg = (
            f"load_program cannot run a program on {len(devices)} devices of several processes: "
            f"the compiler of the {client.platform} client, which would divide it, knows the "
            "devices of this process only. Load it on devrt.local_devices(), or write what "
            "exchanges data as a devrt.shard_map, which runs on the devices of all processes."
        )
        raise UnimplementedError(msg, operation="load_program", platform=client.platform)
    if source.executable:
        executable = client.deserialize_executable(source.executable, devices, **options)
        return ArrayProgram(executable, mesh, devices=_spanning(devices))
    return _compiled(source, client, devices, mesh, options)


def _compiled(
    source: Source,
    client: Client,
    devices: Sequence[Device] | None,
    mesh: Mesh | None,
    options: dict[str, Any],
) -> ArrayProgram:
    exported, first = source.exported, source.first_on(client)
    code = Program.of(source.code, "load_program")
    executable = client.compile_and_load(code, devices, **options)
    name = executable.name if exported is None else exported.name
    spanning = _spanning(devices)
    declared = mesh or _declared_mesh(code, spanning or executable.local_devices())
    return ArrayProgram(executable, declared, Signature(name, exported), first, spanning)


def _spanning(devices: Sequence[Device] | None) -> Sequence[Device] | None:
    """Return a program's devices where some are of other processes: it tells of its own only."""
    return devices if devices and not all(map(is_addressable, devices)) else None


def _check_target(client: Any, devices: Any, mesh: Any) -> None:
    """Refuse what no program can run on."""
    for name, value, kind in (("client", client, Client), ("mesh", mesh, Mesh)):
        if value is not None and not isinstance(value, kind):
            raise _wrong_target(f"{name} must be a devrt {kind.__name__} or None", value)
    if devices is not None and not isinstance(devices, Sequence):
        raise _wrong_target("devices must be a sequence of devices", devices)
    for device in devices or ():
        if not isinstance(device, Device):
            raise _wrong_target("devices must hold devices", device, "and one is")


def _wrong_target(must: str, value: object, verb: str = "not") -> InvalidTypeError:
    msg = f"{must}, {verb} of type {type(value).__name__}."
    if isinstance(value, str) and must.startswith("client"):
        msg += f" Give devrt.get_backend({value!r})."
    if library_of(value) in ("jax", "jaxlib"):
        msg = (
            f"{msg[:-1]}: that is one of JAX's own backend, which shares no devices with devrt. "
            "Pass devrt's: devrt.devices(), devrt.get_backend(), devrt.make_mesh(...)."
        )
    return InvalidTypeError(msg, operation="load_program")


def _declared_mesh(program: Program, devices: Sequence[Device]) -> Mesh | None:
    """Return the program's own mesh over its devices; None where it declares none."""
    for axes in program.facts.meshes if len(devices) > 1 else ():
        if math.prod(size for _, size in axes) == len(devices):
            return mesh_of(axes, devices)
    return None

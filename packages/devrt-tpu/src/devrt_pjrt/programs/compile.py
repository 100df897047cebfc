"""Programs in, executables out."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.compiling import Program
from devrt.compiling.hlo import refuse_feed
from devrt.compiling.options import CompileOptions
from devrt.compiling.quirks import flags_of, refuse
from devrt.compiling.refusals import check, compile_explained
from devrt.compiling.serialized import Serialized, with_checksum
from devrt.errors import (
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
)
from devrt_pjrt._native import ffi
from devrt_pjrt.connection.device import PjrtDevice
from devrt_pjrt.library.apart import call_apart
from devrt_pjrt.library.api import Api
from devrt_pjrt.programs.compiled import Executable
from devrt_pjrt.programs.disk_cache import compiled
from devrt_pjrt.programs.executable import PjrtLoadedExecutable
from devrt_pjrt.programs.program import complete_options, device_count, pointer_to
from devrt_pjrt.quirks import quirks_of
from devrt_pjrt.traits.gpu_tools import explain

if TYPE_CHECKING:
    from devrt_pjrt.client.topology import PjrtTopology
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.library.library import Library

__all__ = ["compile_ahead", "compile_and_load", "deserialize"]


def compile_and_load(
    connection: Connection,
    source: str | bytes,
    devices: Sequence[Any] | None,
    options: Mapping[str, Any],
) -> PjrtLoadedExecutable:
    """Compile a program and load it; see `PjrtClient.compile_and_load`."""
    program = Program.of(source)
    platform = connection.inventory.platform
    _check_program(connection.library, platform, program, "compile_and_load")
    chosen = None if devices is None else _check_devices(connection, devices, "compile")
    made = complete_options(program, options, None if chosen is None else len(chosen))
    if made.device_assignment is None and not made.compile_portable_executable:
        made = made.replace(device_assignment=_assignment(connection, chosen, made))

    def compile(data: bytes) -> PjrtLoadedExecutable:
        with connection.using("compile"):
            args = _compile(
                connection.library,
                "PJRT_Client_Compile",
                program,
                data,
                connection.core,
                client=connection.pointer,
            )
            main = program.facts.main
            donated = main.donated if main is not None else ()
            return PjrtLoadedExecutable(connection, args.executable, made, donated=donated)

    def find_or_compile(data: bytes) -> PjrtLoadedExecutable:
        load = functools.partial(_load, connection, made=made)
        return compiled(connection, program, data, load, lambda: compile(data))

    return find_or_compile(_with_flags(connection.library, platform, made).serialize())


def _check_program(library: Library, platform: str, program: Program, operation: str) -> None:
    check(program, operation)
    refuse(quirks_of(library, platform), program, operation)


def _check_devices(
    connection: Connection, devices: Sequence[Any], operation: str
) -> list[PjrtDevice]:
    try:
        chosen = list(devices)
    except TypeError as error:
        msg = f"{operation} failed: devices are a list of devices, not {devices!r:.60}."
        raise InvalidTypeError(msg, operation=operation) from error
    if not chosen:
        msg = f"{operation} failed: devices is empty. Name some, or leave it out."
        raise InvalidArgumentError(msg, operation=operation)
    client = connection.client
    for device in chosen:
        if not isinstance(device, PjrtDevice) or device.client is not client:
            msg = f"{operation} failed: {device!r} is no device of {client!r}."
            raise InvalidArgumentError(msg, operation=operation)
    if len(set(chosen)) != len(chosen):
        msg = f"{operation} failed: name each device once, not {chosen}."
        raise InvalidArgumentError(msg, operation=operation)
    return chosen


def _assignment(
    connection: Connection, chosen: list[PjrtDevice] | None, options: CompileOptions
) -> list[list[int]]:
    wanted = device_count(options)
    devices = chosen or connection.inventory.local[:wanted]
    if len(devices) < wanted:
        local = len(connection.inventory.local)
        msg = (
            f"compile failed: the program needs {wanted} devices, and "
            f"{connection.client!r} has {local} here. Make the client with more, or compile for a "
            "topology."
        )
        raise InvalidArgumentError(msg, operation="compile")
    ids = [device.id for device in devices]
    size = options.num_partitions or 1
    return [ids[row * size : (row + 1) * size] for row in range(options.num_replicas or 1)]


def compile_ahead(
    library: Library,
    topology: Any,
    num_devices: int,
    source: str | bytes,
    options: Mapping[str, Any],
    owner: PjrtTopology,
) -> Executable:
    """Compile a program for devices that need not be there.

    Parameters
    ----------
    library
        The plugin.
    topology
        A ``PJRT_TopologyDescription*`` of it.
    num_devices
        How many devices it has: some plugins compile for more, and say nothing.
    source
        StableHLO as text or bytecode.
    options
        Fields of `CompileOptions`.
    owner
        Keeps the description.
    """
    program = Program.of(source, "compile")
    platform = owner.plugin_platform()
    _check_program(library, platform, program, "compile")
    made = complete_options(program, options, None)
    if device_count(made) > num_devices:
        msg = (
            f"compile failed: the program needs {device_count(made)} devices ({made.num_replicas} "
            f"replica(s) of {made.num_partitions} partition(s)), and the topology has "
            f"{num_devices}. Name a larger topology."
        )
        raise InvalidArgumentError(msg, operation="compile")

    def compile(data: bytes) -> Executable:
        args = _compile(library, "PJRT_Compile", program, data, owner=owner, topology=topology)
        return Executable(library.api, args.executable)

    return compile(_with_flags(library, platform, made).serialize())


def _with_flags(library: Library, platform: str, options: CompileOptions) -> CompileOptions:
    """Return options with devrt's own flags; what the caller gives overrides them."""
    own = {**library.compiler_flags(), **flags_of(quirks_of(library, platform))}
    given = options.env_option_overrides
    return options.replace(env_option_overrides={**own, **given}) if own else options


def _destroy(api: Api, executable: Any, is_loaded: bool) -> None:
    """Give back an executable that nobody waited for."""
    function = "PJRT_LoadedExecutable_Destroy" if is_loaded else "PJRT_Executable_Destroy"
    api.call(function, executable=executable)


def _compile(
    library: Library,
    function: str,
    program: Program,
    options: bytes,
    core: Any = None,
    owner: Any = None,
    **target: Any,
) -> Any:
    """Compile; ``core`` or ``owner`` is kept for as long as it takes, also where nobody waits."""
    text = ffi.from_buffer(options)

    def compile(program: Program) -> Any:
        pointer, kept = pointer_to(program, library.api)
        try:
            return call_apart(
                lambda: (
                    library.api.call(
                        function,
                        program=pointer,
                        compile_options=text,
                        compile_options_size=len(options),
                        **target,
                    ),
                    (kept, owner),
                ),
                core=core,
                on_late=lambda late: _destroy(library.api, late[0].executable, core is not None),
            )[0]
        except DevrtError as error:
            explained = explain(error)
            if explained is not error:
                raise explained from error
            raise

    return compile_explained(program, compile)


def deserialize(
    connection: Connection,
    data: Any,
    devices: Sequence[Any] | None,
    options: Mapping[str, Any],
) -> PjrtLoadedExecutable:
    """Load an executable that was serialised; see `PjrtClient.deserialize_executable`."""
    operation = "deserialize_executable"
    if not isinstance(data, bytes | bytearray | memoryview):
        msg = f"{operation} failed: a serialised executable is bytes, not {type(data).__name__}."
        raise InvalidTypeError(msg, operation=operation)
    if not len(data):
        msg = f"{operation} failed: there are no bytes. Serialise the executable again."
        raise InvalidArgumentError(msg, operation=operation)
    made = CompileOptions.of(options) if options else None
    if made is not None and made.parameter_is_tupled_arguments:
        msg = (
            "deserialize_executable failed: whether a program takes its arguments in a tuple is "
            "settled when it is compiled. Leave parameter_is_tupled_arguments out."
        )
        raise InvalidArgumentError(msg, operation="deserialize_executable")
    if devices is not None:
        made = _on_devices(connection, devices, made or CompileOptions())
    over = b"" if made is None else made.serialize()
    return _load(connection, bytes(data), made, over)


def _on_devices(
    connection: Connection, devices: Sequence[Any], options: CompileOptions
) -> CompileOptions:
    """Return options with a device assignment: one partition for each device, unless they say."""
    chosen = _check_devices(connection, devices, "deserialize_executable")
    if options.num_replicas is None and options.num_partitions is None:
        options = options.replace(num_replicas=1, num_partitions=len(chosen))
    wanted = device_count(options)
    if wanted != len(chosen):
        msg = (
            f"deserialize_executable failed: the options are for {wanted} device(s), and "
            f"{len(chosen)} were named. Name as many."
        )
        raise InvalidArgumentError(msg, operation="deserialize_executable")
    return options.replace(device_assignment=_assignment(connection, chosen, options))


def _load(
    connection: Connection, data: bytes, made: CompileOptions | None, over: bytes = b""
) -> PjrtLoadedExecutable:
    """Load an executable; ``over`` takes the place of the options that it was compiled with."""
    api = connection.api
    found = Serialized.read(data, "deserialize_executable")
    plain, over = found.data, over or found.options
    is_same = found.is_checked and over == found.options
    source = data if is_same else with_checksum(plain, over)
    held, text = ffi.from_buffer(plain), ffi.from_buffer(over)
    args = api.new(
        "PJRT_Executable_DeserializeAndLoad_Args",
        client=connection.pointer,
        serialized_executable=ffi.cast("char *", held),
        serialized_executable_size=len(plain),
    )
    if over:
        args.overridden_serialized_compile_options = ffi.cast("char *", text)
        args.overridden_serialized_compile_options_size = len(over)
    with connection.using("deserialize_executable"):
        call_apart(
            lambda: (api.call_with("PJRT_Executable_DeserializeAndLoad", args), held, text),
            core=connection.core,
            on_late=lambda _: _destroy(api, args.loaded_executable, True),
        )
        loaded = PjrtLoadedExecutable(connection, args.loaded_executable, made, source)
        if loaded.executable.facts is not None:
            refuse_feed(loaded.executable.facts, connection.platform, loaded.delete)
        return loaded

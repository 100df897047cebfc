"""Programs in, executables out."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.compiling import Program
from devrt.compiling.completion import assign_devices, complete, device_ids, refuse_too_few
from devrt.compiling.hlo import refuse_feed
from devrt.compiling.loading import read_to_load
from devrt.compiling.options import CompileOptions
from devrt.compiling.quirks import Quirk, flags_of, refuse
from devrt.compiling.refusals import check, compile_explained, custom_calls_explained
from devrt.compiling.serialized import Serialized, with_checksum
from devrt.errors import (
    DevrtError,
    UnimplementedError,
)
from devrt_pjrt._native import ffi
from devrt_pjrt.library.apart import call_apart
from devrt_pjrt.library.api import Api
from devrt_pjrt.programs.compiled import Executable
from devrt_pjrt.programs.disk_cache import compiled
from devrt_pjrt.programs.executable import PjrtLoadedExecutable
from devrt_pjrt.quirks import quirks_of

if TYPE_CHECKING:
    from devrt.records import PluginTraits
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
    quirks = quirks_of(connection.library, connection.inventory.platform)
    _check_program(program, quirks, "compile_and_load")
    given = CompileOptions.of(options)
    made = _complete(connection, program, devices, given, "compile_and_load")
    made = _with_flags(made, connection.traits, quirks, program)
    donated = program.donated

    def compile(data: bytes) -> PjrtLoadedExecutable:
        with connection.using("compile_and_load"), custom_calls_explained(connection.platform):
            args = _compile(
                connection.library,
                connection.traits,
                "PJRT_Client_Compile",
                program,
                data,
                connection.core,
                client=connection.pointer,
            )
            return PjrtLoadedExecutable(connection, args.executable, made, donated=donated)

    def load(data: bytes) -> PjrtLoadedExecutable:
        return _load(connection, data, _read(connection, data), made, donated=donated)

    def find_or_compile(data: bytes) -> PjrtLoadedExecutable:
        return compiled(connection, program, data, load, lambda: compile(data))

    found = find_or_compile(made.serialize())
    if donated is None and found.executable.facts is None:
        found.delete()
        raise _unknown_donation(connection.platform)
    return found


def _unknown_donation(platform: str) -> UnimplementedError:
    msg = (
        "compile_and_load failed: the program donates parameters, devrt cannot read in its "
        f"bytecode which, and the {platform} plugin does not tell. Give the program as text."
    )
    return UnimplementedError(msg, operation="compile_and_load", platform=platform)


def _check_program(program: Program, quirks: Sequence[Quirk], operation: str) -> None:
    check(program, operation)
    refuse(quirks, program, operation)


def _complete(
    connection: Connection, program: Program, devices: Any, options: CompileOptions, operation: str
) -> CompileOptions:
    """Fill in what was left to the program, the devices or the client."""
    named = device_ids(connection.client, devices, operation)
    made = complete(options, program, named, operation)
    if made.compile_portable_executable:
        return made
    local = [device.id for device in connection.inventory.local]
    remedy = "Make the client with more, or compile for a topology."
    return assign_devices(made, named, local, operation, remedy)


def compile_ahead(
    library: Library,
    topology: Any,
    num_devices: int,
    source: str | bytes,
    options: Mapping[str, Any],
    owner: Any,
) -> Executable:
    """Compile a program for devices that need not be there, of which there are ``num_devices``.

    Some plugins compile for more, and say nothing. ``topology`` is a ``PJRT_TopologyDescription*``,
    which ``owner`` keeps.
    """
    program = Program.of(source, "compile")
    platform = owner.plugin_platform()
    traits, quirks = library.traits_for(platform), quirks_of(library, platform)
    _check_program(program, quirks, "compile")
    made = complete(CompileOptions.of(options), program, None, "compile")
    refuse_too_few(made, num_devices, "the topology has", "compile", "Name a larger topology.")

    def compile(data: bytes) -> Executable:
        with custom_calls_explained(platform):
            args = _compile(
                library, traits, "PJRT_Compile", program, data, owner=owner, topology=topology
            )
        return Executable(library.api, args.executable, donated=program.donated)

    return compile(_with_flags(made, traits, quirks, program).serialize())


def _with_flags(
    options: CompileOptions, traits: PluginTraits, quirks: Sequence[Quirk], program: Program
) -> CompileOptions:
    """Return options with devrt's own flags; what the caller gives overrides them."""
    own = {**traits.compiler_flags(), **flags_of(quirks, program)}
    given = options.env_option_overrides
    return options.replace(env_option_overrides={**own, **given}) if own else options


def _destroy(api: Api, executable: Any, is_loaded: bool) -> None:
    """Give back an executable that nobody waited for."""
    function = "PJRT_LoadedExecutable_Destroy" if is_loaded else "PJRT_Executable_Destroy"
    api.call(function, executable=executable)


def _compile(
    library: Library,
    traits: PluginTraits,
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
        pointer, kept = _pointer_to(program, library.api)
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
            explained = traits.explain(error)
            if explained is not error:
                raise explained from error
            raise

    return compile_explained(program, compile)


def _pointer_to(program: Program, api: Api) -> tuple[Any, Any]:
    """Return a ``PJRT_Program*``, and what must live as long."""
    code, form = ffi.from_buffer(program), ffi.new("char[]", b"mlir")
    made = api.new(
        "PJRT_Program",
        code=ffi.cast("char *", code),
        code_size=len(program),
        format=form,
        format_size=4,
    )
    return made, (code, form)


def deserialize(
    connection: Connection,
    data: Any,
    devices: Sequence[Any] | None,
    options: Mapping[str, Any],
) -> PjrtLoadedExecutable:
    """Load an executable that was serialised; see `PjrtClient.deserialize_executable`."""
    read = functools.partial(_read, connection)
    on_host = connection.traits.runs_on_caller
    given = CompileOptions.of(options)
    found, made = read_to_load(data, devices, given, read, is_host_code=on_host)
    if made is not None and devices is not None:
        made = _complete(connection, Program(), devices, made, "deserialize_executable")
    over = b"" if made is None else made.serialize()
    return _load(connection, bytes(data), found, made, over)


def _read(connection: Connection, data: bytes) -> Serialized:
    found = Serialized.read(data, "deserialize_executable")
    if found.made_by:
        found.check_origin(connection.origin(), "deserialize_executable")
    return found


def _load(
    connection: Connection,
    data: bytes,
    found: Serialized,
    made: CompileOptions | None,
    over: bytes = b"",
    donated: tuple[int, ...] | None = None,
) -> PjrtLoadedExecutable:
    """Load an executable; ``over`` replaces the options that it was compiled with."""
    api = connection.api
    plain, over = found.data, over or found.options
    is_same = found.is_checked and over == found.options
    donated = found.donated if donated is None else donated
    source = data if is_same else with_checksum(plain, over, found.made_by, donated)
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
    with (
        connection.using("deserialize_executable"),
        custom_calls_explained(connection.platform),
    ):
        call_apart(
            lambda: (api.call_with("PJRT_Executable_DeserializeAndLoad", args), held, text),
            core=connection.core,
            on_late=lambda _: _destroy(api, args.loaded_executable, True),
        )
        loaded = PjrtLoadedExecutable(connection, args.loaded_executable, made, source, donated)
        if loaded.executable.facts is not None:
            refuse_feed(loaded.executable.facts, connection.platform, loaded.delete)
        return loaded

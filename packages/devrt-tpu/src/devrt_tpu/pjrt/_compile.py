"""Programs in, executables out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt._compile_options import CompileOptions
from devrt._refused_programs import check, check_for_host
from devrt._refused_programs import explain as explain_refusal
from devrt._stablehlo import for_older_readers, is_bytecode, module_facts
from devrt.errors import (
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
    StatusCode,
    UnimplementedError,
)
from devrt_tpu.pjrt._apart import call_apart
from devrt_tpu.pjrt._api import Api
from devrt_tpu.pjrt._checks import encoded
from devrt_tpu.pjrt._checksum import split_options, with_checksum, with_options, without_checksum
from devrt_tpu.pjrt._compiled import Executable
from devrt_tpu.pjrt._device import PjrtDevice
from devrt_tpu.pjrt._executable import PjrtLoadedExecutable
from devrt_tpu.pjrt._gpu_tools import explain
from devrt_tpu.pjrt._log import captured
from devrt_tpu.pjrt._native import ffi

if TYPE_CHECKING:
    from devrt_tpu.pjrt._client import PjrtClient
    from devrt_tpu.pjrt._library import Library
    from devrt_tpu.pjrt._topology import PjrtTopology

__all__ = ["Program", "compile_ahead", "compile_and_load", "deserialize"]


class Program:
    """A StableHLO program: text or bytecode, and what can be seen of it without a compiler.

    Parameters
    ----------
    source
        The program.

    Attributes
    ----------
    code : bytes
        As the plugin takes it.
    is_bytecode : bool
        Whether it is MLIR bytecode.
    """

    def __init__(self, source: Any) -> None:
        if isinstance(source, str):
            source = encoded(source, "a program", "compile")
        if not isinstance(source, bytes | bytearray | memoryview):
            msg = (
                "a program is StableHLO, as text (str) or as bytecode (bytes), and this is of type "
                f"{type(source).__name__}."
            )
            raise InvalidTypeError(msg, operation="compile")
        self.code = bytes(source)
        self.is_bytecode = is_bytecode(self.code)
        if not self.is_bytecode and (b"func" not in self.code or b"\0" in self.code):
            msg = (
                "a program is StableHLO, as text or as MLIR bytecode, and this is neither: "
                f"it begins with {self.code[:16]!r}. Export it again."
            )
            raise InvalidArgumentError(msg, operation="compile")

    def has_shardy(self) -> bool:
        """Return whether its shardings are Shardy's; with Shardy, older ones would be ignored."""
        return b"sdy" in self.code if self.is_bytecode else b"sdy." in self.code

    def counts(self) -> dict[str, int]:
        """Return the numbers of replicas and partitions that it names."""
        facts = module_facts(self.code)
        return {
            "num_replicas": facts.num_replicas or 1,
            "num_partitions": facts.num_partitions or 1,
        }

    def options(self, options: Mapping[str, Any], count: int | None) -> CompileOptions:
        """Return complete options: what the caller left open comes from the program.

        Parameters
        ----------
        options
            The caller's.
        count
            Number of devices, where the caller named them.
        """
        made = CompileOptions.of(options)
        made = made.replace(**self._counts_for(made, count))
        if made.use_shardy_partitioner is None:
            made = made.replace(use_shardy_partitioner=self.has_shardy())
        wanted = _size(made)
        if count is not None and count != wanted:
            msg = (
                f"the program is for {made.num_replicas} replica(s) of {made.num_partitions} "
                f"partition(s), {wanted} device(s), and {count} were named."
            )
            raise InvalidArgumentError(msg, operation="compile")
        return made

    def _counts_for(self, made: CompileOptions, count: int | None) -> dict[str, int]:
        """Return the replicas and partitions: as given, as the program says, or as devices are."""
        assigned = made.assignment()
        if assigned is not None:
            said = assigned.replica_count(), assigned.computation_count()
            return dict(zip(("num_replicas", "num_partitions"), said, strict=True))
        if made.num_replicas is not None or made.num_partitions is not None:
            return {
                "num_replicas": made.num_replicas or 1,
                "num_partitions": made.num_partitions or 1,
            }
        found = {name: n for name, n in self.counts().items() if n > 1}
        if not found and count is not None:
            found = {"num_partitions": count}
        return {"num_replicas": 1, "num_partitions": 1, **found}

    def pointer(self, api: Api) -> tuple[Any, Any]:
        """Return a ``PJRT_Program*``, and what must live as long."""
        code, form = ffi.from_buffer(self.code), ffi.new("char[]", b"mlir")
        made = api.new(
            "PJRT_Program",
            code=ffi.cast("char *", code),
            code_size=len(self.code),
            format=form,
            format_size=4,
        )
        return made, (code, form)


def compile_and_load(
    client: PjrtClient,
    source: str | bytes,
    devices: Sequence[Any] | None,
    options: Mapping[str, Any],
) -> PjrtLoadedExecutable:
    """Compile a program and load it; see `PjrtClient.compile_and_load`."""
    program = Program(source)
    is_for_host = client.plugin_platform == "cpu"
    (check_for_host if is_for_host else check)(program.code, "compile_and_load")
    chosen = None if devices is None else _check_devices(client, devices, "compile")
    made = program.options(options, None if chosen is None else len(chosen))
    if made.device_assignment is None and not made.compile_portable_executable:
        made = made.replace(device_assignment=_assignment(client, chosen, made))
    data = _with_flags(client._library, made).serialize()

    def compile() -> PjrtLoadedExecutable:
        with client._using("compile"):
            args = _compile(
                client._library,
                "PJRT_Client_Compile",
                program,
                data,
                client._core,
                client=client._pointer,
            )
            return PjrtLoadedExecutable(client, args.executable, made)

    if client._cache is None:
        return compile()
    from devrt_tpu.pjrt._disk_cache import compiled

    return compiled(client, program.code, data, lambda known: _load(client, known, made), compile)


def _check_devices(client: PjrtClient, devices: Sequence[Any], operation: str) -> list[PjrtDevice]:
    try:
        chosen = list(devices)
    except TypeError as error:
        msg = f"{operation} failed: devices are a list of devices, not {devices!r:.60}."
        raise InvalidTypeError(msg, operation=operation) from error
    if not chosen:
        msg = f"{operation} failed: devices is empty. Name some, or leave it out."
        raise InvalidArgumentError(msg, operation=operation)
    for device in chosen:
        if not isinstance(device, PjrtDevice) or device.client is not client:
            msg = f"{operation} failed: {device!r} is no device of {client!r}."
            raise InvalidArgumentError(msg, operation=operation)
    if len(set(chosen)) != len(chosen):
        msg = f"{operation} failed: name each device once, not {chosen}."
        raise InvalidArgumentError(msg, operation=operation)
    return chosen


def _assignment(
    client: PjrtClient, chosen: list[PjrtDevice] | None, options: CompileOptions
) -> list[list[int]]:
    wanted = _size(options)
    devices = chosen or client._local[:wanted]
    if len(devices) < wanted:
        msg = (
            f"compile failed: the program needs {wanted} devices, and {client!r} has "
            f"{len(client._local)} here. Make the client with more, or compile for a topology."
        )
        raise InvalidArgumentError(msg, operation="compile")
    ids = [device.id for device in devices]
    size = options.num_partitions or 1
    return [ids[row * size : (row + 1) * size] for row in range(options.num_replicas or 1)]


def _size(options: CompileOptions) -> int:
    return (options.num_replicas or 1) * (options.num_partitions or 1)


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
    program = Program(source)
    is_for_host = owner.plugin_platform() == "cpu"
    (check_for_host if is_for_host else check)(program.code, "compile")
    made = _with_flags(library, program.options(options, None))
    if _size(made) > num_devices:
        msg = (
            f"compile failed: the program needs {_size(made)} devices ({made.num_replicas} "
            f"replica(s) of {made.num_partitions} partition(s)), and the topology has "
            f"{num_devices}. Name a larger topology."
        )
        raise InvalidArgumentError(msg, operation="compile")
    data = made.serialize()
    args = _compile(library, "PJRT_Compile", program, data, owner=owner, topology=topology)
    return Executable(library.api, args.executable)


def _with_flags(library: Library, options: CompileOptions) -> CompileOptions:
    flags = library.compiler_flags()
    given = options.env_option_overrides
    return options.replace(env_option_overrides={**flags, **given}) if flags else options


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
    pointer, kept = program.pointer(library.api)
    text = ffi.from_buffer(options)
    try:
        with captured(library):
            made, _ = call_apart(
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
            )
            return made
    except DevrtError as error:
        told = explain(error)
        if told is not error:
            raise told from error
        if error.code is not StatusCode.UNKNOWN:
            raise
        older = for_older_readers(program.code, error.message)
        if older is not None and older != program.code:
            return _compile(library, function, Program(older), options, core, owner, **target)
        # What the parser and the verifier find has no code of its own.
        message = explain_refusal(error.message, program.code)
        raise InvalidArgumentError(message, code=error.code, **error.data) from error


def deserialize(
    client: PjrtClient,
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
        made = _on_devices(client, devices, made or CompileOptions())
    over = b"" if made is None else made.serialize()
    return _load(client, bytes(data), made, over)


def _on_devices(
    client: PjrtClient, devices: Sequence[Any], options: CompileOptions
) -> CompileOptions:
    """Return options with a device assignment: one partition for each device, unless they say."""
    chosen = _check_devices(client, devices, "deserialize_executable")
    if options.num_replicas is None and options.num_partitions is None:
        options = options.replace(num_replicas=1, num_partitions=len(chosen))
    if _size(options) != len(chosen):
        msg = (
            f"deserialize_executable failed: the options are for {_size(options)} device(s), and "
            f"{len(chosen)} were named. Name as many."
        )
        raise InvalidArgumentError(msg, operation="deserialize_executable")
    return options.replace(device_assignment=_assignment(client, chosen, options))


def _load(
    client: PjrtClient, data: bytes, made: CompileOptions | None, over: bytes = b""
) -> PjrtLoadedExecutable:
    """Load an executable; ``over`` takes the place of the options that it was compiled with."""
    api = client._api
    whole = without_checksum(data, "deserialize_executable")
    plain, kept = split_options(whole)
    if over and over != kept:
        changed = with_options(plain, over)
        source = None if changed is None else with_checksum(changed)
    else:
        over, source = kept, with_checksum(data) if whole is data else data
    held, text = ffi.from_buffer(plain), ffi.from_buffer(over)
    args = api.new(
        "PJRT_Executable_DeserializeAndLoad_Args",
        client=client._pointer,
        serialized_executable=ffi.cast("char *", held),
        serialized_executable_size=len(plain),
    )
    if over:
        args.overridden_serialized_compile_options = ffi.cast("char *", text)
        args.overridden_serialized_compile_options_size = len(over)
    with client._using("deserialize_executable"):
        call_apart(
            lambda: (api.call_with("PJRT_Executable_DeserializeAndLoad", args), held, text),
            core=client._core,
            on_late=lambda _: _destroy(api, args.loaded_executable, True),
        )
        loaded = PjrtLoadedExecutable(client, args.loaded_executable, made, source)
        _check_feeds(loaded)
        return loaded


def _check_feeds(loaded: PjrtLoadedExecutable) -> None:
    """Refuse an executable that waits for the host, which others compile: it would never end."""
    facts = loaded.executable.facts
    if facts is None or not facts.feed:
        return
    loaded.delete()
    msg = (
        f"deserialize_executable failed: program {loaded.name!r} exchanges data with the host "
        f"while it runs ({facts.feed}), and nothing here does that: it would never end. Pass the "
        "data as arguments and results."
    )
    raise UnimplementedError(
        msg, operation="deserialize_executable", platform=loaded.client.platform
    )

"""Compiling for the CPU: XLA as a plugin, found in its wheel and opened at the first use."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any

from devrt.compiling import Program
from devrt.compiling.hlo import HloModule, refuse_feed
from devrt.compiling.options import CompileOptions
from devrt.compiling.quirks import flags_of, refuse
from devrt.compiling.refusals import check, compile_explained
from devrt.compiling.xla_flags import check_flags
from devrt.contract import Device
from devrt.errors import (
    ClosedError,
    InvalidArgumentError,
    InvalidTypeError,
    UnimplementedError,
)
from devrt_cpu import _custom_calls, _disk_cache, _linalg, _serialized, quirks

if TYPE_CHECKING:
    from devrt.compiling.device_assignment import DeviceAssignment
    from devrt_cpu._ext import CpuClient, CpuDevice, CpuLoadedExecutable

__all__ = [
    "compile_and_load",
    "deserialize_executable",
    "find_library",
    "register_custom_call",
    "serialize_executable",
]

_WHEEL = quirks.DISTRIBUTION
_LIBRARY = "xla_cpu_pjrt.so"

# Its newer emitter of loops sets MLIR up anew for each of them: half of the time that a small
# program takes to compile. What the older one writes runs as fast there and gives the same bits,
# but where it adds up in another order.
_FLAGS_OF_SMALL = {"xla_cpu_use_fusion_emitters": False}
_SMALL_TEXT, _SMALL_BYTECODE = 4096, 1536  # bytes
_ADDING_UP = (b"reduce", b"dot", b"convolution", b"scatter", b"composite")


def compile_and_load(
    client: CpuClient,
    program: str | bytes,
    devices: Sequence[CpuDevice] | None = None,
    compile_options: CompileOptions | None = None,
    **options: Any,
) -> CpuLoadedExecutable:
    """Compile a StableHLO program and load it on devices.

    Parameters
    ----------
    client
        The client whose devices and memory the program uses.
    program
        StableHLO as text or as portable bytecode.
    devices
        Where it runs: one device for each replica and partition, replicas outermost. None for the
        first devices of this process, as many as the program needs.
    compile_options
        Options, in place of keyword arguments.
    **options
        The fields of `devrt.compiling.options.CompileOptions`.

    Returns
    -------
    CpuLoadedExecutable
        The program, ready to be called.

    Raises
    ------
    UnimplementedError
        If the compiler's wheel is not installed, the program has parameters or outputs that no
        buffer can be, or makes a custom call that nobody answers; the message names it.
    InvalidArgumentError
        If the program does not parse, with line and column, or an option or device does not fit.
    """
    from devrt_cpu import _ext

    source = Program.of(program)
    check(source, "compile_and_load")
    refuse(quirks.installed(), source, "compile_and_load")
    chosen = _complete(client, source, devices, _to_options(compile_options, options)).serialize()
    library = _library()

    def compile(code: bytes) -> CpuLoadedExecutable:
        return _ext._compile(client, library, code, "mlir", chosen)

    with _quiet(), _custom_calls.explained():
        _linalg.provide(library, source.facts.custom_calls)
        made = functools.partial(compile_explained, source, compile)
        return _disk_cache.compiled(client, library, source, chosen, made)


def serialize_executable(client: CpuClient, executable: CpuLoadedExecutable) -> bytes:
    """Return a compiled program as bytes, for `deserialize_executable`."""
    if executable.client is not client:
        msg = "the executable belongs to another client. Serialise it there."
        raise InvalidArgumentError(msg, operation="serialize_executable")
    return executable.serialize()


def deserialize_executable(
    client: CpuClient,
    serialized: bytes,
    devices: Sequence[CpuDevice] | None = None,
    compile_options: CompileOptions | None = None,
    **options: Any,
) -> CpuLoadedExecutable:
    """Load what `serialize_executable` gave, of this or another process.

    Without devices and options it runs on the devices, by number, that it was compiled for, or
    that it was loaded on when it was serialised.

    Raises
    ------
    InvalidArgumentError
        If the bytes are no such executable, are damaged, or come from another version of the
        compiler or another kind of machine.
    """
    from devrt_cpu import _ext

    overridden = b""
    chosen = _to_options(compile_options, options)
    if devices is not None or chosen != CompileOptions():
        overridden = _complete(client, Program(), devices, chosen).serialize()
    library = _library()
    found = _serialized.read(_to_bytes(serialized))
    code = found.data
    with _quiet(), _custom_calls.explained():
        _linalg.provide(library, _linalg.named_calls(code))
        loaded = _ext._deserialize(client, library, code, overridden or found.options)
    if b"infeed" in code or b"outfeed" in code:
        refuse_feed(HloModule.read(loaded.optimized_program()), "cpu", loaded.delete)
    return loaded


def register_custom_call(
    client: CpuClient, name: str, function: Any, *, kind: str = "host"
) -> None:
    """Let programs call a function by a name; see `_custom_calls.register_custom_call`."""
    if client.is_closed:
        msg = "register_custom_call failed: the cpu client is closed. Make a new client."
        raise ClosedError(msg, operation="register_custom_call", platform="cpu")
    with _quiet():
        _custom_calls.register_custom_call(name, function, kind=kind)


@functools.cache
def find_library() -> str:
    """Return the path of the compiler's library, found without importing or opening anything.

    Raises
    ------
    UnimplementedError
        If its wheel is not installed; the message names it.
    """
    try:
        files = metadata.distribution(_WHEEL).files or ()
    except metadata.PackageNotFoundError:
        msg = (
            "compile_and_load needs XLA's compiler for the CPU, which is not installed. Install it "
            f"with: pip install 'devrt-cpu[xla]' (the wheel {_WHEEL})."
        )
        raise UnimplementedError(msg, operation="compile_and_load", platform="cpu") from None
    for file in files:
        path = os.fspath(file.locate())
        if file.name == _LIBRARY and os.path.exists(path):
            return path
    msg = (
        f"the wheel {_WHEEL} is installed and its library {_LIBRARY} is not there. Install it "
        f"again with: pip install --force-reinstall {_WHEEL}."
    )
    raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")


def _library() -> str:
    """Return the compiler's path, once it is known that ``XLA_FLAGS`` does not end the process."""
    path = find_library()
    check_flags(path, __name__, "_compile_something")
    return path


def _compile_something(_: str) -> None:
    from devrt_cpu import make_cpu_client

    with make_cpu_client() as client:
        client.compile_and_load("func.func @main() { return }")


def _to_bytes(serialized: object) -> bytes:
    if isinstance(serialized, bytes | bytearray | memoryview):
        return bytes(serialized)
    msg = f"a serialised executable is bytes, not of type {type(serialized).__name__}."
    raise InvalidTypeError(msg, operation="deserialize_executable")


def _to_options(given: object, options: Mapping[str, Any]) -> CompileOptions:
    if given is None:
        return CompileOptions.of(options)
    if not isinstance(given, CompileOptions):
        msg = f"compile_options must be CompileOptions, not of type {type(given).__name__}."
        raise InvalidTypeError(msg, operation="compile_and_load")
    return given.replace(**options) if options else given


def _complete(
    client: CpuClient,
    program: Program,
    devices: Sequence[CpuDevice] | None,
    options: CompileOptions,
) -> CompileOptions:
    """Fill in what was left to the program, the devices or the client."""
    if options.compile_portable_executable:
        msg = (
            "compile_portable_executable is for programs without devices, and those of the cpu "
            "platform are bound to some. Leave it out."
        )
        raise InvalidArgumentError(msg, operation="compile_and_load")
    ids = None if devices is None else _ids(client, devices)
    replicas, partitions = _counts(program, options, None if ids is None else len(ids))
    local = client.local_devices()
    assigned = options.assignment()
    if assigned is not None and ids is not None:
        msg = "give either devices or device_assignment, not both."
        raise InvalidArgumentError(msg, operation="compile_and_load")
    if ids is None:
        ids = _flat(assigned) if assigned is not None else [d.id for d in local]
        ids = ids[: replicas * partitions]
    if len(ids) != replicas * partitions:
        msg = (
            f"the program needs {replicas * partitions} devices ({replicas} replicas of "
            f"{partitions} partitions), and there are {len(ids)}. Make a client with more "
            f"(num_devices; for devrt's own, DEVRT_NUM_CPU_DEVICES={replicas * partitions} or the "
            "option num_cpu_devices before its first use), or compile for fewer."
        )
        raise InvalidArgumentError(msg, operation="compile_and_load")
    numbers = _engine_numbers(ids, {device.id: i for i, device in enumerate(local)})
    shardy = options.use_shardy_partitioner
    return options.replace(
        num_replicas=replicas,
        num_partitions=partitions,
        use_shardy_partitioner=program.facts.has_shardy if shardy is None else shardy,
        env_option_overrides={**_own_flags(program), **options.env_option_overrides},
        device_assignment=[numbers[r * partitions : (r + 1) * partitions] for r in range(replicas)],
    )


def _own_flags(program: Program) -> dict[str, bool]:
    is_small = 0 < len(program) <= (_SMALL_BYTECODE if program.is_bytecode else _SMALL_TEXT)
    if is_small and not any(program.find(name) >= 0 for name in _ADDING_UP):
        return flags_of(quirks.installed()) | _FLAGS_OF_SMALL
    return flags_of(quirks.installed())


def _ids(client: object, devices: object) -> list[int]:
    if not isinstance(devices, Iterable):
        msg = f"devices must be a sequence of devices, not of type {type(devices).__name__}."
        raise InvalidTypeError(msg, operation="compile_and_load")
    given = list(devices)
    for device in given:
        if not isinstance(device, Device):
            msg = (
                "devices must hold devices, such as those of client.local_devices(), not one of "
                f"type {type(device).__name__}."
            )
            raise InvalidTypeError(msg, operation="compile_and_load")
        if device.client is not client:
            msg = f"{device} is another client's. Use devices of client.local_devices()."
            raise InvalidArgumentError(msg, operation="compile_and_load")
    return [device.id for device in given]


def _flat(assignment: DeviceAssignment) -> list[int]:
    return [device for row in assignment._ids for device in row]


def _engine_numbers(ids: Sequence[int], local: Mapping[int, int]) -> list[int]:
    """Return the engine's numbers of devices: it knows those of this process only."""
    for device in ids:
        if device not in local:
            msg = (
                f"device {device} is none of this process's. Use ids of client.local_devices(): "
                f"{sorted(local)}."
            )
            raise InvalidArgumentError(msg, operation="compile_and_load")
    if len(set(ids)) != len(ids):
        msg = f"each device can be given once: {list(ids)}."
        raise InvalidArgumentError(msg, operation="compile_and_load")
    return [local[device] for device in ids]


def _counts(program: Program, options: CompileOptions, devices: int | None) -> tuple[int, int]:
    """Return the replicas and partitions: as given, as the module says, or as the devices are."""
    given_replicas, given_partitions = options.num_replicas, options.num_partitions
    if options.device_assignment is not None:
        assignment = options.assignment()
        assert assignment is not None
        return assignment.replica_count(), assignment.computation_count()
    facts = program.facts
    said = facts.num_replicas or 1, facts.num_partitions or 1
    if said == (1, 1) and devices:
        said = 1, devices // (given_replicas or 1)
    return given_replicas or said[0], given_partitions or said[1] or 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the plugin's informational lines off standard error, unless the user asked for them.

    It reads the variable when it first logs, which is while a client is made.
    """
    name = "TF_CPP_MIN_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "2"
    try:
        yield
    finally:
        os.environ.pop(name, None)

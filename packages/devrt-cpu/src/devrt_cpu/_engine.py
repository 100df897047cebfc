"""Compiling for the CPU: XLA as a plugin, found in its wheel and opened at the first use."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from devrt.compiling import Program
from devrt.compiling.completion import assign_devices, complete, device_ids
from devrt.compiling.hlo import HloModule, refuse_feed
from devrt.compiling.loading import read_to_load
from devrt.compiling.options import CompileOptions
from devrt.compiling.quirks import Flag, flags_of, refuse
from devrt.compiling.refusals import check, compile_explained
from devrt.errors import ClosedError, InvalidArgumentError, UnimplementedError
from devrt.layout import row_major
from devrt_cpu import _custom_calls, _disk_cache, _library, _linalg, _serialized

if TYPE_CHECKING:
    from devrt.compiling.device_assignment import DeviceAssignment
    from devrt_cpu._ext import CpuClient, CpuDevice, CpuLoadedExecutable
    from devrt_cpu._library import Library

__all__ = [
    "compile_and_load",
    "deserialize_executable",
    "local_ids",
    "register_custom_call",
    "serialize_executable",
]

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
    library = _library.opened(client)
    refuse(library.quirks, source, "compile_and_load")
    given = CompileOptions.of({"compile_options": compile_options, **options})
    chosen = _complete(client, library, source, devices, given, "compile_and_load").serialize()

    def compile(code: bytes) -> CpuLoadedExecutable:
        return _ext._compile(client, library.path, code, "mlir", chosen)

    with _quiet(library), _custom_calls.explained():
        facts = source.facts
        calls = facts.custom_calls if facts.is_whole else _linalg.named_calls(source)
        _linalg.provide(library.path, calls)
        made = functools.partial(compile_explained, source, compile)
        executable = _disk_cache.compiled(client, library.path, source, chosen, made)
    if source.find(b"layout_mode") >= 0:
        _refuse_laid_out_results(executable)
    return executable


def _refuse_laid_out_results(executable: CpuLoadedExecutable) -> None:
    # XLA's plugin copies such a result's bytes as they lie, whatever layout is requested of it.
    module = HloModule.read(executable.optimized_program()[1])
    for number, result in enumerate(module.results):
        if result.layout != row_major(len(result.shape)):
            executable.delete()
            msg = (
                f"compile_and_load failed: program '{module.name}' gives output {number} in the "
                f"layout {result.layout}, and the CPU's programs give row-major ones. Leave the "
                "layout mode of its results out, and put them in a Format afterwards."
            )
            raise UnimplementedError(msg, operation="compile_and_load", output=number)


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
    that it was loaded on when it was serialised. Options leave its replicas and partitions as they
    are, and its devices, unless others are named.

    Raises
    ------
    InvalidArgumentError
        If the bytes are no such executable, are damaged, or come from another version of the
        compiler or another kind of machine.
    """
    from devrt_cpu import _ext

    given, ids = (
        CompileOptions.of({"compile_options": compile_options, **options}),
        dict(enumerate(local_ids(client))),
    )
    library = _library.opened(client)
    read = functools.partial(_serialized.read, library=library.path)
    found, chosen = read_to_load(serialized, devices, given, read, ids)
    over = found.options
    if chosen is not None:
        completed = _complete(client, library, Program(), devices, chosen, "deserialize_executable")
        over = completed.serialize()
    code = found.data
    with _quiet(library), _custom_calls.explained():
        _linalg.provide(library.path, _linalg.named_calls(code))
        loaded = _ext._deserialize(client, library.path, code, over)
    if b"infeed" in code or b"outfeed" in code:
        refuse_feed(HloModule.read(loaded.optimized_program()[1]), "cpu", loaded.delete)
    return loaded


def register_custom_call(
    client: CpuClient, name: str, function: Any, *, kind: str = "host"
) -> None:
    """Let programs call a function by a name; see `_custom_calls.register_custom_call`."""
    if client.is_closed:
        msg = "register_custom_call failed: the cpu client is closed. Make a new client."
        raise ClosedError(msg, operation="register_custom_call", platform="cpu")
    library = _library.of(client)
    with _quiet(library):
        _custom_calls.register_custom_call(library, name, function, kind=kind)


def _complete(
    client: CpuClient,
    library: Library,
    program: Program,
    devices: Sequence[CpuDevice] | None,
    options: CompileOptions,
    operation: str,
) -> CompileOptions:
    """Fill in what was left to the program, the devices or the client."""
    if options.compile_portable_executable:
        msg = (
            "compile_portable_executable is for programs without devices, and those of the cpu "
            "platform are bound to some. Leave it out."
        )
        raise InvalidArgumentError(msg, operation=operation)
    library.refuse_lacking(options.env_option_overrides, operation)
    named = device_ids(client, devices, operation)
    local = {device: number for number, device in enumerate(local_ids(client))}
    made = complete(options, program, named, operation)
    needed = made.device_count
    remedy = (
        f"Make a client with more (num_devices; for devrt's own, DEVRT_NUM_CPU_DEVICES={needed} or "
        "the option num_cpu_devices before its first use), or compile for fewer."
    )
    made = assign_devices(made, named, list(local), operation, remedy)
    return made.replace(
        env_option_overrides={**_own_flags(library, program), **options.env_option_overrides},
        device_assignment=_engine_numbers(made.assignment(), local, operation),
    )


def local_ids(client: CpuClient) -> list[int]:
    """Return the ids of this process's devices, in the order of the compiler's numbers."""
    return [device.id for device in client.local_devices()]


def _own_flags(library: Library, program: Program) -> dict[str, Flag]:
    """Return the flags that devrt compiles a program with, of those that its compiler has."""
    flags = flags_of(library.quirks, program)
    is_small = 0 < len(program) <= (_SMALL_BYTECODE if program.is_bytecode else _SMALL_TEXT)
    if is_small and not any(program.find(name) >= 0 for name in _ADDING_UP):
        flags |= library.without_lacking(_FLAGS_OF_SMALL)
    return flags


def _engine_numbers(
    assignment: DeviceAssignment | None, local: Mapping[int, int], operation: str
) -> DeviceAssignment | None:
    """Return an assignment by the engine's numbers: it knows the devices of this process only."""
    try:
        return assignment and assignment.renumbered(local)
    except KeyError as error:
        msg = (
            f"{operation} failed: device {error} is none of this process's. Use ids of "
            f"client.local_devices(): {sorted(local)}."
        )
        raise InvalidArgumentError(msg, operation=operation) from None


@contextmanager
def _quiet(library: Library) -> Iterator[None]:
    """Keep the plugin's informational lines off standard error, unless the user requested them.

    It reads the variable when it first logs, which is while a client is made.
    """
    name = "TF_CPP_MIN_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "3" if library.engine is not None and library.engine.cries_wolf else "2"
    try:
        yield
    finally:
        os.environ.pop(name, None)

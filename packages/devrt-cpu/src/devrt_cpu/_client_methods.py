"""The methods of CPU clients that are written in Python: those that take milliseconds anyway.

They become members of the native class, so that a call of one is entered here. What they need is
imported with the first call: a client's start has no use for it.
"""

from __future__ import annotations

import collections.abc
import typing

if typing.TYPE_CHECKING:
    import devrt.compiling.options
    from devrt_cpu._ext import CpuClient, CpuDevice, CpuLoadedExecutable

__all__ = [
    "compile",
    "compile_and_load",
    "deserialize_executable",
    "register_custom_call",
    "serialize_executable",
]


def compile_and_load(
    self: CpuClient,
    program: str | bytes,
    devices: collections.abc.Sequence[CpuDevice] | None = None,
    compile_options: devrt.compiling.options.CompileOptions | None = None,
    **options: typing.Any,
) -> CpuLoadedExecutable:
    """Compile a program and load it on devices; see `devrt.contract.Client.compile_and_load`."""
    from devrt_cpu import _engine

    return _engine.compile_and_load(self, program, devices, compile_options, **options)


def compile(
    self: CpuClient,
    program: str | bytes,
    devices: collections.abc.Sequence[CpuDevice] | None = None,
    **options: typing.Any,
) -> CpuLoadedExecutable:
    """Compile and load, under jaxlib's older name."""
    return compile_and_load(self, program, devices, **options)


def serialize_executable(self: CpuClient, executable: CpuLoadedExecutable) -> bytes:
    """Return a compiled program as bytes, for `deserialize_executable`."""
    from devrt_cpu import _engine

    return _engine.serialize_executable(self, executable)


def deserialize_executable(
    self: CpuClient,
    serialized: bytes,
    devices: collections.abc.Sequence[CpuDevice] | None = None,
    compile_options: devrt.compiling.options.CompileOptions | None = None,
    **options: typing.Any,
) -> CpuLoadedExecutable:
    """Load what `serialize_executable` gave, of this or another process."""
    from devrt_cpu import _engine

    return _engine.deserialize_executable(self, serialized, devices, compile_options, **options)


def register_custom_call(
    self: CpuClient, name: str, function: typing.Any, *, kind: str = "host"
) -> None:
    """Let programs call a function by name; see `devrt.contract.Client.register_custom_call`."""
    from devrt_cpu import _engine

    _engine.register_custom_call(self, name, function, kind=kind)

"""Methods of native clients and executables in Python: those that take milliseconds anyway.

`devrt.native.classes.register` makes them members of a backend's native classes, so that a call of
one is entered here. What they need is imported with the first call: a client's start has no use
for it. In annotations ``_Client`` and its like stand for the backend's own classes.
"""

from __future__ import annotations

import collections.abc
import typing

if typing.TYPE_CHECKING:
    import devrt.compiling.hlo_modules
    import devrt.compiling.options
    import devrt.layout

    _Client = typing.Any
    _Device = typing.Any
    _LoadedExecutable = typing.Any

__all__ = ["OF_CLIENTS", "OF_EXECUTABLES"]


def compile_and_load(
    self: _Client,
    program: str | bytes,
    devices: collections.abc.Sequence[_Device] | None = None,
    compile_options: devrt.compiling.options.CompileOptions | None = None,
    **options: typing.Any,
) -> _LoadedExecutable:
    """Compile a program and load it on devices; see `devrt.contract.Client.compile_and_load`."""
    from devrt.native.engines import engine_of

    return engine_of(self).compile_and_load(self, program, devices, compile_options, **options)


def compile(
    self: _Client,
    program: str | bytes,
    devices: collections.abc.Sequence[_Device] | None = None,
    **options: typing.Any,
) -> _LoadedExecutable:
    """Compile and load, under jaxlib's older name."""
    return compile_and_load(self, program, devices, **options)


def serialize_executable(self: _Client, executable: _LoadedExecutable) -> bytes:
    """Return a compiled program as bytes, for `deserialize_executable`."""
    from devrt.native.engines import engine_of

    return engine_of(self).serialize_executable(self, executable)


def deserialize_executable(
    self: _Client,
    serialized: bytes,
    devices: collections.abc.Sequence[_Device] | None = None,
    compile_options: devrt.compiling.options.CompileOptions | None = None,
    **options: typing.Any,
) -> _LoadedExecutable:
    """Load what `serialize_executable` gave, of this or another process."""
    from devrt.native.engines import engine_of

    engine = engine_of(self)
    return engine.deserialize_executable(self, serialized, devices, compile_options, **options)


def register_custom_call(
    self: _Client, name: str, function: typing.Any, *, kind: str = "host"
) -> None:
    """Let programs call a function by name; see `devrt.contract.Client.register_custom_call`."""
    from devrt.native.engines import engine_of

    engine_of(self).register_custom_call(self, name, function, kind=kind)


def hlo_modules(
    self: _LoadedExecutable,
) -> list[devrt.compiling.hlo_modules.CompiledModule]:
    """Return the compiler's own program: one module, with its text and its bytes."""
    from devrt.compiling.hlo_modules import CompiledModule

    return [CompiledModule.of(self.optimized_program())]


def get_hlo_text(self: _LoadedExecutable) -> str:
    """Return the compiler's own program as text in HLO's notation, for people to read."""
    from devrt.compiling.hlo_text import hlo_text

    return hlo_text(self.optimized_program()[1])


def get_parameter_layouts(self: _LoadedExecutable) -> list[devrt.layout.PjRtLayout]:
    """Return how each parameter must lie in memory, as each device sees it."""
    from devrt.layout import PjRtLayout

    return [PjRtLayout(array.layout) for array in hlo_modules(self)[0].parameters]


def get_output_layouts(self: _LoadedExecutable) -> list[devrt.layout.PjRtLayout]:
    """Return how each output lies in memory, as each device sees it."""
    from devrt.layout import PjRtLayout

    return [PjRtLayout(array.layout) for array in hlo_modules(self)[0].results]


def get_parameter_shardings(self: _LoadedExecutable) -> list[typing.Any]:
    """Return how the compiler divided each parameter; empty with one partition."""
    return list(hlo_modules(self)[0].parameter_shardings) if self.num_partitions > 1 else []


def get_output_shardings(self: _LoadedExecutable) -> list[typing.Any]:
    """Return how the compiler divided each output; empty with one partition."""
    return list(hlo_modules(self)[0].result_shardings) if self.num_partitions > 1 else []


def compile_options(self: _LoadedExecutable) -> devrt.compiling.options.CompileOptions:
    """Return the options that it was compiled with, or loaded with in their place."""
    from devrt.compiling.loading import stored_options
    from devrt.compiling.options import CompileOptions

    found = CompileOptions.deserialize(self._options() or stored_options(self._serialize()))
    ids = {number: device.id for number, device in enumerate(self.client.local_devices())}
    assignment = found.assignment()
    return found.replace(device_assignment=assignment and assignment.renumbered(ids))


OF_CLIENTS = (
    compile,
    compile_and_load,
    deserialize_executable,
    register_custom_call,
    serialize_executable,
)
"""Members of a client that has a compiler."""
OF_EXECUTABLES = (
    compile_options,
    get_hlo_text,
    get_output_layouts,
    get_output_shardings,
    get_parameter_layouts,
    get_parameter_shardings,
    hlo_modules,
)
"""Members of an executable."""

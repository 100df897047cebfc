"""The methods of CPU executables that are written in Python: they read the compiler's own program.

They become members of the native class, as those of `_client_methods`.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    import devrt.compiling.hlo_modules
    import devrt.compiling.options
    import devrt.layout
    from devrt_cpu._ext import CpuLoadedExecutable

__all__ = [
    "compile_options",
    "get_hlo_text",
    "get_output_layouts",
    "get_output_shardings",
    "get_parameter_layouts",
    "get_parameter_shardings",
    "hlo_modules",
]


def hlo_modules(
    self: CpuLoadedExecutable,
) -> list[devrt.compiling.hlo_modules.CompiledModule]:
    """Return the compiler's own program: one module, with its text and its bytes."""
    from devrt.compiling.hlo_modules import CompiledModule

    return [CompiledModule.of(self.optimized_program())]


def get_hlo_text(self: CpuLoadedExecutable) -> str:
    """Return the compiler's own program as text in HLO's notation, for people to read."""
    from devrt.compiling.hlo_text import hlo_text

    return hlo_text(self.optimized_program()[1])


def get_parameter_layouts(self: CpuLoadedExecutable) -> list[devrt.layout.PjRtLayout]:
    """Return how each parameter must lie in memory, as each device sees it."""
    from devrt.layout import PjRtLayout

    return [PjRtLayout(array.layout) for array in hlo_modules(self)[0].parameters]


def get_output_layouts(self: CpuLoadedExecutable) -> list[devrt.layout.PjRtLayout]:
    """Return how each output lies in memory, as each device sees it."""
    from devrt.layout import PjRtLayout

    return [PjRtLayout(array.layout) for array in hlo_modules(self)[0].results]


def get_parameter_shardings(self: CpuLoadedExecutable) -> list[typing.Any]:
    """Return how the compiler divided each parameter; empty with one partition."""
    return list(hlo_modules(self)[0].parameter_shardings) if self.num_partitions > 1 else []


def get_output_shardings(self: CpuLoadedExecutable) -> list[typing.Any]:
    """Return how the compiler divided each output; empty with one partition."""
    return list(hlo_modules(self)[0].result_shardings) if self.num_partitions > 1 else []


def compile_options(self: CpuLoadedExecutable) -> devrt.compiling.options.CompileOptions:
    """Return the options that it was compiled with, or loaded with in their place."""
    from devrt.compiling.loading import stored_options
    from devrt.compiling.options import CompileOptions
    from devrt_cpu import _engine

    found = CompileOptions.deserialize(self._options() or stored_options(self._serialize()))
    ids = dict(enumerate(_engine.local_ids(self.client)))
    assignment = found.assignment()
    return found.replace(device_assignment=assignment and assignment.renumbered(ids))

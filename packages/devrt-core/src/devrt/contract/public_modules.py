"""The modules of devrt that a backend may import, of devrt's own backends too.

The list is part of the contract: what is on it changes with the contract's version only. A test of
the repository holds devrt's backends to it, and the page on the contract prints it.
"""

from __future__ import annotations

__all__ = ["PUBLIC_MODULES"]

PUBLIC_MODULES = (
    "devrt.compiling",
    "devrt.compiling.completion",
    "devrt.compiling.custom_call_registry",
    "devrt.compiling.device_assignment",
    "devrt.compiling.gpu_target",
    "devrt.compiling.hlo",
    "devrt.compiling.hlo_modules",
    "devrt.compiling.load_or_compile",
    "devrt.compiling.loading",
    "devrt.compiling.memory_stats",
    "devrt.compiling.options",
    "devrt.compiling.plugin_keys",
    "devrt.compiling.quirks",
    "devrt.compiling.refusals",
    "devrt.compiling.serialized",
    "devrt.compiling.xla_cpu_engines",
    "devrt.compiling.xla_cpu_libraries",
    "devrt.compiling.xla_cpu_quirks",
    "devrt.compiling.xla_flags",
    "devrt.contract",
    "devrt.contract.conflicts",
    "devrt.contract.installation",
    "devrt.distributed.collectives",
    "devrt.dtypes",
    "devrt.errors",
    "devrt.hardware",
    "devrt.hookspecs",
    "devrt.layout",
    "devrt.native",
    "devrt.native.classes",
    "devrt.native.collectives",
    "devrt.native.engine",
    "devrt.native.engines",
    "devrt.native.gpu",
    "devrt.native.gpu_engine",
    "devrt.native.kernel_compiler",
    "devrt.native.kernels",
    "devrt.native.nodes",
    "devrt.native.wheel_libraries",
    "devrt.records",
    "devrt.testing.conformance",
    "devrt.topology",
    "devrt.wire.pprof",
)
"""In the order of their names. A package on it stands for the names that it exports itself."""

"""The libraries that are XLA's compiler for the CPU behind the PJRT C API: one row for each wheel.

Any of them compiles for devrt's CPU client. The order of the rows is that of preference, the newest
XLA first; `devrt.compiling.xla_cpu_quirks` says what is wrong with each.
"""

from __future__ import annotations

import re

from devrt._support.record import record
from devrt.compiling.quirks import LibraryVersion, Version

__all__ = ["ENGINES", "XlaCpuEngine", "engine_named", "recognised", "version_of"]


@record(frozen=True, slots=True)
class XlaCpuEngine:
    """A wheel that brings XLA's compiler for the CPU, as it was seen in one version.

    Attributes
    ----------
    wheel : str
        The distribution.
    library : str
        Where the wheel has the library, below the folder that it is installed in.
    version : tuple of int
        The version that the rest was seen of.
    c_api : tuple of int
        The version of the PJRT C API.
    stablehlo : tuple of int
        The newest version of StableHLO that it reads.
    xla : str
        What its XLA is of: year and month, or the version of jaxlib that has the same.
    licence : str
        What the wheel's metadata says; empty where they say nothing.
    machines : tuple of str
        The architectures that there are wheels for, as `platform.machine` calls them.
    lacks : tuple of str
        Compiler flags that others have and this one refuses.
    needs_no_deps : bool
        Whether its metadata ask for packages that the library does not need.
    cries_wolf : bool
        Whether it logs errors that are none, such as the processor's tuning flags as missing
        features at every load of an executable.
    """

    wheel: str
    library: str
    version: Version
    c_api: tuple[int, int]
    stablehlo: Version
    xla: str
    licence: str
    machines: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    needs_no_deps: bool = False
    cries_wolf: bool = False


ENGINES = (
    XlaCpuEngine(
        "lammps-jax-pjrt-cpu",
        "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
        version=(0, 11, 2),
        c_api=(0, 115),
        stablehlo=(1, 20, 0),
        xla="jaxlib 0.11.2",
        licence="Apache-2.0",
        machines=("x86_64",),
        lacks=("xla_cpu_use_fusion_emitters",),
        needs_no_deps=True,
    ),
    XlaCpuEngine(
        "fastatomstruct-xla-cpu",
        "fastatomstruct_xla_cpu/libpjrt_cpu.so",
        version=(2026, 6, 23),
        c_api=(0, 106),
        stablehlo=(1, 16, 1),
        xla="2026-06",
        licence="Apache-2.0",
        machines=("x86_64",),
        cries_wolf=True,
    ),
    XlaCpuEngine(
        "xla-cpu-pjrt",
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
        version=(0, 0, 1),
        c_api=(0, 81),
        stablehlo=(1, 13, 3),
        xla="2025-11",
        licence="",
        machines=("x86_64", "aarch64"),
    ),
)


def engine_named(name: str) -> XlaCpuEngine | None:
    """Return the row of a distribution, however its name is spelt; None if there is none."""
    wanted = re.sub(r"[-_.]+", "-", name).lower()
    return next((engine for engine in ENGINES if engine.wheel == wanted), None)


def recognised(c_api: tuple[int, int], stablehlo: Version) -> LibraryVersion | None:
    """Return which library reports two versions of itself; None where none is known to."""
    for engine in ENGINES:
        if (engine.c_api, engine.stablehlo) == (c_api, stablehlo):
            return LibraryVersion(engine.wheel, engine.version)
    return None


def version_of(text: str) -> Version:
    """Return a distribution's version as numbers; empty where it begins with none."""
    release = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, release.group().split("."))) if release else ()

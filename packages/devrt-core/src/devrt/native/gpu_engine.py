"""How clients for GPUs compile: by XLA's plugin over their memory, found in its wheel.

Programs of simulated devices are compiled for the CPU, and the simulator runs them in stream order:
it is a plugin too, so that all else is as with the real one.

Nothing here opens a library before a client compiles.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from devrt.compiling import Program
from devrt.compiling.quirks import flags_of
from devrt.compiling.xla_cpu_libraries import (
    XlaCpuLibrary,
    installed_libraries,
    preferred,
    quiet,
)
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.native.engine import Engine
from devrt.native.gpu_simulation import is_simulated
from devrt.native.kernel_calls import KERNEL_TARGET

if TYPE_CHECKING:
    from devrt.compiling.quirks import Flag, Quirk
    from devrt.contract import Capabilities
    from devrt.native.engine_job import EngineJob
    from devrt.native.gpu import GpuPlatform

__all__ = ["GpuEngine", "GpuLibrary", "capabilities", "describe"]


class GpuLibrary(NamedTuple):
    """XLA's plugin for GPUs, or the simulator in its place.

    Attributes
    ----------
    path : str
        Where it is.
    wheel, version : str
        The wheel that brings it; empty for a path that was named, and for the simulator.
    on_cpu : XlaCpuLibrary or None
        The compiler for the CPU that runs the programs of simulated devices.
    """

    path: str
    wheel: str = ""
    version: str = ""
    on_cpu: XlaCpuLibrary | None = None

    def __str__(self) -> str:
        if self.on_cpu is not None:
            return f"programs simulated on the CPU by {self.on_cpu}"
        return f"{self.wheel} {self.version}".strip() or self.path

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """What is wrong with it, as far as is known."""
        return () if self.on_cpu is None else self.on_cpu.quirks


class GpuEngine(Engine[GpuLibrary]):
    """How the clients of a vendor's package compile.

    Parameters
    ----------
    vendor
        The package's platform; its `GpuPlatform.wheels` say where the library is.
    flags
        Returns flags of XLA that the machine needs, by name.
    check
        Raises where the machine lacks what the wheels' plugins need. It is called before one is
        opened, not for a library that the environment names.
    """

    def __init__(
        self,
        vendor: GpuPlatform,
        flags: Callable[[], Mapping[str, str]] = dict,
        check: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(vendor.name, vendor.module.rpartition(".")[0])
        self._vendor = vendor
        self._flags = flags
        self._check = check

    @property
    def native(self) -> Any:
        """The native module."""
        return importlib.import_module(self._vendor.module)

    def library(self, client: Any) -> GpuLibrary:
        """Return the library that a client compiles with; opens nothing."""
        is_named = bool(os.environ.get(self._vendor.engine_variable))
        if is_simulated(client.local_devices()) and not is_named:
            return _simulator(self._vendor)
        return find(self._vendor)

    def compiler(self, library: GpuLibrary) -> str:
        """Return the file that compiles: for simulated devices that for the CPU."""
        return library.path if library.on_cpu is None else library.on_cpu.path

    def opened(self, client: Any) -> GpuLibrary:
        """Return the same, once the machine is known to have what it needs."""
        found = self.library(client)
        if self._check is not None and found.wheel:
            self._check()
        return found

    def more_devices(self, needed: int) -> str:
        """Return what to do about a program that needs more devices than the client has."""
        variable = self._vendor.mock_variable
        return f"Make more visible, simulate {needed} ({variable}={needed}), or compile for fewer."

    def platform_version(self, client: Any, own: str) -> str:
        """Return the versions of the backend, which is given, and of the compiler."""
        try:
            return f"{own}, {self.library(client)}"
        except UnimplementedError:
            return f"{own}, no compiler"

    def handlers(self) -> Sequence[str]:
        """Return the custom calls that the backend answers itself: kernels."""
        return (KERNEL_TARGET,)

    def provided_words(self) -> str:
        """Return a sentence on those, for the error on a custom call that nobody answers."""
        return f"Kernels are called as {KERNEL_TARGET}."

    def named_calls(self, code: bytes) -> Iterable[str]:
        """Return the calls of `handlers` that a program's bytes name, where it cannot be read."""
        # Where the devices are simulated, compiled programs have the platform in it.
        own = f"devrt_{self.platform}".ljust(len(KERNEL_TARGET), "_")
        is_named = any(name.encode() in code for name in (KERNEL_TARGET, own))
        return self.handlers() if is_named else ()

    def provide(self, library: GpuLibrary, names: Iterable[str]) -> None:
        """Have a library's programs find the handler of calls of kernels."""
        if KERNEL_TARGET not in names:
            return
        self.native._provide_kernel_calls(library.path)

    def flags(self, library: GpuLibrary, program: Program) -> Mapping[str, Flag | str]:
        """Return the flags that this machine needs, or the compiler of simulated devices."""
        if library.on_cpu is not None:
            return flags_of(library.quirks, program)
        return {**self._flags()}

    def numbers(self, client: Any, library: GpuLibrary) -> Mapping[int, int]:
        """Return the plugin's numbers of the devices it knows, by their ids; opens the plugin.

        In a job those are of all processes, and the first call waits for the others.
        """
        job = _job_of(client, library)
        with self.quiet(library):
            if job is not None:
                return job.numbers(self.native, client, library)
            ids = [device.id for device in client.local_devices()]
            return dict(zip(ids, self.native._engine_devices(client, library.path), strict=True))

    def machine(self, client: Any) -> Sequence[str]:
        """Return the kinds of the client's devices, for which the code is; in a job of all."""
        job = _job_of(client, self.library(client))
        if job is not None:
            return job.rows(client)
        return [device.device_kind for device in client.local_devices()]

    def quiet(self, library: GpuLibrary) -> AbstractContextManager[None]:
        """Return what keeps a library's informational lines off standard error."""
        return nullcontext() if library.on_cpu is None else quiet(library.on_cpu.engine)


def _job_of(client: Any, library: GpuLibrary) -> EngineJob | None:
    """Return the job whose devices a client's compiler knows; the simulator's knows of none."""
    if library.on_cpu is not None:
        return None
    from devrt.native.engine_job import engine_job_of  # not at the top: few clients need it

    return engine_job_of(client)


@functools.cache
def _simulator(vendor: GpuPlatform) -> GpuLibrary:
    """Return the simulator as the plugin of its devices.

    Raises
    ------
    UnimplementedError
        If no compiler for the CPU is installed; the message names what to install.
    """
    compiler = _compiler_for_cpu(vendor)
    path = vendor.simulator_path(importlib.import_module(vendor.module))
    _name_compiler(path, compiler.path)
    return GpuLibrary(path, on_cpu=compiler)


def _compiler_for_cpu(vendor: GpuPlatform) -> XlaCpuLibrary:
    compiler = preferred(installed_libraries())
    if compiler is not None:
        return compiler
    from devrt.contract.installation import how_to_install

    msg = (
        f"programs on simulated {vendor.name} devices run on the CPU, and no compiler for it is "
        f"installed; all else works without. Install it with: {how_to_install('devrt-cpu[xla]')}"
    )
    raise UnimplementedError(msg, operation="compile_and_load", platform=vendor.name)


def _name_compiler(simulator: str, compiler: str) -> None:
    """Tell the simulator, which is open, what compiles the programs of its devices."""
    import ctypes  # a client's start has no use for it

    from devrt.compiling.library_hash import count_in

    count_in(simulator, compiler)
    ctypes.CDLL(simulator).devrt_simulator_compile_with(os.fsencode(compiler))


def find(vendor: GpuPlatform) -> GpuLibrary:
    """Return the library that a vendor's clients compile with.

    Raises
    ------
    InvalidArgumentError
        If the environment names one that is not there.
    UnimplementedError
        If none is installed; the message names the wheel.
    """
    named = os.environ.get(vendor.engine_variable)
    if not named:
        return _installed(vendor)
    if not os.path.isfile(named):
        msg = f"{vendor.engine_variable} names {named!r}, and there is no such file."
        raise InvalidArgumentError(msg, operation="compile_and_load", platform=vendor.name)
    return GpuLibrary(os.path.abspath(named))


@functools.cache
def _installed(vendor: GpuPlatform) -> GpuLibrary:
    for wheel, place in vendor.wheels:
        try:
            distribution = metadata.distribution(wheel)
        except metadata.PackageNotFoundError:
            continue
        path = str(distribution.locate_file(place))
        if os.path.isfile(path):
            return GpuLibrary(path, wheel, distribution.version)
    from devrt.contract.installation import how_to_install

    wheels = " or ".join(wheel for wheel, _ in vendor.wheels)
    msg = (
        f"programs on {vendor.name} need XLA's plugin for its GPUs ({wheels}), which is not "
        f"installed; all else works without. Install it with: {how_to_install(*vendor.compilers)}"
    )
    raise UnimplementedError(msg, operation="compile_and_load", platform=vendor.name)


def describe(vendor: GpuPlatform, *, simulates: bool = False) -> str:
    """Return what compiles for a vendor's clients, for reports, or what to do where nothing can.

    ``simulates`` says that their devices are simulated.
    """
    try:
        if simulates and not os.environ.get(vendor.engine_variable):
            return f"programs simulated on the CPU by {_compiler_for_cpu(vendor)}"
        found = f"compiles with {find(vendor)}"
    except (InvalidArgumentError, UnimplementedError) as error:
        return f"compiles nothing: {error.message}"
    return found if vendor.shares_pool else f"{found}, whose memory is a second pool beside devrt's"


def capabilities(self: Any) -> Capabilities:
    """Return what can be counted on; see `devrt.contract.Capabilities`."""
    from devrt.contract import Capabilities
    from devrt.native.engines import engine_of, formats_of

    try:
        library = engine_of(self).library(self)
    except (InvalidArgumentError, UnimplementedError):
        return Capabilities.of(
            self, asynchronous=True, layouts=True, formats=(), custom_calls=False
        )
    return Capabilities.of(
        self,
        asynchronous=True,
        layouts=True,
        donation=True,
        formats=formats_of(self),
        collectives=True,
        custom_calls=True,
        programs_across_processes=_job_of(self, library) is not None,
        calls_on_host=library.on_cpu is not None,
    )

"""How clients for GPUs compile: by XLA's plugin over their memory, found in its wheel.

Nothing here opens a library before a client compiles.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from devrt.compiling import Program
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.native.engine import Engine

if TYPE_CHECKING:
    from devrt.compiling.quirks import Flag, Quirk
    from devrt.contract import Capabilities
    from devrt.native.gpu import GpuPlatform

__all__ = ["GpuEngine", "GpuLibrary", "capabilities", "describe"]


class GpuLibrary(NamedTuple):
    """XLA's plugin for GPUs.

    Attributes
    ----------
    path : str
        Where it is.
    wheel, version : str
        The wheel that brings it; empty for a path that was named.
    """

    path: str
    wheel: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.wheel} {self.version}".strip() or self.path

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """What is wrong with it, as far as is known."""
        return ()


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
        found = find(self._vendor)
        if found.wheel and _is_simulated(client):
            msg = (
                f"programs do not run on simulated {self.platform} devices: {found} works on real "
                "ones, and would take their addresses for its own."
            )
            raise UnimplementedError(msg, operation="compile_and_load", platform=self.platform)
        return found

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
            return f"{own}, {find(self._vendor)}"
        except UnimplementedError:
            return f"{own}, no compiler"

    def flags(self, library: GpuLibrary, program: Program) -> Mapping[str, Flag | str]:
        """Return the flags that this machine needs."""
        return {**self._flags()}


def _is_simulated(client: Any) -> bool:
    return any("simulated" in device.device_kind for device in client.local_devices())


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


def describe(vendor: GpuPlatform) -> str:
    """Return what compiles for a vendor's clients, for reports, or what to do where nothing can."""
    try:
        found = f"compiles with {find(vendor)}"
    except (InvalidArgumentError, UnimplementedError) as error:
        return f"compiles nothing: {error.message}"
    return found if vendor.shares_pool else f"{found}, whose memory is a second pool beside devrt's"


def capabilities(self: Any) -> Capabilities:
    """Return what can be counted on; see `devrt.contract.Capabilities`."""
    from devrt.contract import Capabilities
    from devrt.native.engines import engine_of

    try:
        engine_of(self).library(self)
    except (InvalidArgumentError, UnimplementedError):
        return Capabilities.of(
            self, asynchronous=True, layouts=True, formats=(), custom_calls=False
        )
    return Capabilities.of(
        self, asynchronous=True, layouts=True, donation=True, collectives=True, custom_calls=True
    )

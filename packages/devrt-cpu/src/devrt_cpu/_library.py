"""The compiler's library: which one a client has, what is known of it, whether it can be opened.

Nothing here opens a library before a client compiles.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from devrt.compiling.quirks import LibraryVersion, Quirk, matching
from devrt.compiling.xla_cpu_engines import (
    ENGINES,
    XlaCpuEngine,
    engine_named,
    recognised,
    version_of,
)
from devrt.compiling.xla_cpu_libraries import (
    XlaCpuLibrary,
    installed_libraries,
    library_of,
    preferred,
)
from devrt.compiling.xla_cpu_quirks import QUIRKS
from devrt.compiling.xla_flags import check_flags
from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from devrt_cpu._ext import CpuClient

__all__ = [
    "Library",
    "choose",
    "describe",
    "installed",
    "of",
    "opened",
    "platform_version",
    "remember",
]

OPTION = "cpu_engine"
VARIABLE = "DEVRT_CPU_ENGINE"

_chosen: weakref.WeakKeyDictionary[CpuClient, Library] = weakref.WeakKeyDictionary()


class Library(NamedTuple):
    """A compiler's library.

    Attributes
    ----------
    path : str
        Where it is.
    wheel, version : str
        The wheel that brings it; empty for a path that is no known wheel's.
    """

    path: str
    wheel: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.wheel} {self.version}".strip() or self.path

    @property
    def engine(self) -> XlaCpuEngine | None:
        """The row of its wheel, or of the one that it is a copy of."""
        known = self.known
        return None if known is None else engine_named(known.name)

    @property
    def known(self) -> LibraryVersion | None:
        """Which library it is; None for one that devrt does not know. A path is opened for it."""
        if self.wheel:
            return LibraryVersion(self.wheel, version_of(self.version))
        return recognised(*_identity(self.path))

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """What is wrong with it, as far as is known."""
        return matching(QUIRKS, self.known)

    def refuse_lacking(self, flags: Mapping[str, object], operation: str) -> None:
        """Refuse flags of the caller's that this compiler does not have.

        Raises
        ------
        InvalidArgumentError
            If there is one; the message names it.
        """
        for name in flags:
            if self.engine is not None and name in self.engine.lacks:
                msg = (
                    f"{operation} failed: {self} has no option {name!r}, which other engines "
                    f"have. Leave it out, or name another engine ({OPTION}, {VARIABLE})."
                )
                raise InvalidArgumentError(msg, operation=operation, option=name)

    def without_lacking(self, flags: Mapping[str, bool]) -> dict[str, bool]:
        """Return flags of devrt's own choice without those that this compiler does not have.

        Of one that is not known they may be any.
        """
        engine = self.engine
        if engine is None:
            return {}
        return {name: value for name, value in flags.items() if name not in engine.lacks}


def remember(client: CpuClient, library: Library) -> None:
    """Keep what a client was requested to compile with."""
    _chosen[client] = library


def of(client: CpuClient) -> Library:
    """Return the library that a client compiles with."""
    return _chosen.get(client) or choose()


def choose(named: str | None = None) -> Library:
    """Return the library that compiles.

    Parameters
    ----------
    named
        A wheel's name, or the path of a library. None for what the environment names, or else
        the newest that is installed and has no quirk against it.

    Raises
    ------
    InvalidArgumentError
        If what is named is not here; the message says what to install.
    UnimplementedError
        If no engine is installed.
    """
    if named is None:
        named = os.environ.get(VARIABLE) or None
    return _default() if named is None else _found(named)


@functools.cache
def _default() -> Library:
    found = preferred(installed_libraries())
    if found is None:
        from devrt.contract.installation import how_to_install

        msg = (
            "compile_and_load needs XLA's compiler for the CPU, which is not installed. Install it "
            f"with: {how_to_install('devrt-cpu[xla]')}, or one of "
            f"{', '.join(engine.wheel for engine in ENGINES)}."
        )
        raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")
    return _named(found)


def installed() -> Iterator[Library]:
    """Yield the libraries whose wheels are installed, the newest first."""
    yield from map(_named, installed_libraries())


@functools.cache
def _found(named: str) -> Library:
    if os.sep in named or named.endswith(".so"):
        return _at(named)
    engine = engine_named(named)
    if engine is None:
        names = ", ".join(engine.wheel for engine in ENGINES)
        raise _refused(named, f"devrt knows no engine of that name. Name one of {names}, or a path")
    library = _of_wheel(engine)
    if library is None:
        options = " --no-deps" if engine.needs_no_deps else ""
        command = f"pip install{options} {engine.wheel}"
        raise _refused(named, f"it is not installed. Install it with: {command}")
    return library


def _at(path: str) -> Library:
    if not os.path.isfile(path):
        raise _refused(path, "there is no such file. Name a library that is there, or a wheel")
    given = os.path.realpath(path)
    known = (each for each in installed() if os.path.realpath(each.path) == given)
    return next(known, Library(os.path.abspath(path)))


def _of_wheel(engine: XlaCpuEngine) -> Library | None:
    found = library_of(engine)
    return None if found is None else _named(found)


def _named(found: XlaCpuLibrary) -> Library:
    return Library(found.path, found.engine.wheel, found.version)


def opened(client: CpuClient) -> Library:
    """Return a client's library, once it is known that opening it does not end the process.

    Raises
    ------
    ConfigError
        If XLA would end the process for what ``XLA_FLAGS`` holds.
    InvalidArgumentError
        If it is a path, and no library of a compiler for the CPU that devrt can use.
    """
    library = of(client)
    check_flags(library.path, "devrt_cpu._trial", "compile_something")
    if not library.wheel:
        _identity(library.path)
    return library


@functools.cache
def _identity(path: str) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Return the versions of the PJRT C API and of StableHLO that a library reports; opens it."""
    from devrt_cpu import _ext

    try:
        minor, stablehlo = _ext._identify_engine(path)
    except DevrtError as error:
        raise _refused(path, error.message) from error
    return (0, minor), tuple(stablehlo)


def _refused(named: str, why: str) -> InvalidArgumentError:
    msg = f"{OPTION} {named!r} cannot be used: {why.rstrip('.')}."
    return InvalidArgumentError(msg, operation="make_cpu_client", option=OPTION, value=named)


def describe(named: str | None = None) -> str:
    """Return what compiles, for reports: a clause, or what to do where nothing can."""
    try:
        return f"compiles with {_in_full(choose(named))}"
    except DevrtError as error:
        return f"compiles nothing: {error.message}"


def platform_version(client: CpuClient, own: str) -> str:
    """Return the version of a client's platform: devrt-cpu's, and its compiler's."""
    try:
        return f"{own}, {_in_full(of(client))}"
    except DevrtError:
        return f"{own}, no compiler"


def _in_full(library: Library) -> str:
    engine = engine_named(library.wheel)
    if engine is None or engine.version != version_of(library.version):
        return str(library)
    major, minor = engine.c_api
    return f"{library} (PJRT {major}.{minor}, XLA of {engine.xla})"

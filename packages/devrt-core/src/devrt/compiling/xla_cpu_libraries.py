"""Which of the libraries that are XLA's compiler for the CPU are installed, and which one is taken.

Nothing here opens one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import NamedTuple

from devrt.compiling.quirks import LibraryVersion, Quirk, matching
from devrt.compiling.xla_cpu_engines import ENGINES, XlaCpuEngine, version_of
from devrt.compiling.xla_cpu_quirks import QUIRKS
from devrt.errors import UnimplementedError

__all__ = ["XlaCpuLibrary", "installed_libraries", "library_of", "preferred", "quiet"]

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


class XlaCpuLibrary(NamedTuple):
    """A wheel's library.

    Attributes
    ----------
    engine : XlaCpuEngine
        What is known of the wheel.
    path : str
        Where the library is.
    version : str
        The wheel's version.
    """

    engine: XlaCpuEngine
    path: str
    version: str

    def __str__(self) -> str:
        return f"{self.engine.wheel} {self.version}"

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """What is wrong with it, as far as is known."""
        return matching(QUIRKS, LibraryVersion(self.engine.wheel, version_of(self.version)))


def library_of(engine: XlaCpuEngine) -> XlaCpuLibrary | None:
    """Return the library of a wheel; None where the wheel is not installed.

    Raises
    ------
    UnimplementedError
        If the wheel is installed without it.
    """
    try:
        distribution = metadata.distribution(engine.wheel)
    except metadata.PackageNotFoundError:
        return None
    path = str(distribution.locate_file(engine.library))
    if os.path.isfile(path):
        return XlaCpuLibrary(engine, path, distribution.version)
    msg = (
        f"the wheel {engine.wheel} is installed and its library {engine.library} is not there. "
        f"Install it again with: pip install --force-reinstall --no-deps {engine.wheel}."
    )
    raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")


def installed_libraries() -> Iterator[XlaCpuLibrary]:
    """Yield the libraries whose wheels are installed, the newest first."""
    for engine in ENGINES:
        library = library_of(engine)
        if library is not None:
            yield library


def preferred(found: Iterable[XlaCpuLibrary]) -> XlaCpuLibrary | None:
    """Return the first that has no quirk against it, or else the first; None of none."""
    libraries = list(found)
    clean = (each for each in libraries if not any(quirk.is_avoided for quirk in each.quirks))
    return next(clean, libraries[0] if libraries else None)


@contextmanager
def quiet(engine: XlaCpuEngine | None) -> Iterator[None]:
    """Keep a plugin's informational lines off standard error, unless the user requested them.

    It reads the variable when it first logs, which is while a client is made.

    Parameters
    ----------
    engine
        The row of its wheel; None where that is not known.
    """
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "3" if engine is not None and engine.cries_wolf else "2"
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)

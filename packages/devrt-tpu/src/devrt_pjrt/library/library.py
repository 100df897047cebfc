"""Opening a plugin's library, once, and never closing it."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable
from mmap import ACCESS_READ, mmap
from typing import Any

from devrt.compiling.xla_flags import check_flags
from devrt.errors import DevrtError, InvalidArgumentError, PluginLoadError
from devrt.records import PluginTraits
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library import capsule as _capsule
from devrt_pjrt.library.api import Api
from devrt_pjrt.library.changes import Changes, Snapshot
from devrt_pjrt.library.elf import problem_with
from devrt_pjrt.library.handle import Handle
from devrt_pjrt.library.since import BROKEN_MINORS, MAJOR, MINIMUM_MINOR
from devrt_pjrt.library.values import read_values
from devrt_pjrt.traits import Traits

__all__ = ["Library", "open_library"]

_NO_INFORMATION = "TF_CPP_MIN_LOG_LEVEL", "1"  # of XLA's log, on standard error; as jax has it
_MISSING = re.compile(r"^(\S+): cannot open shared object file")
_TRIAL = ("devrt_pjrt.client.make_client", "try_library")  # in a child process
_log = logging.getLogger("devrt_pjrt")
_VERSION_END = 40  # the table's size, the extensions, and the version's own 24 bytes


class Library(Handle):
    """A plugin: its function table, a ``PJRT_Api*``, and whether it is initialised.

    ``name`` is the platform, for errors and for what the environment needs; ``path`` the library's
    file, empty where the table came in a capsule. ``is_global`` tells whether its symbols are
    visible to every other library of the process, ``traits`` what counts for it as far as that is
    known without a client, and ``changes`` what initialising it has changed in the process.
    """

    def __init__(
        self,
        name: str,
        table: Any,
        path: str = "",
        is_global: bool = False,
        traits: Iterable[PluginTraits] = (),
    ) -> None:
        self.name = name
        self.path = path
        self.is_global = is_global
        _check_version(table, self.label)
        self.api = Api(table, self.label)
        self._traits = Traits(traits, name, path, self.api.extensions())
        self.traits = self._traits.of_library
        self._lock = threading.Lock()
        self._is_initialized = False
        self.changes = Changes()
        self._failure: DevrtError | None = None

    @property
    def label(self) -> str:
        """The platform and the file, as errors name them."""
        return f"{self.name!r} ({self.path})" if self.path else f"{self.name!r}"

    @property
    def version(self) -> tuple[int, int]:
        """The version of the C API that the plugin was built for."""
        return self.api.major, self.api.minor

    @property
    def is_initialized(self) -> bool:
        """Whether `initialize` has succeeded."""
        return self._is_initialized

    def traits_for(self, platform: str) -> PluginTraits:
        """Return what counts for its clients and topologies, by its own word for the platform."""
        return self._traits.of_platform(platform)

    def contains(self, mark: bytes) -> bool:
        """Return whether its file has some bytes; looking takes up to a second."""
        if not self.path:
            return False
        with open(self.path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return data.find(mark) >= 0

    def initialize(self) -> None:
        """Initialise the plugin, once; a failure is final, and raised again at every later call.

        Raises
        ------
        PluginLoadError
            If the plugin failed. It must not be called again: some plugins would end the process.
        """
        self.api.check_process("PJRT_Plugin_Initialize")
        with self._lock:
            if self._is_initialized:
                return
            if self._failure is not None:
                raise self._failure.fresh()
            if self.path and not self.traits.is_exclusive:
                check_flags(self.path, *_TRIAL, **self.traits.trial_options)
            self.api.pid = os.getpid()
            self._set_environment()
            before = Snapshot()
            try:
                self.api.call("PJRT_Plugin_Initialize")
            except DevrtError as error:
                self._failure = self._final(error)
                raise self._failure.fresh() from error
            finally:
                self.changes = before.changes()
            self._is_initialized = True

    def _set_environment(self) -> None:
        for name, value in self.traits.environment().items():
            if name not in os.environ:
                _log.info("%s=%s is set for %s", name, value, self.label)
                os.environ[name] = value

    def _final(self, error: DevrtError) -> PluginLoadError:
        msg = (
            f"the PJRT plugin {self.label} could not be initialised: {error.message} "
            "This is final for this process: fix the cause and start another one."
        )
        return PluginLoadError(
            msg, code=error.code, phase="initialize", plugin=self.name, path=self.path
        )

    def make_global(self) -> None:
        """Make the library's symbols visible to every other one, for good.

        Those that were bound already stay as they are.

        Raises
        ------
        InvalidArgumentError
            If it came in a capsule: its file is not known.
        """
        if self.is_global:
            return
        if not self.path:
            msg = (
                f"the symbols of the PJRT plugin {self.label} cannot be made global: it came in a "
                "capsule. That was settled when its library was opened."
            )
            raise InvalidArgumentError(msg, plugin=self.name)
        _open(self.name, self.path, is_global=True)
        self.is_global = True

    def attributes(self) -> dict[str, Any]:
        """Return what the plugin says of itself, such as the StableHLO versions that it reads."""
        self.initialize()
        args = self.api.call("PJRT_Plugin_Attributes")
        return read_values(args.attributes, args.num_attributes)

    def capsule(self) -> object:
        """Return the function table in a capsule ``pjrt_c_api``, as other runtimes take it."""
        return _capsule.wrap(int(ffi.cast("uintptr_t", self.api.table)))

    def __repr__(self) -> str:
        major, minor = self.version
        return f"Library({self.label}, version {major}.{minor})"


def _check_version(table: Any, label: str) -> None:
    facts: dict[str, Any] = {"plugin": label, "phase": "version"}
    if table.struct_size < _VERSION_END:
        msg = (
            f"the PJRT plugin {label} has a table of {table.struct_size} bytes, too short for "
            "its version. It is older than devrt can use, or no PJRT plugin. Upgrade it."
        )
        raise PluginLoadError(msg, **facts)
    major = int(table.pjrt_api_version.major_version)
    minor = int(table.pjrt_api_version.minor_version)
    facts["version"] = (major, minor)
    wanted = f"{MAJOR}.{MINIMUM_MINOR}"
    if major != MAJOR:
        older = "the PJRT loader (devrt-tpu)" if major > MAJOR else "the plugin"
        msg = (
            f"the PJRT plugin {label} is of C API version {major}.{minor}, and devrt uses "
            f"{wanted} and later of major version {MAJOR}. Upgrade {older}."
        )
        raise PluginLoadError(msg, **facts)
    if minor < MINIMUM_MINOR or minor in BROKEN_MINORS:
        why = "its table has another order" if minor in BROKEN_MINORS else "it is too old"
        msg = (
            f"the PJRT plugin {label} is of C API version {major}.{minor}, and devrt uses "
            f"{wanted} and later: {why}. Upgrade the plugin."
        )
        raise PluginLoadError(msg, **facts)


def open_library(
    name: str,
    library: str | os.PathLike[str] | object,
    is_global: bool = False,
    traits: Iterable[PluginTraits] = (),
) -> Library:
    """Open a plugin by its path, or take one in a capsule; it stays open until the end.

    With ``is_global`` a library that is opened by its path shows its symbols to every other one.
    Raises `PluginLoadError` if it is no library of this machine, needs another library that is
    missing, exports no ``GetPjrtApi``, or is of a version that cannot be used.
    """
    if _capsule.is_capsule(library):
        table = ffi.cast("const PJRT_Api *", _capsule.unwrap(library))
        return Library(name, table, traits=traits)
    if not isinstance(library, str | os.PathLike):
        msg = (
            f"the library of platform {name!r} must be a path or a capsule named 'pjrt_c_api', "
            f"not {type(library).__name__}."
        )
        raise PluginLoadError(msg, phase="open", plugin=name)
    path = os.path.abspath(os.fspath(library))
    return Library(name, _open(name, path, is_global), path, is_global, traits)


def _open(name: str, path: str, is_global: bool) -> Any:
    facts: dict[str, Any] = {"phase": "open", "plugin": name, "path": path}
    problem = problem_with(path)
    if problem:
        msg = (
            f"the PJRT library {path!r} of platform {name!r} cannot be opened: {problem}. "
            "Give the full path of a library for this machine."
        )
        raise PluginLoadError(msg, **facts)
    os.environ.setdefault(*_NO_INFORMATION)  # read when the library is opened
    reason = ffi.new("char[]", 4096)
    handle = lib.devrt_open(os.fsencode(path), is_global, reason, len(reason))
    if handle == ffi.NULL:
        raise _not_opened(name, path, ffi.string(reason).decode(errors="replace"), facts)
    table = lib.devrt_find_api(handle)
    if table == ffi.NULL:
        msg = (
            f"the library {path!r} of platform {name!r} has no function GetPjrtApi, or it returned "
            "nothing: it is no PJRT plugin. Name the plugin's own library."
        )
        raise PluginLoadError(msg, **facts)
    return table


def _not_opened(name: str, path: str, reason: str, facts: dict[str, Any]) -> PluginLoadError:
    missing = _MISSING.match(reason)
    if missing is None:
        msg = (
            f"the PJRT library {path!r} of platform {name!r} cannot be opened: {reason}. "
            "Install a version that fits this machine."
        )
        return PluginLoadError(msg, **facts)
    msg = (
        f"the PJRT library {path!r} of platform {name!r} needs {missing.group(1)}, which is not "
        "found. Install what brings it, or add its folder to LD_LIBRARY_PATH."
    )
    return PluginLoadError(msg, missing=missing.group(1), **facts)

"""What is under test: a plugin or a PJRT library, as a case sees it in the child process."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import warnings
from typing import TYPE_CHECKING, Any

from devrt.errors import BackendUnavailableError, UnknownPlatformError
from devrt.plugins.discovery.installed import discover_plugins
from devrt.plugins.discovery.pjrt_env import plugins_in, read_config
from devrt.plugins.discovery.refs import FROM_ENVIRONMENT, PluginRef
from devrt.testing.conformance.expect import Failure, NotApplicable, require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devrt.contract import Client, Device, Memory
    from devrt.plugins.loading.plugin import Backend

__all__ = ["Subject", "find_subject"]

_LIBRARY = re.compile(r".*\.(so|dylib|dll)(\.\d+)*")
_CONFIG = ".json"


def find_subject(name: str) -> PluginRef:
    """Return the plugin that a name says, or the library at a path; nothing is imported.

    Raises
    ------
    UnknownPlatformError
        If there is none.
    """
    if os.sep in name or _LIBRARY.fullmatch(name) or name.endswith(_CONFIG):
        return _library(os.path.abspath(name))
    found = discover_plugins()
    matching = [ref for ref in found if ref.is_called(name)]
    if not matching:
        there = ", ".join(sorted({ref.name for ref in found})) or "none"
        msg = (
            f"no installed plugin is called {name!r}. Give a platform, platform@distribution, or "
            f"the path of a PJRT library; installed: {there}."
        )
        raise UnknownPlatformError(msg, platform=name)
    return matching[0]  # devrt's own entry points come before adopted plugins


def _library(path: str) -> PluginRef:
    if not os.path.isfile(path):
        what = "is a folder, no PJRT library" if os.path.isdir(path) else "is not there"
        msg = f"{path} {what}. Give a PJRT library's path, or the name of an installed plugin."
        raise UnknownPlatformError(msg, platform=path)
    stem = os.path.basename(path).partition(".")[0].removeprefix("lib")
    platform = re.sub(r"[^a-z0-9_]+", "_", stem.lower()) or "library"
    if not path.endswith(_CONFIG):
        return PluginRef(platform, "(environment)", library=path, source=FROM_ENVIRONMENT)
    (found,) = plugins_in('{}:"{}"'.format(platform, path.replace('"', '""')))
    if found.problem:
        raise UnknownPlatformError(f"{found.problem}.", platform=path)
    return found


@contextlib.contextmanager
def _absence_as_not_applicable() -> Iterator[None]:
    """End the case as not applicable where a platform cannot be used on this machine."""
    try:
        yield
    except BackendUnavailableError as error:
        raise NotApplicable(" ".join(error.message.split())) from error


class Subject:
    """What is under test.

    The plugin is imported when a case first uses one of its parts; the client is made once for each
    child process.

    Parameters
    ----------
    reference
        The plugin, as it is installed.
    at_client
        Called before the client is made with True, and with False when it is there.
    note
        Called with a kind of note and what is noted, for the result of the case that runs.

    Attributes
    ----------
    reference : PluginRef
        The plugin, as it is installed.
    platform : str
        Its platform.
    no_client : str
        What came of making the client in another child, where that ended it: it is not tried again.
    """

    def __init__(
        self,
        reference: PluginRef,
        at_client: Callable[[bool], None] = lambda _: None,
        note: Callable[[str, str], None] = lambda kind, what: None,
    ) -> None:
        self.reference = reference
        self.note = note
        self.platform = reference.platform
        self.no_client = ""
        self._at_client = at_client

    @property
    def is_library(self) -> bool:
        """Whether it is a PJRT library, which the general loader makes the client of."""
        return bool(self.reference.library)

    @property
    def library(self) -> str:
        """The path of its PJRT library; empty if it is none."""
        return self.reference.library

    @property
    def client_options(self) -> dict[str, Any]:
        """What its configuration file creates the client of its PJRT library with."""
        return dict(read_config(self.reference.config).options) if self.reference.config else {}

    @functools.cached_property
    def backend(self) -> Backend:
        """Its loaded record, manifest and memory kinds."""
        from devrt.runtime import default_runtime

        return default_runtime().plugins.resolve(self.reference)

    @functools.cached_property
    def client(self) -> Client:
        """Its client, which ``devrt.devices(subject.platform)`` has too.

        Not applicable where the plugin says that its platform cannot be used on this machine.
        """
        from devrt.runtime import default_runtime

        if self.no_client:
            raise Failure("a client", self.no_client)
        self._at_client(True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is experimental
            try:
                with _absence_as_not_applicable():
                    return default_runtime().get_backend(self.reference.name)
            finally:
                self._at_client(False)

    def make_client(self, **options: Any) -> Client:
        """Make another client, which the case closes.

        Not applicable where one is all there is, and where the platform cannot be used here.
        """
        from devrt.runtime import default_runtime

        one = "one process can have one client of its devices (exclusive in its manifest)"
        require(not self.backend.manifest.exclusive, one)
        with _absence_as_not_applicable():
            return default_runtime().make_client(self.reference.name, options)

    @property
    def devices(self) -> list[Device]:
        """The devices of this process."""
        return self.client.local_devices()

    @property
    def device(self) -> Device:
        """The first device of this process."""
        return self.devices[0]

    def memory(self, kind: str | None = None) -> Memory:
        """Return a memory of the first device: the default one, or that of a kind."""
        if kind is None:
            return self.device.default_memory()
        there = [memory.kind for memory in self.device.addressable_memories()]
        require(kind in there, f"its device has no memory of kind {kind!r}; it has {there}")
        return self.device.memory(kind)

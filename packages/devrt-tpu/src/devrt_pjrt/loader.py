"""The loader of any library with the PJRT C API; each import is late, as looking is often all."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.contract import PjrtLoader
from devrt.errors import DevrtWarning, PluginLoadError
from devrt.records import CACHE_OPTIONS, Available, ClientContext, ProbeResult, Unavailable

if TYPE_CHECKING:
    from devrt.contract import Client, Topology
    from devrt.records import MemoryKind, PluginTraits
    from devrt_pjrt.client.client import PjrtClient
    from devrt_pjrt.library.library import Library

__all__ = ["Loader"]


class Loader(PjrtLoader):
    """Makes clients and topologies from any library with the PJRT C API."""

    def __init__(self) -> None:
        self._traits: Callable[[], Iterable[PluginTraits]] = tuple

    def use_traits(self, find: Callable[[], Iterable[PluginTraits]]) -> None:
        self._traits = find

    def _open(self, platform: str, library: Any, **options: bool) -> Library:
        with _package() as pjrt:
            opened: Library = pjrt.library_for(platform, library, traits=self._traits(), **options)
            return opened

    def make_client(
        self, library: Any, platform: str, options: Mapping[str, Any], context: ClientContext
    ) -> Client:
        """Make a client of a library; programs that it compiles are kept as the context says."""
        from devrt.compiling.load_or_compile import cache_source

        names = (spec.name for spec in CACHE_OPTIONS)
        cache = {name: context.options[name] for name in names if name in context.options}
        source = cache_source(cache) if cache else None
        with _package() as pjrt:
            made: PjrtClient = pjrt.make_client(
                self._open(platform, library), platform, options, source
            )
        _describe_memories(made, context.memory_kinds)
        return made

    def check(self, library: Any) -> ProbeResult:
        """Say whether a library can be one of this machine, from its first bytes."""
        from devrt_pjrt.library.elf import problem_with

        problem = problem_with(library) if isinstance(library, str) else ""
        if not problem:
            return Available()
        remedy = "Give the full path of a library for this machine, or install its package again."
        return Unavailable(f"its PJRT library {library!r} cannot be opened: {problem}", remedy)

    def make_topology(
        self, library: Any, platform: str, topology_name: str, options: Mapping[str, Any]
    ) -> Topology:
        with _package() as pjrt:
            made: Topology = pjrt.make_topology(
                self._open(platform, library), platform, topology_name, options
            )
            return made

    def load(self, name: str, library: Any) -> object:
        with _package() as pjrt:
            capsule: object = pjrt.add_library(name, library, self._traits()).capsule()
            return capsule

    def loaded(self, name: str) -> object | None:
        import devrt_pjrt

        is_open = devrt_pjrt.pjrt_plugin_loaded(name)
        return devrt_pjrt.loaded_library(name).capsule() if is_open else None

    def initialize(self, name: str) -> None:
        import devrt_pjrt

        devrt_pjrt.initialize_pjrt_plugin(name)

    def is_initialized(self, name: str) -> bool:
        import devrt_pjrt

        return devrt_pjrt.pjrt_plugin_initialized(name)

    def conformance_cases(self) -> Sequence[Any]:
        """Return what the C API asks of a library, each a call that nothing stands before."""
        from devrt_pjrt.conformance.cases import bound_cases

        return bound_cases(self._open)

    def open_global(self, platform: str, library: Any) -> None:
        self._open(platform, library, global_symbols=True)


def _describe_memories(client: PjrtClient, kinds: Iterable[MemoryKind]) -> None:
    """Take what plugins say of the library's memories, which the C API does not say."""
    memories = client.memories()
    for kind in kinds:
        named = [memory for memory in memories if memory.kind == kind.kind]
        for memory in named:
            memory.is_declared_visible = kind.host_visible
        if not named:
            there = ", ".join(repr(name) for name in sorted({m.kind for m in memories}))
            warnings.warn(
                f"the memory kind {kind.kind!r} that an installed plugin adds to platform "
                f"{client.platform!r} is left out: the platform's PJRT library has the memories, "
                f"and they are of the kinds {there}. Name one of these, or none.",
                DevrtWarning,
                stacklevel=2,
            )


@contextlib.contextmanager
def _package() -> Iterator[Any]:
    """Give devrt_pjrt; what its native part lacks is an error that says to build that again.

    Raises
    ------
    PluginLoadError
        With ``built_abi`` and ``upgrade``, as for any native module of another version.
    """
    import devrt_pjrt

    try:
        yield devrt_pjrt
    except Exception as error:
        if not _is_of_native_part(error):
            raise
        raise _of_another_version(error) from error


def _is_of_native_part(error: Exception) -> bool:
    """Return whether cffi does not find a type or a function that the Python part names."""
    cls = type(error)
    is_type = (cls.__module__, cls.__name__) == ("ffi", "error")
    return is_type or (cls is AttributeError and "'devrt_pjrt._native' has no" in str(error))


def _of_another_version(error: Exception) -> PluginLoadError:
    from devrt.contract.installation import how_to_install, loader_wheel

    wheel = loader_wheel()
    remedy = f"Build it again with: {how_to_install(wheel, options='--upgrade')}."
    why = " ".join(str(error).replace("^", "").split())
    msg = f"the native part of devrt_pjrt is of another version than its Python part: {why}. "
    facts: dict[str, Any] = {"built_abi": None, "upgrade": wheel}
    return PluginLoadError(msg + remedy, plugin=wheel, remedy=remedy, **facts)

"""Programs that the disk cache holds, or that a compiler makes and the cache then keeps.

The one walk for every client: what a file is named by, and when it is read and written.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from devrt.errors import DevrtError

if TYPE_CHECKING:
    from devrt.compiling.cache import ExecutableCache
    from devrt.compiling.program_facts import ProgramFacts

__all__ = ["CacheSource", "cache_source", "load_or_compile"]

CacheSource = Callable[[], "ExecutableCache | None"]
"""Opens a client's cache."""


_OF_COMPILERS = frozenset(
    (
        "LayoutConstraint",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "Sharding",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
    )
)
"""Custom calls that XLA's compilers take as their own notes, and call nobody for."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Made = TypeVar("Made", bound=_Named)

_SHOWN = 2  # parameters in the words for what a program takes


def cache_source(options: Mapping[str, Any]) -> CacheSource:
    """Return what opens the cache that a client's options describe.

    A start has no use for it: the options are read when the client first compiles.
    """
    return functools.partial(_open, options)


def _open(options: Mapping[str, Any]) -> ExecutableCache | None:
    from devrt.compiling.cache import from_options

    return from_options(options)


def load_or_compile(
    source: CacheSource | None,
    platform: str,
    compiler: str,
    facts: ProgramFacts,
    depends_on: Iterable[str | bytes],
    *,
    answers: Callable[[str], bool] = lambda _: False,
    load: Callable[[bytes], Made],
    compile: Callable[[], Made],
    serialize: Callable[[Made], bytes],
) -> Made:
    """Return a program as an earlier compilation left it on disk, or else compile and keep it.

    One that makes custom calls, or that devrt cannot read to its end, is compiled each time: only
    the compiler looks whether the handlers are there. What the backend answers itself is no matter.
    So is one of which the compiler is to write something into a folder.

    Parameters
    ----------
    source
        Opens the cache; None keeps nothing.
    platform
        The platform, as the cache shows it.
    compiler
        The path of the compiler's library. One that is no file keeps nothing.
    facts
        What was read of the program.
    depends_on
        What the executable depends on beside compiler, processor and ``XLA_FLAGS``: the client,
        the program, the options, the devices. Read only where there is a cache.
    answers
        Tells of the name of a custom call whether the backend always has its handler.
    load, compile, serialize
        Make the program of the cache's bytes, make it of its source, and give its bytes.
    """
    cache = source() if source is not None and _is_kept(facts, answers) else None
    key = None if cache is None else _key(compiler, depends_on)
    if cache is None or key is None:
        return compile()
    known = cache.get(key)
    if known is not None:
        try:
            return load(known)
        except DevrtError:
            cache.discard(key)  # whatever there is against it, compiling says better
    began = time.perf_counter()
    made = compile()
    seconds = time.perf_counter() - began
    try:
        serialized = serialize(made)
    except DevrtError:  # not every program can be serialised, and it runs all the same
        return made
    about = {"name": made.name, "takes": _takes(made), "platform": platform}
    cache.put(key, serialized, compile_seconds=seconds, **about)
    return made


def _takes(made: object) -> str:
    """Return what a program takes, in words, as the names of programs are alike."""
    try:
        parameters = getattr(made, "parameters", ())
    except DevrtError:  # not every compiler tells
        return ""
    words = [f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in parameters[:_SHOWN]]
    more = len(parameters) - len(words)
    return ", ".join([*words, *([f"{more} more"] if more > 0 else [])])


def _is_kept(facts: ProgramFacts, answers: Callable[[str], bool]) -> bool:
    calls = facts.custom_calls - _OF_COMPILERS
    return facts.is_whole and all(map(answers, calls))


def _key(compiler: str, depends_on: Iterable[str | bytes]) -> str | None:
    from devrt.compiling.cache import cache_key, host_cpu
    from devrt.compiling.library_hash import hash_of_library

    try:
        library = hash_of_library(compiler)
    except OSError:
        return None
    flags = os.environ.get("XLA_FLAGS", "")  # compilers read flags from the environment too
    parts = [flags, *depends_on]
    if any(map(_is_written, parts)):
        return None  # somebody wants what only compiling leaves in a folder
    return cache_key(library, host_cpu(), *parts)


def _is_written(part: str | bytes) -> bool:
    from devrt.compiling.divided import FOLDER_FLAG  # what it needs is not for every start

    return FOLDER_FLAG in part if isinstance(part, str) else FOLDER_FLAG.encode() in part

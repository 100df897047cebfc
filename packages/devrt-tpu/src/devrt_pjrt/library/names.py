"""The plugins of this process, by name. Libraries are never closed, so neither is this emptied."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from devrt.errors import InvalidArgumentError, InvalidTypeError, PluginError
from devrt.records import PluginTraits
from devrt_pjrt._native import ffi
from devrt_pjrt.library.capsule import is_capsule, unwrap
from devrt_pjrt.library.checks import encoded
from devrt_pjrt.library.library import Library, open_library

__all__ = [
    "add_library",
    "initialize_pjrt_plugin",
    "library_for",
    "load_pjrt_plugin_dynamically",
    "load_pjrt_plugin_with_c_api",
    "loaded_library",
    "pjrt_plugin_initialized",
    "pjrt_plugin_loaded",
]

_lock = threading.Lock()
_by_name: dict[str, Library] = {}
_by_table: dict[int, Library] = {}


def library_for(
    name: str,
    library: Any,
    *,
    global_symbols: bool = False,
    traits: Iterable[PluginTraits] = (),
) -> Library:
    """Return the one object for a plugin, a path or a capsule, opening it at the first call.

    Two names may stand for one library: it is initialised once all the same. A capsule's name may
    be empty. With ``global_symbols`` the symbols of a library given by its path are visible to
    every other one; one that is open without that gets it now, and none loses it. Traits count when
    it is opened.
    """
    _check(name)
    _check_new(name)
    with _lock:
        known = _by_name.get(name)
        if known is None or not _is_same(known, library):
            opened = _of_capsule(library) or open_library(name, library, global_symbols, traits)
            known = _by_table.setdefault(_address_of(opened), opened)
            known.is_global |= opened.is_global
            if name:
                _by_name.setdefault(name, known)
        if global_symbols:
            known.make_global()
        return known


def _renew_lock() -> None:
    """Give the child of a fork a lock that no thread of its parent holds."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _check(name: Any) -> None:
    if not isinstance(name, str):
        msg = f"a plugin's name is text, and this is of type {type(name).__name__}."
        raise InvalidTypeError(msg)


def _check_new(name: str) -> None:
    if b"\0" in encoded(name, "a plugin's name", "library_for"):
        msg = f"a plugin's name has no zero byte, and {name!r} has. Use another name."
        raise InvalidArgumentError(msg, plugin=name)


def _address_of(library: Library) -> int:
    return int(ffi.cast("uintptr_t", library.api.table))


def _of_capsule(library: Any) -> Library | None:
    return _by_table.get(unwrap(library)) if is_capsule(library) else None


def _is_same(known: Library, library: Any) -> bool:
    if is_capsule(library):
        return unwrap(library) == _address_of(known)
    if not isinstance(library, str | os.PathLike):
        return False
    return known.path == os.path.abspath(os.fspath(library))


def load_pjrt_plugin_dynamically(plugin_name: str, library_path: str) -> object:
    """Open a plugin's library under a name.

    Returns
    -------
    object
        Its function table in a capsule named ``pjrt_c_api``.

    Raises
    ------
    PluginLoadError
        If it cannot be opened or used.
    PluginError
        If another library has the name.
    """
    return add_library(plugin_name, library_path).capsule()


def load_pjrt_plugin_with_c_api(plugin_name: str, c_api: object) -> None:
    """Take a plugin under a name that another runtime has opened, from a ``pjrt_c_api`` capsule."""
    add_library(plugin_name, c_api)


def add_library(name: str, library: Any, traits: Iterable[PluginTraits] = ()) -> Library:
    """Open a library under a name; the parameters are those of `library_for`.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If the name is none.
    PluginError
        If another library has the name.
    """
    _check(name)
    if not name:
        raise InvalidArgumentError("a plugin is loaded under a name, and this is empty. Name it.")
    opened = library_for(name, library, traits=traits)
    if _by_name[name] is not opened:
        msg = f"the name {name!r} stands for {_by_name[name]!r} already. Use another name."
        raise PluginError(msg, plugin=name)
    return opened


def pjrt_plugin_loaded(plugin_name: str) -> bool:
    """Return whether a plugin of that name is open."""
    _check(plugin_name)
    return plugin_name in _by_name


def pjrt_plugin_initialized(plugin_name: str) -> bool:
    """Return whether a plugin of that name is open and initialised."""
    return pjrt_plugin_loaded(plugin_name) and _by_name[plugin_name].is_initialized


def initialize_pjrt_plugin(plugin_name: str) -> None:
    """Initialise an open plugin; once is enough, and more often does no harm."""
    loaded_library(plugin_name).initialize()


def loaded_library(plugin_name: str) -> Library:
    """Return the open plugin of a name.

    Raises
    ------
    InvalidArgumentError
        If there is none; the message lists those that there are.
    """
    if not pjrt_plugin_loaded(plugin_name):
        known = ", ".join(sorted(_by_name)) or "none"
        msg = f"no PJRT plugin {plugin_name!r} is loaded; loaded: {known}. Load it first."
        raise InvalidArgumentError(msg, plugin=plugin_name)
    return _by_name[plugin_name]

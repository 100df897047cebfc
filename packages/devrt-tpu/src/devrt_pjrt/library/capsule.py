"""Capsules, in which runtimes hand each other pointers."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = [
    "NAME",
    "is_capsule",
    "make",
    "name_of",
    "pointer",
    "rename",
    "unwrap",
    "wrap",
]

NAME = b"pjrt_c_api"

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.restype = ctypes.c_int
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)

_KNOWN = (NAME, b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned")
"""A capsule keeps the pointer to its name, not the name: these live as long as the process."""


def make(address: int, name: bytes, destructor: int = 0) -> object:
    """Return a capsule; ``name`` must be one that lives as long as the process."""
    known = _KNOWN[_KNOWN.index(name)]
    return _api.PyCapsule_New(address, known, destructor or None)


def is_capsule(value: object) -> bool:
    """Return whether a value is a capsule, of whatever name."""
    return type(value).__name__ == "PyCapsule"


def name_of(capsule: Any, *names: bytes) -> bytes | None:
    """Return which of some names a capsule has."""
    return next((name for name in names if _api.PyCapsule_IsValid(capsule, name)), None)


def pointer(capsule: Any, name: bytes) -> int:
    """Return the address in a capsule of that name."""
    return int(_api.PyCapsule_GetPointer(capsule, name))


def rename(capsule: Any, name: bytes) -> None:
    """Give a capsule another name, which says that its content was taken over."""
    _api.PyCapsule_SetName(capsule, _KNOWN[_KNOWN.index(name)])


def wrap(address: int) -> object:
    """Return a capsule with a plugin's function table."""
    return make(address, NAME)


def unwrap(capsule: object) -> int:
    """Return the function table's address in a capsule, which must have the right name."""
    from devrt.errors import PluginLoadError

    if name_of(capsule, NAME) is None:
        msg = f"this capsule ({capsule!r}) is not one named 'pjrt_c_api': it holds no PJRT plugin."
        raise PluginLoadError(msg, phase="open")
    return pointer(capsule, NAME)

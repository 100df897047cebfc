"""Native code as users name it: an address, a capsule, or a pointer of ctypes or cffi."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["address_of"]

_FUNCTION: Any = ctypes.CFUNCTYPE(None).__bases__[0]


def address_of(function: Any) -> int | None:
    """Return the address of native code; None for a function of Python.

    Raises
    ------
    InvalidTypeError
        If it is neither.
    InvalidArgumentError
        If there is no code at the address.
    """
    if type(function).__name__ == "PyCapsule":
        return _checked_address(_pointer_in(function), function)
    if isinstance(function, int) and not isinstance(function, bool):
        address: int | None = function
    elif isinstance(function, (_FUNCTION, ctypes.c_void_p)):
        address = ctypes.cast(function, ctypes.c_void_p).value
    elif type(function).__module__ == "_cffi_backend":
        address = int(sys.modules["_cffi_backend"].FFI().cast("uintptr_t", function))
    elif callable(function):
        return None
    else:
        msg = (
            "a custom call is a callable, or native code as an address, a capsule, or a pointer of "
            f"ctypes or cffi; not of type {type(function).__name__}."
        )
        raise InvalidTypeError(msg, operation="register_custom_call")
    return _checked_address(address, function)


def _pointer_in(capsule: Any) -> int:
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(pointer(capsule, name(capsule)))


def _checked_address(address: int | None, function: Any) -> int:
    """Return an address where there is code: the plugin calls it at once."""
    if not address or not 0 < address < 1 << 64 or not _is_code(address):
        msg = f"a custom call's address must be that of a function, not {function!r}."
        raise InvalidArgumentError(msg, operation="register_custom_call")
    return address


def _is_code(address: int) -> bool:
    try:
        with open("/proc/self/maps", "rb") as file:
            for line in file:
                bounds, rights, _ = line.split(b" ", 2)
                start, end = (int(bound, 16) for bound in bounds.split(b"-"))
                if start <= address < end:
                    return b"x" in rights
    except OSError:
        return True  # nobody can tell
    return False

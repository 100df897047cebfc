"""Custom calls: what functions that compiled programs call are given, and how they answer.

Shared by the backends that take such functions; how a plugin comes to call them is theirs.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt import dtypes
from devrt.errors import InvalidArgumentError, InvalidTypeError, StatusCode

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "DeviceCall",
    "Handler",
    "RawBuffer",
    "address_of",
    "checked_address",
    "checked_handler",
    "code_of",
    "place_of",
    "to_numpy",
]


@dataclasses.dataclass(frozen=True, slots=True)
class RawBuffer:
    """Memory that a handler is given, valid until it returns.

    Attributes
    ----------
    address : int
        Of the first byte: device memory on a GPU, host memory on a CPU.
    shape : tuple of int
        Dimensions.
    dtype : numpy.dtype
        Type of the elements, which lie dense in the order of the call's layout.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * int(self.dtype.itemsize)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceCall:
    """What a handler of kind ``"device"`` is called with.

    Attributes
    ----------
    arguments, results : tuple of RawBuffer
        What it reads, and what it must fill.
    attributes : dict
        The call's ``backend_config``, by name.
    stream : int
        On a GPU the stream that its work belongs on, as its driver's handle; else 0.
    """

    arguments: tuple[RawBuffer, ...]
    results: tuple[RawBuffer, ...]
    attributes: dict[str, Any]
    stream: int


@dataclasses.dataclass(frozen=True, slots=True)
class Handler:
    """A function of Python, by the name that programs call it by.

    Attributes
    ----------
    name : str
        The custom call's target.
    function : callable
        What is called.
    is_device : bool
        Whether it takes a `DeviceCall`, instead of arrays and attributes.
    """

    name: str
    function: Callable[..., Any]
    is_device: bool

    def call(
        self,
        arguments: Sequence[RawBuffer],
        results: Sequence[RawBuffer],
        attributes: Mapping[str, Any],
        stream: int = 0,
    ) -> None:
        """Call the function, and fill the results with what it returns.

        Raises
        ------
        ValueError
            If it returns something else than the results take. What it raises itself goes through.
        """
        if self.is_device:
            given = tuple(arguments), tuple(results), dict(attributes)
            self.function(DeviceCall(*given, stream))
            return
        made = self.function(*map(_copied, arguments), **attributes)
        values = made if isinstance(made, tuple | list) else () if made is None else (made,)
        if len(values) != len(results):
            msg = f"it must return {len(results)} array(s), and returned {len(values)}"
            raise ValueError(msg)
        for at, (value, result) in enumerate(zip(values, results, strict=True)):
            _fill(at, value, result)


_FUNCTION: Any = ctypes.CFUNCTYPE(None).__bases__[0]
_BITS = {element.code: element.bits for element in dtypes.ELEMENT_TYPES}


def to_numpy(code: int | None, number: int) -> np.dtype[Any]:
    """Return the dtype of an element type, which has the number ``number`` in XLA.

    Raises
    ------
    NotImplementedError
        If NumPy has no bytes for it.
    """
    if code is None or _BITS.get(code, 0) < 8:
        msg = f"element type {number} of XLA cannot be given to a function of Python"
        raise NotImplementedError(msg)
    return dtypes.to_numpy(code)


def checked_handler(name: object, function: Any, kind: object) -> Handler:
    """Return a handler of a function that is one of Python.

    Raises
    ------
    InvalidTypeError
        If the name is no string, or the function cannot be called.
    InvalidArgumentError
        If the kind is neither ``"host"`` nor ``"device"``.
    """
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"a custom call's name is a string, not {name!r}.", name=name)
    if kind not in ("host", "device"):
        msg = f"custom call {name!r}: kind must be 'host' or 'device', not {kind!r}."
        raise InvalidArgumentError(msg, name=name)
    return Handler(name, function, kind == "device")


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
        return checked_address(_pointer_in(function), function)
    if isinstance(function, int) and not isinstance(function, bool):
        address: int | None = function
    elif isinstance(function, (_FUNCTION, ctypes.c_void_p)):
        address = ctypes.cast(function, ctypes.c_void_p).value
    elif callable(function):
        return None
    else:
        msg = (
            "a custom call is a callable, or native code as an address, a capsule, or a pointer of "
            f"ctypes or cffi; not of type {type(function).__name__}."
        )
        raise InvalidTypeError(msg, operation="register_custom_call")
    return checked_address(address, function)


def _pointer_in(capsule: Any) -> int:
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(pointer(capsule, name(capsule)))


def checked_address(address: int | None, function: Any) -> int:
    """Return an address where there is code: the plugin calls it at once.

    Raises
    ------
    InvalidArgumentError
        If there is none.
    """
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


def _copied(buffer: RawBuffer) -> np.ndarray[Any, Any]:
    """Return an argument as an array of its own: the plugin's memory ends with the call."""
    import numpy as np

    made = np.empty(buffer.shape, buffer.dtype)
    if made.nbytes:
        ctypes.memmove(made.ctypes.data, buffer.address, made.nbytes)
    return made


def _fill(at: int, value: object, result: RawBuffer) -> None:
    import numpy as np

    given = np.asarray(value)
    if given.shape != result.shape or given.dtype != result.dtype:
        msg = (
            f"result {at} must be {result.dtype.name}{list(result.shape)}, and is "
            f"{given.dtype.name}{list(given.shape)}"
        )
        raise ValueError(msg)
    dense = np.ascontiguousarray(given)
    if dense.nbytes:
        ctypes.memmove(result.address, dense.ctypes.data, dense.nbytes)


def place_of(error: BaseException, *own: str) -> str:
    """Return the line that raised, unless it is in one of the files ``own`` or in this one."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or at.tb_frame.f_code.co_filename in (__file__, *own):
        return ""
    return f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})"


def code_of(error: BaseException) -> StatusCode:
    """Return the status of an error that any library may have raised."""
    code = getattr(error, "code", None)
    if isinstance(code, int) and code in StatusCode.__members__.values() and code:
        return StatusCode(code)
    for kind, status in _KINDS:
        if isinstance(error, kind):
            return status
    named = (status for status in StatusCode if status.value and status.name in str(error))
    return next(named, StatusCode.INTERNAL)


_KINDS: tuple[tuple[type[BaseException], StatusCode], ...] = (
    (TimeoutError, StatusCode.DEADLINE_EXCEEDED),
    (MemoryError, StatusCode.RESOURCE_EXHAUSTED),
    (NotImplementedError, StatusCode.UNIMPLEMENTED),
    (ValueError, StatusCode.INVALID_ARGUMENT),
    (TypeError, StatusCode.INVALID_ARGUMENT),
)

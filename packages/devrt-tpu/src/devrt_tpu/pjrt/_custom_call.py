"""Custom calls: functions of Python, or of native code, that compiled programs call.

A program calls one by ``stablehlo.custom_call @name(...) {api_version = 4 : i32}``. Handlers are
registered through the plugin's FFI extension, for the whole process: XLA cannot forget one.
"""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt import dtypes
from devrt.errors import InvalidArgumentError, InvalidTypeError, PluginError, UnimplementedError
from devrt_tpu.pjrt import _capsule
from devrt_tpu.pjrt._callbacks import after_the_last, answer_error
from devrt_tpu.pjrt._checks import encoded
from devrt_tpu.pjrt._hlo import TO_BUFFER_TYPE
from devrt_tpu.pjrt._lifetime import INTERRUPTS
from devrt_tpu.pjrt._native import ffi, lib

if TYPE_CHECKING:
    from devrt_tpu.pjrt._api import Api

__all__ = ["DeviceCall", "RawBuffer", "register_custom_call"]

_FFI_EXTENSION = 5
_BITS = {element.code: element.bits for element in dtypes.ELEMENT_TYPES}


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
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


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
        On a GPU the stream that its work belongs on (a ``CUstream`` or ``hipStream_t``); else 0.
    """

    arguments: tuple[RawBuffer, ...]
    results: tuple[RawBuffer, ...]
    attributes: dict[str, Any]
    stream: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Handler:
    name: str
    function: Callable[..., Any]
    is_device: bool


_FUNCTION: Any = ctypes.CFUNCTYPE(None).__bases__[0]
_lock = threading.Lock()
_handlers: list[_Handler] = []
_known: dict[tuple[int, str, str], int | str] = {}
"""The slot of every function of Python that was registered, and "native" for the others."""

after_the_last(_handlers.clear)  # what they hold, such as a module's globals, must end before


def register_custom_call(
    api: Api, platform: str, name: str, function: Any, kind: str = "host"
) -> None:
    """Register a handler; see `PjrtClient.register_custom_call`.

    Parameters
    ----------
    api
        The plugin.
    platform
        What the plugin calls its platform.
    name, function, kind
        As there.
    """
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"a custom call's name is a string, not {name!r}.", name=name)
    if kind not in ("host", "device"):
        msg = f"custom call {name!r}: kind must be 'host' or 'device', not {kind!r}."
        raise InvalidArgumentError(msg, name=name)
    register = api.extension(_FFI_EXTENSION, "PJRT_FFI_Extension", "register_handler")
    if register is None:
        msg = f"the PJRT plugin {api.name} has no FFI extension, and so takes no custom calls."
        raise UnimplementedError(msg, operation="register_custom_call", plugin=api.name)
    address = _address_of(function)
    key = (int(ffi.cast("uintptr_t", api.table)), platform, name)
    with _lock:
        if address is None and _is_replaced(key, _Handler(name, function, kind == "device")):
            return
        if key in _known:
            msg = (
                f"custom call {name!r} is registered with {api.name} already, which cannot forget "
                "a handler. Use another name."
            )
            raise PluginError(msg, name=name, plugin=api.name)
        slot: int | str = "native"
        if address is None:
            slot = _take_slot(_Handler(name, function, kind == "device"))
            address = lib.devrt_slot(slot, kind == "device")
        _register(api, register, platform, name, address)
        _known[key] = slot


def _register(api: Api, register: Any, platform: str, name: str, address: int) -> None:
    text, where = encoded(name, "its name", "register_custom_call"), platform.encode()
    kept = ffi.new("char[]", text), ffi.new("char[]", where)
    args = api.new(
        "PJRT_FFI_Register_Handler_Args",
        target_name=kept[0],
        target_name_size=len(text),
        handler=ffi.cast("void *", address),
        platform_name=kept[1],
        platform_name_size=len(where),
    )
    error = register(args)
    if error:
        raise api.take(error, "register_custom_call", name=name)


def _is_replaced(key: tuple[int, str, str], handler: _Handler) -> bool:
    """Put another function of Python behind a name that has one."""
    slot = _known.get(key)
    if not isinstance(slot, int) or _handlers[slot].is_device != handler.is_device:
        return False
    _handlers[slot] = handler
    return True


def _take_slot(handler: _Handler) -> int:
    most = lib.devrt_slot_count()
    if len(_handlers) == most:
        msg = (
            f"custom call {handler.name!r} cannot be registered: {most} functions of Python are, "
            "which is the most. Register one function for several purposes, or native code."
        )
        raise UnimplementedError(msg, operation="register_custom_call")
    _handlers.append(handler)
    return len(_handlers) - 1


def _address_of(function: Any) -> int | None:
    """Return the address of native code; None for a function of Python."""
    if _capsule.is_capsule(function):
        return _checked(_capsule.any_pointer(function), function)
    if isinstance(function, ffi.CData):
        return _checked(int(ffi.cast("uintptr_t", function)), function)
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
    return _checked(address, function)


def _checked(address: int | None, function: Any) -> int:
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


# -- what the plugin calls ------------------------------------------------------------------------


@ffi.def_extern()  # type: ignore[untyped-decorator]
def devrt_python_call(slot: int, frame: Any, stream: int, answer: Any) -> None:
    """Call a function of Python; on whatever thread the program runs."""
    handler = _handlers[slot]
    try:
        _call(handler, frame, stream)
        answer.code = 0
    except BaseException as error:  # noqa: BLE001  nothing may be raised into the plugin
        if isinstance(error, KeyboardInterrupt) and _is_main():
            INTERRUPTS.append(error)  # it was meant for the program that waits for this
        answer_error(answer, error, f"custom call {handler.name!r}{_place(error)} raised ")


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _call(handler: _Handler, frame: Any, stream: int) -> None:
    arguments = tuple(_buffers(frame.args.args, frame.args.size))
    results = tuple(_buffers(frame.rets.rets, frame.rets.size))
    attributes = dict(_attributes(frame.attrs))
    if handler.is_device:
        handler.function(DeviceCall(arguments, results, attributes, stream))
        return
    made = handler.function(*map(_copied, arguments), **attributes)
    given = made if isinstance(made, tuple | list) else () if made is None else (made,)
    if len(given) != len(results):
        msg = f"it must return {len(results)} array(s), and returned {len(given)}"
        raise ValueError(msg)
    for at, (value, result) in enumerate(zip(given, results, strict=True)):
        _fill(at, np.asarray(value), result)


def _buffers(pointers: Any, count: int) -> Sequence[RawBuffer]:
    found = []
    for at in range(count):
        buffer = ffi.cast("XLA_FFI_Buffer *", pointers[at])
        shape = tuple(int(buffer.dims[i]) for i in range(buffer.rank))
        address = int(ffi.cast("uintptr_t", buffer.data))
        found.append(RawBuffer(address, shape, _dtype(int(buffer.dtype))))
    return found


def _dtype(number: int) -> np.dtype[Any]:
    code = TO_BUFFER_TYPE.get(number)
    if code is None or _BITS[code] < 8:
        msg = f"element type {number} of XLA cannot be given to a function of Python"
        raise NotImplementedError(msg)
    return dtypes.to_numpy(code)


def _copied(buffer: RawBuffer) -> np.ndarray[Any, Any]:
    """Return an argument as an array of its own: the plugin's memory ends with the call."""
    made = np.empty(buffer.shape, buffer.dtype)
    if made.nbytes:
        ctypes.memmove(made.ctypes.data, buffer.address, made.nbytes)
    return made


def _fill(at: int, value: np.ndarray[Any, Any], result: RawBuffer) -> None:
    if value.shape != result.shape or value.dtype != result.dtype:
        msg = (
            f"result {at} must be {result.dtype.name}{list(result.shape)}, and is "
            f"{value.dtype.name}{list(value.shape)}"
        )
        raise ValueError(msg)
    dense = np.ascontiguousarray(value)
    if dense.nbytes:
        ctypes.memmove(result.address, dense.ctypes.data, dense.nbytes)


def _attributes(attrs: Any) -> Sequence[tuple[str, Any]]:
    return [
        (
            bytes(ffi.buffer(attrs.names[at].ptr, attrs.names[at].len)).decode(),
            _attribute(int(attrs.types[at]), attrs.attrs[at]),
        )
        for at in range(attrs.size)
    ]


def _attribute(kind: int, pointer: Any) -> Any:
    if kind == lib.XLA_FFI_AttrType_STRING:
        span = ffi.cast("XLA_FFI_ByteSpan *", pointer)
        return bytes(ffi.buffer(span.ptr, span.len)).decode(errors="surrogateescape")
    if kind == lib.XLA_FFI_AttrType_DICTIONARY:
        return dict(_attributes(ffi.cast("XLA_FFI_Attrs *", pointer)))
    if kind == lib.XLA_FFI_AttrType_SCALAR:
        scalar = ffi.cast("XLA_FFI_Scalar *", pointer)
        return _numbers(scalar.value, 1, int(scalar.dtype))[0].item()
    array = ffi.cast("XLA_FFI_Array *", pointer)
    return _numbers(array.data, int(array.size), int(array.dtype))


def _numbers(data: Any, count: int, number: int) -> np.ndarray[Any, Any]:
    dtype = _dtype(number)
    if not count:
        return np.empty(0, dtype)
    return np.frombuffer(bytes(ffi.buffer(data, count * dtype.itemsize)), dtype)


def _place(error: BaseException) -> str:
    """Return the line that raised, in the caller's own code."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or at.tb_frame.f_code.co_filename == __file__:
        return ""
    return f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})"

"""Custom calls: functions of Python, or of native code, that compiled programs call.

A program calls one by ``stablehlo.custom_call @name(...) {api_version = 4 : i32}``. Handlers are
registered through the plugin's FFI extension, for the whole process: XLA cannot forget one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.compiling.hlo import ELEMENT_TYPE_CODES
from devrt.contract.custom_calls import (
    DeviceCall,
    Handler,
    RawBuffer,
    address_of,
    checked_address,
    checked_handler,
    place_of,
    to_numpy,
)
from devrt.errors import PluginError, UnimplementedError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.apart import INTERRUPTS
from devrt_pjrt.library.callbacks import after_the_last, answer_error
from devrt_pjrt.library.checks import encoded

if TYPE_CHECKING:
    from devrt_pjrt.library.api import Api

__all__ = ["DeviceCall", "RawBuffer", "register_custom_call"]

_FFI_EXTENSION = 5


_lock = threading.Lock()
_handlers: list[Handler] = []
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
    handler = checked_handler(name, function, kind)
    register = api.extension(_FFI_EXTENSION, "PJRT_FFI_Extension", "register_handler")
    if register is None:
        msg = f"the PJRT plugin {api.name} has no FFI extension, and so takes no custom calls."
        raise UnimplementedError(msg, operation="register_custom_call", plugin=api.name)
    address = _address_of(function)
    key = (int(ffi.cast("uintptr_t", api.table)), platform, name)
    with _lock:
        if address is None and _is_replaced(key, handler):
            return
        if key in _known:
            msg = (
                f"custom call {name!r} is registered with {api.name} already, which cannot forget "
                "a handler. Use another name."
            )
            raise PluginError(msg, name=name, plugin=api.name)
        slot: int | str = "native"
        if address is None:
            slot = _take_slot(handler)
            address = lib.devrt_slot(slot, handler.is_device)
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


def _is_replaced(key: tuple[int, str, str], handler: Handler) -> bool:
    """Put another function of Python behind a name that has one."""
    slot = _known.get(key)
    if not isinstance(slot, int) or _handlers[slot].is_device != handler.is_device:
        return False
    _handlers[slot] = handler
    return True


def _take_slot(handler: Handler) -> int:
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
    if isinstance(function, ffi.CData):
        return checked_address(int(ffi.cast("uintptr_t", function)), function)
    return address_of(function)


# -- what the plugin calls ------------------------------------------------------------------------


@ffi.def_extern()  # type: ignore[untyped-decorator]
def devrt_python_call(slot: int, frame: Any, stream: int, answer: Any) -> None:
    """Call a function of Python; on whatever thread the program runs."""
    handler = _handlers[slot]
    try:
        arguments = _buffers(frame.args.args, frame.args.size)
        results = _buffers(frame.rets.rets, frame.rets.size)
        handler.call(arguments, results, dict(_attributes(frame.attrs)), stream)
        answer.code = 0
    except BaseException as error:  # noqa: BLE001  nothing may be raised into the plugin
        if isinstance(error, KeyboardInterrupt) and _is_main():
            INTERRUPTS.append(error)  # it was meant for the program that waits for this
        place = place_of(error, __file__)
        answer_error(answer, error, f"custom call {handler.name!r}{place} raised ")


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _buffers(pointers: Any, count: int) -> Sequence[RawBuffer]:
    found = []
    for at in range(count):
        buffer = ffi.cast("XLA_FFI_Buffer *", pointers[at])
        shape = tuple(int(buffer.dims[i]) for i in range(buffer.rank))
        address = int(ffi.cast("uintptr_t", buffer.data))
        found.append(RawBuffer(address, shape, _dtype(int(buffer.dtype))))
    return found


def _dtype(number: int) -> np.dtype[Any]:
    return to_numpy(ELEMENT_TYPE_CODES.get(number), number)


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

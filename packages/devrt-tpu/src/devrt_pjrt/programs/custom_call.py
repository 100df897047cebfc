"""Custom calls: functions of Python, or of native code, that compiled programs call.

A program calls one by ``stablehlo.custom_call @name(...) {api_version = 4 : i32}``. Handlers are
registered through the plugin's FFI extension, for the whole process: XLA cannot forget one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.compiling.custom_call_registry import CustomCallRegistry, Handler, dtype_of
from devrt.contract import RawBuffer
from devrt.errors import UnimplementedError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.apart import INTERRUPTS
from devrt_pjrt.library.callbacks import after_the_last, answer_error, answer_value
from devrt_pjrt.library.checks import encoded

if TYPE_CHECKING:
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.library.api import Api

__all__ = ["register_custom_call", "takes_custom_calls"]

_FFI_EXTENSION = 5

_registry = CustomCallRegistry()
_slots = itertools.count()

after_the_last(_registry.clear)  # what they hold, such as a module's globals, must end before


def register_custom_call(
    connection: Connection, platform: str, name: str, function: Any, kind: str = "host"
) -> None:
    """Register a handler, for the platform in the plugin's word; see `PjrtClient`."""
    api = connection.api
    register = _registers(api)
    if register is None:
        msg = f"the PJRT plugin {api.name} has no FFI extension, and so takes no custom calls."
        raise UnimplementedError(msg, operation="register_custom_call", plugin=api.name)

    def bind(handler: Handler, address: int | None) -> int:
        slot = _take_slot(handler) if address is None else 0
        where = address or lib.devrt_slot(slot, handler.is_device)
        _register(api, register, platform, name, where)
        return slot

    scope = int(ffi.cast("uintptr_t", api.table)), platform
    _registry.register(
        name,
        function,
        kind,
        bind,
        owner=api.name,
        scope=scope,
        library=connection.library.path,
        plugin=api.name,
    )


def takes_custom_calls(api: Api) -> bool:
    """Return whether a plugin has what handlers are registered through."""
    return _registers(api) is not None


def _registers(api: Api) -> Any:
    return api.extension(_FFI_EXTENSION, "PJRT_FFI_Extension", "register_handler")


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


def _take_slot(handler: Handler) -> int:
    slot, most = next(_slots), lib.devrt_slot_count()
    if slot >= most:
        msg = (
            f"custom call {handler.name!r} cannot be registered: {most} functions of Python are, "
            "which is the most. Register one function for several purposes, or native code."
        )
        raise UnimplementedError(msg, operation="register_custom_call")
    return slot


# -- what the plugin calls ------------------------------------------------------------------------


@ffi.def_extern()  # type: ignore[untyped-decorator]
def devrt_python_call(slot: int, frame: Any, stream: int, answer: Any) -> None:
    """Call a function of Python; on whatever thread the program runs."""
    try:
        raised = _registry.answer(slot, lambda: (*_read(frame), stream))
    except KeyboardInterrupt as error:
        INTERRUPTS.append(error)
        answer_error(answer, error, "the program's function raised ")
        return
    if raised is None:
        answer.code = 0
    else:
        code, message = raised
        answer_value(answer, message.encode(), code)


def _read(frame: Any) -> tuple[list[RawBuffer], list[RawBuffer], dict[str, Any]]:
    arguments = _buffers(frame.args.args, frame.args.size)
    results = _buffers(frame.rets.rets, frame.rets.size)
    return arguments, results, dict(_attributes(frame.attrs))


def _buffers(pointers: Any, count: int) -> list[RawBuffer]:
    found = []
    for at in range(count):
        buffer = ffi.cast("XLA_FFI_Buffer *", pointers[at])
        shape = tuple(int(buffer.dims[i]) for i in range(buffer.rank))
        address = int(ffi.cast("uintptr_t", buffer.data))
        found.append(RawBuffer(address, shape, dtype_of(int(buffer.dtype))))
    return found


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
    dtype = dtype_of(number)
    if not count:
        return np.empty(0, dtype)
    return np.frombuffer(bytes(ffi.buffer(data, count * dtype.itemsize)), dtype)

"""Buffers lent through DLPack. Source: its Python specification and ``dlpack.h``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt import dtypes
from devrt.dtypes import ELEMENT_TYPES
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers import fetch
from devrt_pjrt.library import capsule as _capsule

if TYPE_CHECKING:
    from devrt_pjrt.buffers.buffer import PjrtBuffer

__all__ = ["CPU", "device_of", "export", "type_of"]

CPU = 1
_READ_ONLY, _IS_COPIED = 1, 2

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_SPECIAL = {"bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9}
_SPECIAL |= {"float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12}
_SPECIAL |= {"float8_e5m2fnuz": 13, "float8_e8m0fnu": 14, "float4_e2m1fn": 17}


def type_of(code: int) -> tuple[int, int]:
    """Return DLPack's code and width of an element type."""
    element = next(element for element in ELEMENT_TYPES if element.code == code)
    if element.name in _SPECIAL:
        return _SPECIAL[element.name], element.bits
    return _CODES[dtypes.to_numpy(code).kind], element.bits


def device_of(buffer: PjrtBuffer) -> tuple[int, int]:
    """Return DLPack's type and number of the device that a buffer lies on."""
    if fetch.is_host_visible(buffer):
        return CPU, 0
    kind = buffer.connection.traits.dlpack_device
    if not kind:
        platform = buffer.connection.inventory.platform
        msg = f"DLPack has no name for platform {platform!r}. Copy the buffer to the host first."
        raise BufferError(msg)
    return kind, buffer.device.local_hardware_id or 0


def export(
    buffer: PjrtBuffer,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """Return a capsule with a view of a buffer's memory; see `PjrtBuffer.__dlpack__`."""
    spec = buffer.spec
    if spec.is_packed or buffer.given_layout is not None:
        msg = f"{buffer!r} is not laid out as DLPack has it. Go through numpy.asarray(buffer)."
        raise BufferError(msg)
    kind, number = device_of(buffer)
    if dl_device is not None and tuple(dl_device) != (kind, number):
        msg = f"{buffer!r} lies on DLPack device {(kind, number)}. Copy it to {dl_device} first."
        raise BufferError(msg)
    if kind == CPU and stream is not None:
        msg = "host memory has no streams: stream must be None."
        raise BufferError(msg)
    if copy:
        buffer = buffer.copy_to_memory(buffer.memory, may_alias=False)
    address = buffer.unsafe_buffer_pointer()  # ready from here on, whatever the stream
    is_versioned = max_version is not None and max_version[0] >= 1
    with buffer.pinned("__dlpack__"):
        held = lib.devrt_hold(buffer.handle)
    code, bits = type_of(spec.code)
    managed = lib.devrt_dlpack_make(
        held,
        ffi.cast("void *", address),
        kind,
        number,
        spec.shape,
        len(spec.shape),
        code,
        bits,
        is_versioned,
        _IS_COPIED if copy else _READ_ONLY,
    )
    name = b"dltensor_versioned" if is_versioned else b"dltensor"
    destructor = int(ffi.cast("uintptr_t", lib.devrt_dlpack_destructor(is_versioned)))
    return _capsule.make(int(ffi.cast("uintptr_t", managed)), name, destructor)

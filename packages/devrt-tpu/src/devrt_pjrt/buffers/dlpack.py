"""DLPack in and out. Source: the Python specification and ``dlpack.h`` of the DLPack project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devrt import dtypes
from devrt.dtypes import ELEMENT_TYPES
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers import fetch
from devrt_pjrt.buffers.buffer import PjrtBuffer
from devrt_pjrt.buffers.spec import check_type, spec_of
from devrt_pjrt.library import capsule as _capsule

if TYPE_CHECKING:
    from devrt_pjrt.client.client import PjrtClient
    from devrt_pjrt.client.place import Place

__all__ = ["device_of", "export", "take"]

_CPU = 1
_DEVICE_TYPES = {"cuda": 2, "rocm": 10, "sycl": 14, "oneapi": 14}
_READ_ONLY, _IS_COPIED = 1, 2
_ALIGNMENT = 64
"""Bytes: XLA reads views with vector instructions that need it."""

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_SPECIAL = {"bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9}
_SPECIAL |= {"float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12}
_SPECIAL |= {"float8_e5m2fnuz": 13, "float8_e8m0fnu": 14, "float4_e2m1fn": 17}


def _type_of(code: int) -> tuple[int, int]:
    """Return DLPack's code and width of an element type."""
    element = next(element for element in ELEMENT_TYPES if element.code == code)
    if element.name in _SPECIAL:
        return _SPECIAL[element.name], element.bits
    return _CODES[dtypes.to_numpy(code).kind], element.bits


_FROM_DLPACK = {
    (_type_of(element.code)): element.code for element in ELEMENT_TYPES if element.bits >= 8
}


def device_of(buffer: PjrtBuffer) -> tuple[int, int]:
    """Return DLPack's type and number of the device that a buffer lies on."""
    if fetch.is_host_visible(buffer):
        return _CPU, 0
    platform = buffer._client.plugin_platform
    if platform not in _DEVICE_TYPES:
        msg = f"DLPack has no name for platform {platform!r}. Copy the buffer to the host first."
        raise BufferError(msg)
    return _DEVICE_TYPES[platform], buffer._device.local_hardware_id or 0


def export(
    buffer: PjrtBuffer,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """Return a capsule with a view of a buffer's memory; see `PjrtBuffer.__dlpack__`."""
    spec = buffer._spec
    if spec.is_packed or not buffer._is_dense:
        msg = f"{buffer!r} is not laid out as DLPack has it. Go through numpy.asarray(buffer)."
        raise BufferError(msg)
    kind, number = device_of(buffer)
    if dl_device is not None and tuple(dl_device) != (kind, number):
        msg = f"{buffer!r} lies on DLPack device {(kind, number)}. Copy it to {dl_device} first."
        raise BufferError(msg)
    if kind == _CPU and stream is not None:
        msg = "host memory has no streams: stream must be None."
        raise BufferError(msg)
    if copy:
        buffer = buffer.copy_to_memory(buffer._memory, may_alias=False)
    address = buffer.unsafe_buffer_pointer()  # ready from here on, whatever the stream
    is_versioned = max_version is not None and max_version[0] >= 1
    with buffer._pinned("__dlpack__"):
        held = lib.devrt_hold(buffer._handle)
    code, bits = _type_of(spec.code)
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


class _Taken:
    """A tensor of another library, given back when the last view of it is gone."""

    def __init__(self, capsule: Any) -> None:
        name = _capsule.name_of(capsule, b"dltensor_versioned", b"dltensor")
        if name is None:
            msg = f"{capsule!r} is no DLPack capsule, or was consumed already."
            raise InvalidTypeError(msg, operation="buffer_from_dlpack")
        self._is_versioned = name.endswith(b"versioned")
        managed = ffi.cast("void *", _capsule.pointer(capsule, name))
        _capsule.rename(capsule, b"used_" + name)
        self._managed = managed
        self.tensor = ffi.cast(
            "devrt_dlpack_view *", lib.devrt_dlpack_tensor(managed, self._is_versioned)
        )

    def __del__(self) -> None:
        if hasattr(self, "_managed"):
            lib.devrt_dlpack_free(self._managed, self._is_versioned)


def take(client: PjrtClient, value: Any, place: Place, copy: bool | None) -> PjrtBuffer:
    """Make a buffer of a DLPack tensor; see `PjrtClient.buffer_from_dlpack`."""
    capsule = value
    if not _capsule.is_capsule(value):
        if not hasattr(value, "__dlpack__"):
            msg = f"a value of type {type(value).__name__} has no __dlpack__."
            raise InvalidTypeError(msg, operation="buffer_from_dlpack")
        try:
            capsule = value.__dlpack__(max_version=(1, 1))
        except TypeError:  # an exporter from before DLPack 1.0
            capsule = value.__dlpack__()
    taken = _Taken(capsule)
    tensor = taken.tensor
    code = _FROM_DLPACK.get((int(tensor.code), int(tensor.bits)))
    if code is None or tensor.lanes != 1:
        msg = f"no dtype is DLPack's type {tensor.code} of {tensor.bits} bits x {tensor.lanes}."
        raise InvalidTypeError(msg, operation="buffer_from_dlpack")
    check_type(client._api, code)
    shape = tuple(int(tensor.shape[i]) for i in range(tensor.ndim))
    problem = _problem(client, taken, shape, code, place)
    if problem and (copy is False or tensor.device_type != _CPU):
        msg = f"buffer_from_dlpack failed: the tensor cannot be viewed, as {problem}."
        raise InvalidArgumentError(msg, operation="buffer_from_dlpack")
    if problem or copy:
        return client._putter.put(_as_numpy(taken, shape, code).copy(), place, 0)
    return _view(client, taken, shape, code, place)


def _problem(
    client: PjrtClient, taken: _Taken, shape: tuple[int, ...], code: int, place: Place
) -> str:
    tensor = taken.tensor
    wanted = _CPU if client.plugin_platform == "cpu" else _DEVICE_TYPES.get(client.plugin_platform)
    if tensor.device_type != wanted:
        return f"it lies on DLPack device {(tensor.device_type, tensor.device_id)}"
    if wanted != _CPU and tensor.device_id != (place.device.local_hardware_id or 0):
        return f"it lies on device {tensor.device_id}, not on {place.device}"
    spec = spec_of(code, shape)
    if tensor.strides != ffi.NULL and spec.size > 1:
        step = 1
        for at in range(len(shape) - 1, -1, -1):
            if shape[at] != 1 and tensor.strides[at] != step:
                return "it is not row-major"
            step *= shape[at]
    if wanted == _CPU and (_address(taken) % _ALIGNMENT or not spec.size):
        return f"its memory does not begin on a {_ALIGNMENT}-byte boundary"
    return ""


def _address(taken: _Taken) -> int:
    return int(ffi.cast("uintptr_t", taken.tensor.data)) + int(taken.tensor.byte_offset)


def _as_numpy(taken: _Taken, shape: tuple[int, ...], code: int) -> np.ndarray[Any, Any]:
    """Return a view of a tensor in host memory; it does not keep the tensor alive."""
    dtype, tensor = dtypes.to_numpy(code), taken.tensor
    spec = spec_of(code, shape)
    if not spec.size:
        return np.empty(shape, dtype)
    steps = [1] * len(shape)
    for at in range(len(shape) - 2, -1, -1):
        steps[at] = steps[at + 1] * shape[at + 1]
    if tensor.strides != ffi.NULL:
        steps = [int(tensor.strides[at]) for at in range(len(shape))]
    # Strides may be negative: the first element is not where the memory begins then.
    reach = [(n - 1) * step for n, step in zip(shape, steps, strict=True)]
    first = sum(step for step in reach if step < 0)
    count = sum(map(abs, reach)) + 1
    begin = _address(taken) + first * dtype.itemsize
    data = ffi.buffer(ffi.cast("char *", begin), count * dtype.itemsize)
    strides = tuple(step * dtype.itemsize for step in steps)
    return np.ndarray(shape, dtype, np.frombuffer(data, np.uint8), -first * dtype.itemsize, strides)


def _view(
    client: PjrtClient, taken: _Taken, shape: tuple[int, ...], code: int, place: Place
) -> PjrtBuffer:
    dims = ffi.new("int64_t[]", list(shape))
    asked = ffi.new("devrt_view_spec *")
    asked.data = ffi.cast("void *", _address(taken))
    asked.dims, asked.num_dims, asked.type = dims, len(shape), code
    asked.device, asked.memory = place.device_pointer, place.memory_pointer
    asked.token = token = client._keep(taken)
    result = ffi.new("devrt_result *")
    status = lib.devrt_view(client._core, asked, result)
    if status:
        client._kept.pop(token, None)
        raise client._error(status, "buffer_from_dlpack", result, device=str(place.device))
    return PjrtBuffer(client, result.handle, spec_of(code, shape), place.memory, place.device)

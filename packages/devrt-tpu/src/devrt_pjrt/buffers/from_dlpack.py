"""Tensors borrowed through DLPack; what is lent is `devrt_pjrt.buffers.dlpack`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devrt import dtypes
from devrt.dtypes import ELEMENT_TYPES
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers.buffer import PjrtBuffer
from devrt_pjrt.buffers.dlpack import CPU, type_of
from devrt_pjrt.buffers.spec import check_type, spec_of
from devrt_pjrt.library import capsule as _capsule

if TYPE_CHECKING:
    from devrt_pjrt.buffers.put import Putter
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.target import Target

__all__ = ["take"]

_ALIGNMENT = 64
"""Bytes: XLA reads views with vector instructions that need it."""

_FROM_DLPACK = {
    (type_of(element.code)): element.code for element in ELEMENT_TYPES if element.bits >= 8
}


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


def take(putter: Putter, value: Any, target: Target, copy: bool | None) -> PjrtBuffer:
    """Make a buffer of a DLPack tensor; see `PjrtClient.buffer_from_dlpack`."""
    connection = putter.connection
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
    check_type(connection.api, code)
    shape = tuple(int(tensor.shape[i]) for i in range(tensor.ndim))
    problem = _problem(connection, taken, shape, code, target)
    readable = (CPU, *connection.traits.dlpack_host_types)
    if problem and (copy is False or tensor.device_type not in readable):
        msg = f"buffer_from_dlpack failed: the tensor cannot be viewed, as {problem}."
        raise InvalidArgumentError(msg, operation="buffer_from_dlpack")
    if problem or copy:
        return putter.put(_as_numpy(taken, shape, code).copy(), target, 0)
    return _view(connection, taken, shape, code, target)


def _problem(
    connection: Connection, taken: _Taken, shape: tuple[int, ...], code: int, target: Target
) -> str:
    tensor = taken.tensor
    wanted = connection.traits.dlpack_device
    if tensor.device_type != wanted:
        return f"it lies on DLPack device {(tensor.device_type, tensor.device_id)}"
    if wanted != CPU and tensor.device_id != (target.device.local_hardware_id or 0):
        return f"it lies on device {tensor.device_id}, not on {target.device}"
    spec = spec_of(code, shape)
    if tensor.strides != ffi.NULL and spec.size > 1:
        step = 1
        for at in range(len(shape) - 1, -1, -1):
            if shape[at] != 1 and tensor.strides[at] != step:
                return "it is not row-major"
            step *= shape[at]
    if wanted == CPU and (_address(taken) % _ALIGNMENT or not spec.size):
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
    connection: Connection, taken: _Taken, shape: tuple[int, ...], code: int, target: Target
) -> PjrtBuffer:
    dims = ffi.new("int64_t[]", list(shape))
    view = ffi.new("devrt_view_spec *")
    view.data = ffi.cast("void *", _address(taken))
    view.dims, view.num_dims, view.type = dims, len(shape), code
    view.device, view.memory = target.device_pointer, target.memory_pointer
    view.token = token = connection.keep(taken)
    result = ffi.new("devrt_result *")
    status = lib.devrt_view(connection.core, view, result)
    if status:
        connection.kept.pop(token, None)
        raise connection.error(status, "buffer_from_dlpack", result, device=str(target.device))
    return PjrtBuffer(connection, result.handle, spec_of(code, shape), target.memory, target.device)

"""Host values that go to a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devrt import dtypes
from devrt.contract import HostBufferSemantics, refuse_nulls
from devrt.errors import InvalidArgumentError, InvalidTypeError, OutOfMemoryError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers.buffer import PjrtBuffer
from devrt_pjrt.buffers.spec import spec_of, type_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.target import Target

__all__ = ["Putter", "check_semantics"]

_NEW_RESULT = ffi.typeof("devrt_result *")
_from_buffer = ffi.from_buffer
_put_dense = lib.devrt_put_dense
_ndarray = np.ndarray
_DURING_CALL = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_SEMANTICS = range(4)
_ZERO_COPY, _MUTABLE_ZERO_COPY = 2, 3
_LARGE = 1 << 20
_ALIGNMENT = 64


class Putter:
    """Puts host values on the devices of one client."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._codes: dict[np.dtype[Any], int] = {}
        self._aliases = connection.traits.aliases_sources

    def put(self, value: Any, target: Target, semantics: int) -> PjrtBuffer:
        """Start the transfer of one value; see `Client.buffer_from_pyval`."""
        if semantics is not _DURING_CALL:  # the rest of it takes time
            semantics = check_semantics(semantics)
        array = value if type(value) is _ndarray else self._as_array(value)
        code = self._codes.get(array.dtype)
        if code is None:
            array, code = self._native(array)
        if array.nbytes >= _LARGE and self._is_copied(array, target, semantics):
            copied = _copied(_aligned_copy, array, target)
            return self._put_kept(copied, code, target, _MUTABLE_ZERO_COPY)
        if semantics:
            return self._put_kept(array, code, target, semantics)
        if not array.flags.c_contiguous:
            return self._put_strided(array, code, target)
        connection = self.connection
        spare = connection.results
        result = spare.pop() if spare else ffi.new(_NEW_RESULT)
        shape = array.shape
        status = _put_dense(
            connection.core,
            _bytes_of(array),
            code,
            shape,
            len(shape),
            0,
            target.device_pointer,
            target.memory_pointer,
            0,
            result,
        )
        if status:
            raise connection.error(status, "buffer_from_pyval", result, device=str(target.device))
        handle = result.handle
        spare.append(result)
        return PjrtBuffer(connection, handle, spec_of(code, shape), target.memory, target.device)

    def source(self, value: Any) -> tuple[np.ndarray[Any, Any], int]:
        """Return a value as an array that the plugin can read, and its element type."""
        return self._native(self._as_array(value))

    def _is_copied(self, array: np.ndarray[Any, Any], target: Target, semantics: Any) -> bool:
        """Return whether to copy a large source here and let the plugin alias the copy.

        NumPy asks the system for huge pages; the plugin's own copy takes several times as long,
        most of it for the pages of fresh memory.
        """
        if not self._aliases or target.memory_pointer:
            return False
        is_aligned = array.__array_interface__["data"][0] % _ALIGNMENT == 0
        return semantics < _ZERO_COPY or not (is_aligned and array.flags.c_contiguous)

    def _put_kept(
        self, array: np.ndarray[Any, Any], code: int, target: Target, semantics: int
    ) -> PjrtBuffer:
        """Put a source that the plugin may look at, or alias, after the call."""
        connection = self.connection
        if semantics == _MUTABLE_ZERO_COPY and not array.flags.writeable:
            semantics = _ZERO_COPY  # a program that takes the buffer over would write to it
        if not array.flags.c_contiguous:
            return self._put_strided(array, code, target)
        result = ffi.new(_NEW_RESULT)
        token = connection.keep(array)
        status = _put_dense(
            connection.core,
            _bytes_of(array),
            code,
            array.shape,
            array.ndim,
            semantics,
            target.device_pointer,
            target.memory_pointer,
            token,
            result,
        )
        if status or not result.kept:
            connection.kept.pop(token, None)
        if status:
            raise connection.error(status, "buffer_from_pyval", result, device=str(target.device))
        connection.drain()
        spec = spec_of(code, array.shape)
        return PjrtBuffer(connection, result.handle, spec, target.memory, target.device)

    def _put_strided(self, array: np.ndarray[Any, Any], code: int, target: Target) -> PjrtBuffer:
        """Put an array of any strides; the plugin reads them where all are positive."""
        if any(step <= 0 for step in array.strides) or array.size == 0:
            dense = _copied(np.ascontiguousarray, array, target)
            return self.put(dense.reshape(array.shape), target, 0)
        connection = self.connection
        dims = ffi.new("int64_t[]", array.shape)
        strides = ffi.new("int64_t[]", array.strides)
        args = self.connection.api.new(
            "PJRT_Client_BufferFromHostBuffer_Args",
            data=ffi.cast("void *", array.__array_interface__["data"][0]),
            type=code,
            dims=dims,
            num_dims=array.ndim,
            byte_strides=strides,
            num_byte_strides=array.ndim,
            device=target.device_pointer,
            memory=target.memory_pointer,
        )
        result = ffi.new(_NEW_RESULT)
        status = lib.devrt_put(connection.core, args, 0, result)
        if status == lib.DEVRT_FAILED:
            # Some plugins take no strides; if it was something else, it fails again.
            connection.api.take(result.error, "buffer_from_pyval")
            return self.put(_copied(np.ascontiguousarray, array, target), target, 0)
        if status:
            raise connection.error(status, "buffer_from_pyval", result, device=str(target.device))
        spec = spec_of(code, array.shape)
        return PjrtBuffer(connection, result.handle, spec, target.memory, target.device)

    def _as_array(self, value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, PjrtBuffer):
            return value.__array__()
        refuse_nulls(value, "buffer_from_pyval")
        try:
            # NumPy reads bytes as a string unless they are marked as a buffer.
            return np.asarray(memoryview(value) if isinstance(value, bytes) else value)
        except (TypeError, ValueError, BufferError) as error:
            msg = f"a value of type {type(value).__name__} is no array: {error}."
            raise InvalidTypeError(msg, operation="buffer_from_pyval") from error

    def _native(self, array: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
        """Return the array in native byte order, and its element type."""
        code = type_code(self.connection.api, array.dtype)
        native = dtypes.to_numpy(code)
        if array.dtype == native and array.dtype.isnative:
            self._codes[array.dtype] = code
            return array, code
        return array.astype(native), code


def check_semantics(semantics: Any) -> int:
    """Return host-buffer semantics as an int; refuse what are none."""
    if isinstance(semantics, int) and semantics in _SEMANTICS:
        return int(semantics)
    msg = f"host_buffer_semantics must be 0, 1, 2 or 3, and is {semantics!r:.60}."
    raise InvalidArgumentError(msg, operation="buffer_from_pyval")


def _copied(
    copy: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
    array: np.ndarray[Any, Any],
    target: Target,
) -> np.ndarray[Any, Any]:
    """Return a copy of an array in host memory, or raise devrt's error for too little of it."""
    try:
        return copy(array)
    except MemoryError as error:
        msg = (
            f"out of memory: cannot allocate {array.nbytes} bytes of host memory for a dense copy "
            f"of an array of shape {array.shape} and dtype {array.dtype}. Put it in parts."
        )
        raise OutOfMemoryError(
            msg, operation="buffer_from_pyval", device=str(target.device), requested=array.nbytes
        ) from error


def _aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    aligned = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    skip = -aligned.__array_interface__["data"][0] % _ALIGNMENT
    made: np.ndarray[Any, Any] = (
        aligned[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    )
    np.copyto(made, array)
    return made


def _bytes_of(array: np.ndarray[Any, Any]) -> Any:
    try:
        return _from_buffer(array)
    except (ValueError, BufferError):  # a dtype that the buffer protocol has no letter for
        return ffi.cast("void *", array.__array_interface__["data"][0])

"""Arrays of other libraries taken over through DLPack, without a copy where that is possible.

The other way needs nothing from here: an array on one device has ``__dlpack__``.
"""

from __future__ import annotations

from typing import Any

from devrt import dtypes
from devrt.arrays import Array, device_put
from devrt.arrays._put import ALIAS, COPY, put_host, resolve_target, target_kind
from devrt.contract import Buffer, Device
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError
from devrt.runtime import default_runtime

__all__ = ["from_dlpack", "is_supported_dtype"]

_HOST_TYPES = (1, 3, 11)  # of DLDeviceType: the host's memory, and what two vendors page-lock of it
_TENSOR_AT = {"dltensor": 0, "dltensor_versioned": 32}  # bytes before the DLTensor, by capsule name
_BYTE_OFFSET_AT = 40  # within a DLTensor


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """Take over an array of another library.

    Parameters
    ----------
    external_array
        An object with ``__dlpack__`` and ``__dlpack_device__``. What shares its memory with the
        result must not be written to while the result lives.
    device
        A device or sharding to place the result on; where the array is when omitted.
    copy
        True copies always, False never; None only where it must be done: onto another device, or
        of elements that are not dense or do not begin at a multiple of 64 bytes.

    Returns
    -------
    Array
        Committed if ``device`` is given. Does not wait for the device.

    Raises
    ------
    InvalidTypeError
        If it is no such object, or no device holds its dtype.
    InvalidArgumentError
        If ``copy`` is False and a copy is needed, or the array is on a device that the target's
        platform does not read.
    """
    if isinstance(external_array, Buffer):
        external_array = Array((external_array,))
    if type(external_array) is Array:
        return _from_array(external_array, device, copy)
    if not all(hasattr(external_array, n) for n in ("__dlpack__", "__dlpack_device__")):
        msg = (
            "from_dlpack takes an array with __dlpack__ and __dlpack_device__, not one of type "
            f"{type(external_array).__name__}. Use devrt.device_put for other values."
        )
        raise InvalidTypeError(msg, type=type(external_array).__name__)
    target = _device_of(external_array) if device is None else device
    made = put_host(external_array, target, target_kind(target), COPY if copy else ALIAS)
    if copy is False and not _shows(made, external_array):
        made.delete()
        raise _needs_copy(external_array, target)
    made._committed = device is not None
    return made


def is_supported_dtype(dtype: Any) -> bool:
    """Return whether arrays of a dtype go through DLPack; true of all that devices hold."""
    try:
        dtypes.from_numpy(dtype)
    except (DevrtError, TypeError):
        return False
    return True


def _from_array(x: Array, device: Any, copy: bool | None) -> Array:
    if device is None:
        buffer = x._only("from_dlpack")
        return x.copy() if copy else Array((buffer.clone(),))
    target, _ = resolve_target(x, device, "from_dlpack")
    placed: Array = device_put(x, target, may_alias=not copy)
    if copy is False and [b.unsafe_buffer_pointer() for b in placed._buffers] != [
        b.unsafe_buffer_pointer() for b in x._buffers
    ]:
        raise _needs_copy(x, target)
    return placed


def _device_of(external: Any) -> Device:
    """Return the device for an array: one that sees the host's memory, or the default one."""
    device_type, _ = external.__dlpack_device__()
    runtime = default_runtime()
    device: Device = runtime.default_device()
    if int(device_type) in _HOST_TYPES and not device.default_memory().is_host_visible:
        device = runtime.get_backend("cpu").local_devices()[0]
    return device


def _shows(made: Array, external: Any) -> bool:
    if not made.size:
        return True
    return [b.unsafe_buffer_pointer() for b in made._buffers] == [_address(external)]


def _address(external: Any) -> int:
    """Return where an array's elements begin, as its capsule says; the capsule is not consumed."""
    import ctypes

    try:
        capsule = external.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter from before DLPack 1.0
        capsule = external.__dlpack__()
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    tensor = pointer_of(capsule, name) + _TENSOR_AT[name.decode()]
    data = ctypes.c_uint64.from_address(tensor).value
    return int(data + ctypes.c_uint64.from_address(tensor + _BYTE_OFFSET_AT).value)


def _needs_copy(external: Any, target: Any) -> InvalidArgumentError:
    msg = (
        f"from_dlpack(copy=False) cannot show this array of type {type(external).__name__} on "
        f"{target} as it is: it lies on another device, is not dense, or does not begin at a "
        "multiple of 64 bytes. Leave copy out to have it copied where it must be."
    )
    return InvalidArgumentError(msg, operation="from_dlpack")

"""Arrays of other libraries taken over through DLPack, without a copy where that is possible.

The other way needs nothing from here: an array on one device has ``__dlpack__``.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any

from devrt import dtypes
from devrt._config.layers import Config
from devrt.arrays import Array
from devrt.arrays.external import is_on_device, taken_over
from devrt.arrays.missing import gone
from devrt.arrays.put import ALIAS, COPY, put_array, put_host, resolve_target, target_kind
from devrt.contract import Buffer, Device
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError
from devrt.runtime import default_runtime

__all__ = ["from_dlpack", "is_supported_dtype"]

_HOST = 1  # of DLDeviceType: the host's memory
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
    given: Any = copy  # callers are not bound by the annotation
    if not (given is None or isinstance(given, bool)):
        msg = f"copy is True, False or None, not {given!r} of type {type(given).__name__}."
        raise InvalidTypeError(msg, operation="from_dlpack")
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
    kind = target_kind(device, "from_dlpack")
    try:
        on_device = is_on_device(external_array)
        if on_device and (taken := taken_over(external_array, copy, device)) is not None:
            return taken if device is None else _from_array(taken, device, copy and None)
        where = _where(external_array)
        target, kind = (_device_for(where[0]), "device") if device is None else (device, kind)
        made = _taken(external_array, where, target, kind, copy)
    except DevrtError:
        raise
    except Exception as error:
        raise _not_exported(external_array, error) from error
    made._committed = device is not None
    return made


def _taken(
    external: Any, where: tuple[int, int], target: Any, kind: str, copy: bool | None
) -> Array:
    stays = Config.guards_are_set and _is_there(where[0], target)
    if copy is not False:
        semantics = COPY if copy else ALIAS
        return put_host(external, target, kind, semantics, "from_dlpack", stays=stays)
    exported, address = _with_address(external, where)
    made = put_host(exported, target, kind, ALIAS, "from_dlpack", stays=stays)
    if made.size and [b.unsafe_buffer_pointer() for b in made._buffers] != [address]:
        made.delete()
        raise _needs_copy(external, target)
    return made


def _is_there(device_type: int, target: Any) -> bool:
    """Return whether an array of the host's is on the target, as it is where none is given."""
    here = _device_for(device_type)
    return target is here and here.default_memory().is_host_visible


def is_supported_dtype(dtype: Any) -> bool:
    """Return whether arrays of a dtype go through DLPack; true of all that devices hold."""
    if dtype is None:  # float64 to NumPy, and no dtype to any other consumer
        return False
    try:
        dtypes.from_numpy(dtype)
    except (DevrtError, TypeError):
        return False
    return True


def _from_array(x: Array, device: Any, copy: bool | None) -> Array:
    if x.is_deleted():
        raise gone(x, "from_dlpack")
    if device is None:
        buffer = x._only("from_dlpack")
        return x.copy() if copy else Array((buffer.clone(),))
    target, kind = resolve_target(x, device, "from_dlpack")
    placed = put_array(x, target, kind, None, False, not copy, "from_dlpack")
    if copy is False and [b.unsafe_buffer_pointer() for b in placed._buffers] != [
        b.unsafe_buffer_pointer() for b in x._buffers
    ]:
        raise _needs_copy(x, target)
    return placed


def _where(external: Any) -> tuple[int, int]:
    """Return the DLDeviceType and the number of the device that an exporter's array is on."""
    answer = external.__dlpack_device__()
    with contextlib.suppress(TypeError, ValueError):
        device_type, number = answer
        return operator.index(device_type), operator.index(number)
    kind = type(external).__name__
    msg = (
        f"from_dlpack cannot tell where this array of type {kind} lies: its __dlpack_device__ "
        f"returned {answer!r}, not a device type and a device number. The exporter is at fault; "
        "pass numpy.asarray(x) instead."
    )
    raise InvalidTypeError(msg, type=kind, operation="from_dlpack")


def _device_for(device_type: int) -> Device:
    """Return the device for an array: one that sees the host's memory, or the default one."""
    runtime = default_runtime()
    device: Device = runtime.default_device()
    if device_type == _HOST and not device.default_memory().is_host_visible:
        device = runtime.get_backend("cpu").local_devices()[0]
    return device


class _Exported:
    """What was exported already: the array's capsule, for the consumer that takes it over."""

    def __init__(self, capsule: Any, where: tuple[int, int]) -> None:
        self._capsule = capsule
        self._where = where

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._where


def _with_address(external: Any, where: tuple[int, int]) -> tuple[Any, int]:
    """Return an array and the address where its elements begin; it is exported at most once."""
    interface = getattr(external, "__array_interface__", None)
    if type(external).__module__ == "numpy" and interface is not None:
        return external, int(interface["data"][0])
    try:
        capsule = external.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter from before DLPack 1.0
        capsule = external.__dlpack__()
    named_alike = type(type(external).__name__, (_Exported,), {})  # errors name the type
    return named_alike(capsule, where), _address(capsule)


def _address(capsule: Any) -> int:
    """Return where an array's elements begin, as its capsule says; the capsule is not consumed."""
    import ctypes

    if type(capsule).__name__ != "PyCapsule":
        return 0  # the consumer refuses it
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    offset = _TENSOR_AT.get((name or b"").decode())
    if offset is None:
        return 0  # as above
    tensor = pointer_of(capsule, name) + offset
    data = ctypes.c_uint64.from_address(tensor).value
    return int(data + ctypes.c_uint64.from_address(tensor + _BYTE_OFFSET_AT).value)


def _not_exported(external: Any, error: Exception) -> InvalidArgumentError:
    kind = type(external).__name__
    msg = (
        f"from_dlpack cannot take over this array of type {kind}, because it does not export "
        f"itself: {type(error).__name__}: {error}. Pass numpy.asarray(x) instead."
    )
    return InvalidArgumentError(msg, type=kind, operation="from_dlpack")


def _needs_copy(external: Any, target: Any) -> InvalidArgumentError:
    msg = (
        f"from_dlpack(copy=False) cannot show this array of type {type(external).__name__} on "
        f"{target} as it is: it lies on another device, is not dense, or does not begin at a "
        "multiple of 64 bytes. Leave copy out to have it copied where it must be."
    )
    return InvalidArgumentError(msg, operation="from_dlpack")

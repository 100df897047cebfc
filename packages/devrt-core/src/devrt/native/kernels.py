"""Kernels of one's own on GPUs: compiled or loaded, and launched with arrays.

``client.compile(source, format=...)`` returns a `KernelModule`, whose functions are called with
arrays, numbers, and descriptions of the arrays that they fill::

    module = client.compile(source, format="ptx")
    (z,) = module["add"](x, y, devrt.ShapeDtypeStruct(x.shape, x.dtype), grid=8, block=128)

The native half, which orders launches and checks them, is ``src/client/kernels.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt._support.record import record
from devrt.contract import Buffer
from devrt.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from devrt.native.kernel_compiler import KernelCompiler

__all__ = ["Kernel", "KernelFormats", "KernelModule"]

_MOST_SHARED = 1 << 32  # bytes, as drivers count them


@record(frozen=True, slots=True, kw_only=True)
class KernelFormats:
    """What a vendor's devices take.

    Attributes
    ----------
    images : tuple of str
        The formats that the driver loads as they are.
    compiler : KernelCompiler
        What makes images of source code, whose format has its name.
    """

    images: tuple[str, ...]
    compiler: KernelCompiler


class Kernel:
    """A function of a module, on each device that has loaded it.

    Attributes
    ----------
    name : str
        Its name.
    """

    __slots__ = ("_module", "_on", "name")

    def __init__(self, module: KernelModule, name: str) -> None:
        self.name = name
        self._module = module
        lowered = module._names.get(name, name)
        self._on = {device: loaded.function(lowered) for device, loaded in module._loaded.items()}

    def __call__(
        self,
        *arguments: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared_bytes: int = 0,
        device: Any = None,
    ) -> tuple[Any, ...]:
        """Start the kernel behind what fills its arrays; the caller waits for nothing.

        Parameters
        ----------
        *arguments
            The kernel's parameters, in their order: an array of one device, which the kernel must
            only read; a NumPy scalar (``numpy.int32(3)``); or a description with ``shape`` and
            ``dtype`` (`devrt.ShapeDtypeStruct`) of an array that the launch makes and the kernel
            fills. Each array is a pointer to its first element; they lie row-major unless a layout
            was requested.
        grid, block
            How many blocks, and how many threads each has: up to three sizes.
        shared_bytes
            The memory that the threads of a block share, beside what the kernel declares.
        device
            Where it runs; the device of the first array when omitted, or without one the module's
            first.

        Returns
        -------
        tuple of Array
            What was described, in the order of the parameters.

        Raises
        ------
        InvalidArgumentError
            If the device cannot launch it so, or an array lies elsewhere.
        InvalidTypeError
            If an argument is none of those, as a number of Python, whose type nobody knows.
        """
        read = [_argument(value, number) for number, value in enumerate(arguments)]
        self._check_shared(shared_bytes)
        native = self._on[self._device(read, device)]
        buffers = native.launch(read, _sizes(grid), _sizes(block), shared_bytes)
        return tuple(_array_of(buffer) for buffer in buffers)

    def __repr__(self) -> str:
        return f"Kernel({self.name!r})"

    def _check_shared(self, shared_bytes: int) -> None:
        if not 0 <= shared_bytes < _MOST_SHARED:
            msg = f"launch of {self.name!r} failed: shared_bytes is {shared_bytes}."
            raise InvalidArgumentError(msg, operation="launch")

    def _device(self, arguments: Sequence[Any], device: Any) -> Any:
        first = next(iter(self._on))
        lying = [
            each.device  # of one that was deleted, the launch says that
            for each in arguments
            if isinstance(each, Buffer) and not each.is_deleted()
        ]
        if device is None:
            device = lying[0] if lying else first
        device = next((other for other in lying if other.client is not first.client), device)
        if device not in self._on:
            listed = ", ".join(str(each) for each in self._on)
            msg = (
                f"launch of {self.name!r} failed: its module is loaded on {listed}, not on "
                f"{device!r}. Put its arrays there, or compile it for that device too."
            )
            raise InvalidArgumentError(msg, operation="launch", device=str(device))
        return device


class KernelModule:
    """Kernels that devices have loaded; it is unloaded with its last kernel, behind all launches.

    Attributes
    ----------
    images : Mapping
        What each device has loaded, as bytes.
    """

    def __init__(
        self, native: Any, images: Mapping[Any, bytes], names: Mapping[str, str] | None = None
    ) -> None:
        self.images = images
        self._names = names or {}
        self._loaded = {
            device: native._load_kernels(device, image) for device, image in images.items()
        }

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel by its name; C++ keeps that of a function declared ``extern "C"``.

        Others are found by the name expressions that the module was compiled with.

        Raises
        ------
        DevrtError
            If the module has none of that name; its code is NOT_FOUND.
        """
        return Kernel(self, name)


def _argument(value: Any, number: int) -> Any:
    from devrt.arrays import Array

    if isinstance(value, Buffer):
        return value
    if isinstance(value, Array):
        buffers = value._buffers
        if len(buffers) == 1:
            return buffers[0]
        msg = f"launch failed: argument {number} lies on {len(buffers)} devices, not on one."
        raise InvalidArgumentError(msg, operation="launch")
    return _number_or_result(value, number)


def _number_or_result(value: Any, number: int) -> Any:
    """Return the bytes of a number, or the dtype and shape of an array that the kernel fills."""
    if isinstance(value, np.generic):
        return value.tobytes()
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.ndarray):
        return np.dtype(value.dtype), tuple(value.shape)
    msg = (
        f"launch failed: argument {number} is of type {type(value).__name__}. Give an array of the "
        "device, a NumPy scalar of the parameter's type (numpy.int32(3)), or a ShapeDtypeStruct "
        "for an array that the kernel fills."
    )
    raise InvalidTypeError(msg, operation="launch")


def _sizes(given: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(given) if isinstance(given, Iterable) else (given,)


def _array_of(buffer: Any) -> Any:
    from devrt.arrays import Array

    return Array((buffer,))

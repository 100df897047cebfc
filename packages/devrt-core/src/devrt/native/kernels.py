"""Kernels of one's own on GPUs: compiled or loaded, and launched with arrays.

``client.compile(source, format=...)`` returns a `KernelModule`, whose functions are called with
arrays, numbers, and descriptions of the arrays that they fill::

    module = client.compile(source, format="ptx")
    (z,) = module["add"](x, y, devrt.ShapeDtypeStruct(x.shape, x.dtype), grid=8, block=128)

In a traced function the same call becomes part of the program. The native half, which orders
launches and checks them, is ``src/client/kernels.cpp``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt._support.context import Context
from devrt._support.record import record
from devrt.contract import Buffer
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError, StatusCode
from devrt.native.kernel_calls import KernelCall, traced_call

if TYPE_CHECKING:
    from devrt.native.kernel_compiler import KernelCompiler

__all__ = ["Kernel", "KernelAttributes", "KernelFormats", "KernelModule"]

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


@record(frozen=True, slots=True, kw_only=True)
class KernelAttributes:
    """What the compiler made of a kernel, by the drivers' names; -1 for what is not known.

    Attributes
    ----------
    max_threads_per_block : int
        How many threads a block may have, by the registers that each takes.
    num_regs : int
        Registers of a thread.
    shared_size_bytes : int
        Shared memory that the kernel declares itself.
    max_dynamic_shared_size_bytes : int
        Shared memory that a launch may have beside it until now; a launch that needs more requests
        it of the driver, up to the device's limit.
    local_size_bytes : int
        Memory of a thread for what does not fit into registers.
    const_size_bytes : int
        Constants.
    """

    max_threads_per_block: int = -1
    num_regs: int = -1
    shared_size_bytes: int = -1
    max_dynamic_shared_size_bytes: int = -1
    local_size_bytes: int = -1
    const_size_bytes: int = -1


class Kernel:
    """A function of a module, on each device that has loaded it.

    Attributes
    ----------
    name : str
        Its name.
    """

    __slots__ = ("_key", "_module", "_on", "name")

    def __init__(self, module: KernelModule, name: str) -> None:
        self.name = name
        self._module = module
        lowered = module._names.get(name, name)
        self._on = {device: loaded.function(lowered) for device, loaded in module._loaded.items()}
        self._key = ""

    def __call__(
        self,
        *arguments: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared_bytes: int = 0,
        device: Any = None,
    ) -> tuple[Any, ...]:
        """Start the kernel behind what fills its arrays; the caller waits for nothing.

        In a traced function it is called by the program, on the device that this runs on.

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
            What was described, in the order of the parameters; traced values in a traced function.

        Raises
        ------
        InvalidArgumentError
            If the device cannot launch it so, or an array lies elsewhere.
        InvalidTypeError
            If an argument is none of those, as a number of Python, whose type nobody knows.
        """
        if Context.stamp is None and _is_tracing():
            read = [_traced_argument(value, number) for number, value in enumerate(arguments)]
            return traced_call(self._call(read, grid, block, shared_bytes), read)
        read = [_argument(value, number) for number, value in enumerate(arguments)]
        self._check_shared(shared_bytes)
        native = self._on[self._device(read, device)]
        buffers = native.launch(read, _sizes(grid, "grid"), _sizes(block, "block"), shared_bytes)
        return tuple(_array_of(buffer) for buffer in buffers)

    def custom_call(
        self,
        *parameters: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared_bytes: int = 0,
    ) -> KernelCall:
        """Return how a program that is not traced here calls the kernel, such as StableHLO.

        Parameters
        ----------
        *parameters
            As for a launch. Of arrays only their places among the parameters count.
        grid, block, shared_bytes
            As for a launch.

        Returns
        -------
        KernelCall
            The custom call's target and attributes. Its operands are the arrays, its results what
            is described; both must have row-major layouts.

        Notes
        -----
        A kernel that programs call stays loaded until its client is closed.
        """
        read = [_described(value, number) for number, value in enumerate(parameters)]
        return self._call(read, grid, block, shared_bytes)

    @property
    def attributes(self) -> KernelAttributes:
        """What the compiler made of it, for the module's first device."""
        return KernelAttributes(**next(iter(self._on.values())).attributes())

    def suggest_block(self, shared_bytes: int = 0) -> tuple[int, int]:
        """Return the block that keeps the module's first device busiest, by the driver.

        Parameters
        ----------
        shared_bytes
            The shared memory that a launch requests.

        Returns
        -------
        tuple of int
            Threads of a block, and the least number of blocks that fills the device.
        """
        self._check_shared(shared_bytes)
        block, grid = next(iter(self._on.values())).suggest_block(shared_bytes)
        return int(block), int(grid)

    def __repr__(self) -> str:
        return f"Kernel({self.name!r})"

    def _call(
        self,
        parameters: Sequence[Any],
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared_bytes: int,
    ) -> KernelCall:
        """Check a launch in a program, and let programs find the kernel."""
        self._check_shared(shared_bytes)
        given = _sizes(grid, "grid"), _sizes(block, "block"), shared_bytes
        sizes = [len(each) if isinstance(each, bytes) else 8 for each in parameters]
        for native in self._on.values():
            native.check(sizes, *given)
        if not self._key:
            key = f"{self._module._names.get(self.name, self.name)}@{self._module._fingerprint()}"
            for native in self._on.values():
                native.provide(key)
            self._key = key
        return KernelCall.of(self._key, parameters, *given)

    def _check_shared(self, shared_bytes: int) -> None:
        if not hasattr(shared_bytes, "__index__") or _is_truth(shared_bytes):
            msg = f"launch of {self.name!r} failed: shared_bytes must be an int: {shared_bytes!r}."
            raise InvalidTypeError(msg, operation="launch")
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

    def __repr__(self) -> str:
        listed = ", ".join(str(device) for device in self._loaded)
        return f"KernelModule(on {listed})"

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel by its name; C++ keeps that of a function declared ``extern "C"``.

        Others are found by the name expressions that the module was compiled with.

        Raises
        ------
        InvalidArgumentError
            If the module has none of that name; its code is NOT_FOUND.
        """
        given: Any = name
        if not isinstance(given, str):
            msg = f"a kernel is found by its name, a str, not by one of {type(given).__name__}."
            raise InvalidTypeError(msg, operation="function")
        if not name.isascii() and any("\ud800" <= each <= "\udfff" for each in name):
            msg = f"a kernel is found by its name, which {name!r} cannot be: it is no UTF-8."
            raise InvalidTypeError(msg, operation="function")
        try:
            return Kernel(self, name)
        except DevrtError as error:
            if error.code is not StatusCode.NOT_FOUND:
                raise
            raise self._absent(error) from None

    def _absent(self, error: DevrtError) -> InvalidArgumentError:
        """Return the error of a name that the driver does not find, with those that are known."""
        known = ", ".join(map(repr, self._names))
        msg = error.message + (f" It was compiled with the names {known}." if known else "")
        return InvalidArgumentError(msg, code=StatusCode.NOT_FOUND, **error.data)

    def _fingerprint(self) -> str:
        """Return what tells its images from others', in any process."""
        digest = hashlib.sha256()
        for each in sorted({hashlib.sha256(image).digest() for image in self.images.values()}):
            digest.update(each)
        return digest.hexdigest()[:32]


def _is_tracing() -> bool:
    from devrt.tracing import is_tracing

    return is_tracing()


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


def _traced_argument(value: Any, number: int) -> Any:
    from devrt.arrays import Array
    from devrt.tracing import Value

    return value if isinstance(value, Array | Value) else _number_or_result(value, number)


def _described(value: Any, number: int) -> Any:
    """Read a parameter of a call of which only the types are known."""
    is_array = isinstance(value, np.ndarray | Buffer) or hasattr(value, "addressable_shards")
    return value if is_array else _number_or_result(value, number)


def _number_or_result(value: Any, number: int) -> Any:
    """Return the bytes of a number, or the dtype and shape of an array that the kernel fills."""
    if isinstance(value, np.generic):
        if _is_passed(value):
            return value.tobytes()
    elif hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.ndarray):
        return np.dtype(value.dtype), tuple(value.shape)
    msg = (
        f"launch failed: argument {number} is of type {type(value).__name__}. Give an array of the "
        "device, a NumPy scalar of the parameter's type (numpy.int32(3)), or a ShapeDtypeStruct "
        "for an array that the kernel fills."
    )
    raise InvalidTypeError(msg, operation="launch")


def _is_passed(value: np.generic) -> bool:
    """Return whether a kernel takes a scalar's bytes: a number, or a structure of C's."""
    if isinstance(value, np.void):
        return value.dtype.names is not None
    return not isinstance(value, np.character | np.datetime64 | np.timedelta64)


def _sizes(given: int | Sequence[int], name: str) -> tuple[int, ...]:
    # Sets have no order, mappings not that of sizes, and bytes are numbers that nobody meant.
    is_refused = isinstance(given, Mapping | Set | bytes | bytearray)
    sizes = tuple(given) if isinstance(given, Iterable) else (given,)
    if is_refused or any(map(_is_truth, sizes)):
        msg = f"{name} must be an int or a sequence of ints, not {given!r}."
        raise InvalidTypeError(msg, operation="launch")
    return sizes


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _array_of(buffer: Any) -> Any:
    from devrt.arrays import Array

    return Array((buffer,))

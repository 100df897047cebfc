"""Kernels of one's own on GPUs: compiled or loaded, and launched with arrays.

``client.compile(source, format=...)`` returns a `KernelModule`, whose functions are called with
arrays, numbers, and descriptions of the arrays that they fill::

    module = client.compile(source, format="ptx")
    (z,) = module["add"](x, y, devrt.ShapeDtypeStruct(x.shape, x.dtype), grid=8, block=128)

The native half, which orders launches and checks them, is ``src/client/kernels.cpp``.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt._support.record import record
from devrt.contract import Buffer
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.records import CACHE_OPTIONS

if TYPE_CHECKING:
    from devrt.native.kernel_compiler import KernelCompiler

__all__ = ["Kernel", "KernelFormats", "KernelModule"]

_CACHING = tuple(spec.name for spec in CACHE_OPTIONS)
_MOST_SHARED = 1 << 32  # bytes, as drivers count them
_caches: weakref.WeakKeyDictionary[Any, Mapping[str, Any]] = weakref.WeakKeyDictionary()


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
        self._on = {device: loaded.function(name) for device, loaded in module._loaded.items()}

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
        if not 0 <= shared_bytes < _MOST_SHARED:
            msg = f"launch of {self.name!r} failed: shared_bytes is {shared_bytes}."
            raise InvalidArgumentError(msg, operation="launch")
        native = self._on[self._device(read, device)]
        buffers = native.launch(read, _sizes(grid), _sizes(block), shared_bytes)
        return tuple(_array_of(buffer) for buffer in buffers)

    def __repr__(self) -> str:
        return f"Kernel({self.name!r})"

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

    def __init__(self, native: Any, images: Mapping[Any, bytes]) -> None:
        self.images = images
        self._loaded = {
            device: native._load_kernels(device, image) for device, image in images.items()
        }

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel by its name; C++ keeps that of a function declared ``extern "C"``.

        Raises
        ------
        DevrtError
            If the module has none of that name; its code is NOT_FOUND.
        """
        return Kernel(self, name)


def compile_member(place: str) -> Callable[..., Any]:
    """Return the method ``compile`` of a vendor's clients.

    Parameters
    ----------
    place
        Where its `KernelFormats` are: ``"module:name"``.
    """

    def compile(  # the name that jaxlib has
        self: Any,
        program: str | bytes,
        devices: Sequence[Any] | None = None,
        *,
        format: str | None = None,
        **options: Any,
    ) -> Any:
        """Compile a program and load it; with a ``format``, compile and load kernels.

        Parameters
        ----------
        program
            The program (see `compile_and_load`), or the kernels' source or image.
        devices
            Where they are loaded; for kernels all of this process when omitted.
        format
            What the kernels are: source code of the platform's compiler, or an image of its driver.
        **options
            Of `compile_and_load`; for kernels, ``options`` with more options of the compiler.

        Returns
        -------
        LoadedExecutable or KernelModule
            A `devrt.native.kernels.KernelModule` where there is a format.
        """
        if format is None:
            return self.compile_and_load(program, devices, **options)
        return _compile_kernels(place, self, program, devices, format, **options)

    return compile


@functools.cache
def _formats(place: str) -> KernelFormats:
    module, _, name = place.partition(":")
    found: KernelFormats = getattr(importlib.import_module(module), name)
    return found


def _compile_kernels(
    place: str,
    client: Any,
    source: str | bytes,
    devices: Sequence[Any] | None,
    format: str,
    options: Sequence[str] = (),
) -> KernelModule:
    formats = _formats(place)
    targets = client.local_devices() if devices is None else _own(client, devices)
    data = source.encode() if isinstance(source, str) else bytes(source)
    if format in formats.images:
        _check_whole(data)
        images = dict.fromkeys(targets, data)
    elif format == formats.compiler.format:
        images = _compiled(formats.compiler, client, targets, data.decode(), options)
    else:
        listed = ", ".join((formats.compiler.format, *formats.images))
        msg = f"the {client.platform} client takes no kernels as {format!r}; it takes {listed}."
        raise InvalidArgumentError(msg, operation="compile", platform=client.platform)
    return KernelModule(importlib.import_module(type(client).__module__), images)


def _own(client: Any, devices: Sequence[Any]) -> list[Any]:
    targets = list(devices)
    known = client.local_devices()
    if not targets or any(device not in known for device in targets):
        listed = ", ".join(str(device) for device in known)
        msg = f"compile failed: kernels are loaded on devices of this client ({listed})."
        raise InvalidArgumentError(msg, operation="compile", platform=client.platform)
    return targets


def remember_cache(client: Any, options: Mapping[str, Any]) -> None:
    """Keep the options that say how a client caches kernels; they are read with the first."""
    _caches[client] = {name: options[name] for name in _CACHING if name in options}


def _compiled(
    compiler: KernelCompiler,
    client: Any,
    devices: Sequence[Any],
    source: str,
    options: Sequence[str],
) -> dict[Any, bytes]:
    """Compile a source once for each kind of device."""
    from devrt.compiling.cache import from_options

    cache = from_options(_caches[client]) if client in _caches else None
    kinds = {device: device.attributes.get("architecture", "") for device in devices}
    images = {
        kind: compiler.compile(source, kind, options, cache) for kind in sorted({*kinds.values()})
    }
    return {device: images[kind] for device, kind in kinds.items()}


def _check_whole(data: bytes) -> None:
    """Refuse an image that ends early: a driver gets no length, and would read beyond it."""
    if not data:
        msg = "compile failed: the image is empty."
        raise InvalidArgumentError(msg, operation="compile")
    if not data.startswith(b"\x7fELF"):
        return
    offset = int.from_bytes(data[40:48], "little")
    size, count = (int.from_bytes(data[at : at + 2], "little") for at in (58, 60))
    if len(data) < 64 or offset + size * count > len(data):
        msg = f"the image is damaged: it has {len(data)} bytes, and its header tells of more."
        raise InvalidArgumentError(msg, operation="compile")


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

"""How a client compiles and loads kernels: the ``format`` of its ``compile``."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.native.gpu_simulation import is_simulated
from devrt.native.kernels import KernelModule
from devrt.native.references import resolve
from devrt.records import CACHE_OPTIONS

if TYPE_CHECKING:
    from devrt.native.kernel_compiler import KernelCompiler
    from devrt.native.kernels import KernelFormats

__all__ = ["compile_member", "remember_cache"]

_OPTIONS = ("options", "name_expressions")
_CACHING = tuple(spec.name for spec in CACHE_OPTIONS)
_caches: weakref.WeakKeyDictionary[Any, Mapping[str, Any]] = weakref.WeakKeyDictionary()


def compile_member(reference: str) -> Callable[..., Any]:
    """Return the method ``compile`` of a vendor's clients.

    Parameters
    ----------
    reference
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
            Of `compile_and_load`. For kernels, ``options`` with more options of the compiler, and
            ``name_expressions`` with names of templates and other functions of C++
            (``"scale<float>"``), by which the module then has them.

        Returns
        -------
        LoadedExecutable or KernelModule
            A `devrt.native.kernels.KernelModule` where there is a format.
        """
        if format is None:
            return self.compile_and_load(program, devices, **options)
        _check_options(options)
        return _compile_kernels(reference, self, program, devices, format, **options)

    return compile


def _compile_kernels(
    reference: str,
    client: Any,
    source: str | bytes,
    devices: Sequence[Any] | None,
    format: str,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
) -> KernelModule:
    formats: KernelFormats = resolve(reference)
    targets = client.local_devices() if devices is None else _own(client, devices)
    data = _bytes_of(source)
    names: Mapping[str, str] = {}
    if format == formats.compiler.format:
        given = options, name_expressions
        images, names = _compiled(formats.compiler, client, targets, _text_of(data), *given)
    elif format in formats.images:
        _check_image(data, format, options, name_expressions)
        images = dict.fromkeys(targets, data)
    else:
        listed = ", ".join((formats.compiler.format, *formats.images))
        msg = f"the {client.platform} client takes no kernels as {format!r}; it takes {listed}."
        raise InvalidArgumentError(msg, operation="compile", platform=client.platform)
    return _loaded(client, images, names)


def _loaded(client: Any, images: Mapping[Any, bytes], names: Mapping[str, str]) -> KernelModule:
    try:
        return KernelModule(importlib.import_module(type(client).__module__), images, names)
    except InvalidArgumentError as error:
        if not is_simulated(images):
            raise
        msg = (
            f"{error.message} Simulated devices run no code for GPUs: they load shared objects of "
            "this machine's processor, written for the simulator."
        )
        raise InvalidArgumentError(msg, code=error.code, **error.data) from None


def _check_options(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in _OPTIONS:
            msg = f"compile failed: kernels have no option {name!r}, but {' and '.join(_OPTIONS)}."
            raise InvalidTypeError(msg, operation="compile", option=name)
        is_text = isinstance(value, str | bytes) or not isinstance(value, Iterable)
        if is_text or not all(isinstance(each, str) for each in value):
            msg = f"compile failed: {name} must be a list of texts, not {value!r}."
            raise InvalidTypeError(msg, operation="compile", option=name)


def _bytes_of(source: Any) -> bytes:
    try:
        return source.encode() if isinstance(source, str) else bytes(memoryview(source))
    except TypeError:
        msg = f"compile failed: kernels are text or bytes, not of type {type(source).__name__}."
        raise InvalidTypeError(msg, operation="compile") from None
    except UnicodeEncodeError as error:
        msg = f"compile failed: the source is no text that UTF-8 can hold: {error}."
        raise InvalidArgumentError(msg, operation="compile") from None


def _text_of(data: bytes) -> str:
    if b"\0" in data:  # where C would end it, and leave the rest out
        msg = f"compile failed: the source has a NUL, as its byte {data.index(0)}. Take it out."
        raise InvalidArgumentError(msg, operation="compile")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        msg = f"compile failed: the source is not UTF-8: {error}. An image has another format."
        raise InvalidArgumentError(msg, operation="compile") from None


def _own(client: Any, devices: Any) -> list[Any]:
    if not isinstance(devices, Iterable):
        msg = f"compile failed: devices must be a list of devices, not {devices!r}."
        raise InvalidTypeError(msg, operation="compile", platform=client.platform)
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
    name_expressions: Sequence[str],
) -> tuple[dict[Any, bytes], Mapping[str, str]]:
    """Compile a source once for each kind of device; return what C++ calls the kernels, too."""
    from devrt.compiling.cache import from_options

    cache = from_options(_caches[client]) if client in _caches else None
    kinds = {device: device.attributes.get("architecture", "") for device in devices}
    made = {
        kind: compiler.compile_named(source, kind, name_expressions, options, cache)
        for kind in sorted({*kinds.values()})
    }
    names = {name: lowered for _, each in made.values() for name, lowered in each.items()}
    return {device: made[kind][0] for device, kind in kinds.items()}, names


def _check_image(
    data: bytes, format: str, options: Sequence[str], name_expressions: Sequence[str]
) -> None:
    """Refuse an image that ends early: a driver gets no length, and would read beyond it."""
    if options or name_expressions:
        msg = (
            f"compile failed: options and name_expressions are for source code, and {format!r} is "
            "an image, which is loaded as it is."
        )
        raise InvalidArgumentError(msg, operation="compile")
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

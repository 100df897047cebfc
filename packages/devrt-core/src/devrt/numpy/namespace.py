"""The array API standard's view of `devrt.numpy`."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError, UnimplementedError

__all__ = ["VERSION", "Info", "__array_namespace_info__", "array_namespace"]

VERSION = "2024.12"

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_ALL = _KINDS["bool"] + _KINDS["numeric"]


def array_namespace(api_version: str | None) -> Any:
    """Return `devrt.numpy`.

    Raises
    ------
    UnimplementedError
        If another version of the array API standard than 2024.12 is requested.
    """
    if api_version not in (None, VERSION):
        msg = (
            f"devrt.numpy does not follow version {api_version!r} of the array API standard: it "
            f"follows {VERSION}."
        )
        raise UnimplementedError(msg, operation="__array_namespace__")
    from devrt import numpy

    return numpy


def __array_namespace_info__() -> Info:  # noqa: N807  the standard's name
    """Return what there is of the array API standard in `devrt.numpy`."""
    return Info()


class Info:
    """What there is of the array API standard: capabilities, dtypes and devices."""

    def capabilities(self) -> dict[str, Any]:
        """Return what may be used outside of traces."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> Any:
        """Return the device that arrays are made on."""
        from devrt.runtime import default_runtime

        return default_runtime().default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of Python's numbers, and of indices."""
        return {
            "real floating": np.dtype("float32"),
            "complex floating": np.dtype("complex64"),
            "integral": np.dtype("int32"),
            "indexing": np.dtype("int32"),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """Return the standard's dtypes by name: all, or those of a kind or of several."""
        names: tuple[str, ...] = _ALL
        if kind is not None:
            kinds = (kind,) if isinstance(kind, str) else kind
            unknown = [each for each in kinds if each not in _KINDS]
            if unknown:
                msg = f"{unknown[0]!r} is no kind of dtypes. Kinds are {', '.join(_KINDS)}."
                raise InvalidArgumentError(msg, kind=kind)
            names = tuple(name for each in kinds for name in _KINDS[each])
        return {name: np.dtype(name) for name in names}

    def devices(self) -> list[Any]:
        """Return the devices of the default platform."""
        return list(self.default_device().client.devices())

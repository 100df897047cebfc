"""The element types that devrt knows, by their PJRT code, name and width.

The table is the only module where a code, a name and a NumPy dtype meet. NumPy and ml_dtypes are
imported when a NumPy dtype is first requested, never before.

The codes are those of ``PJRT_Buffer_Type`` in the PJRT C API; a name is NumPy's or ml_dtypes'.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "ELEMENT_TYPES",
    "ElementType",
    "by_name",
    "code_of",
    "extended",
    "from_numpy",
    "issubdtype",
    "kind_of",
    "prng_key",
    "to_numpy",
]


@dataclasses.dataclass(frozen=True, slots=True)
class ElementType:
    """One element type.

    Attributes
    ----------
    code : int
        ``PJRT_Buffer_Type`` value.
    name : str
        The NumPy or ml_dtypes name.
    bits : int
        Width of one element in bits, as the value is defined (``int4`` is 4).
    itemsize : int
        Bytes that one element takes in host memory (``int4`` is 1).
    """

    code: int
    name: str
    bits: int
    itemsize: int


def _table() -> tuple[ElementType, ...]:
    rows = (
        (1, "bool", 8),
        (2, "int8", 8),
        (3, "int16", 16),
        (4, "int32", 32),
        (5, "int64", 64),
        (6, "uint8", 8),
        (7, "uint16", 16),
        (8, "uint32", 32),
        (9, "uint64", 64),
        (10, "float16", 16),
        (11, "float32", 32),
        (12, "float64", 64),
        (13, "bfloat16", 16),
        (14, "complex64", 64),
        (15, "complex128", 128),
        (16, "float8_e5m2", 8),
        (17, "float8_e4m3fn", 8),
        (18, "float8_e4m3b11fnuz", 8),
        (19, "float8_e5m2fnuz", 8),
        (20, "float8_e4m3fnuz", 8),
        (21, "int4", 4),
        (22, "uint4", 4),
        (24, "int2", 2),
        (25, "uint2", 2),
        (26, "float8_e4m3", 8),
        (27, "float8_e3m4", 8),
        (28, "float8_e8m0fnu", 8),
        (29, "float4_e2m1fn", 4),
        (30, "int1", 1),
        (31, "uint1", 1),
        (32, "float6_e2m3fn", 6),
        (33, "float6_e3m2fn", 6),
    )
    return tuple(ElementType(code, name, bits, max(1, bits // 8)) for code, name, bits in rows)


ELEMENT_TYPES: tuple[ElementType, ...] = _table()

_KINDS = {
    "generic": "biufc",
    "number": "iufc",
    "integer": "iu",
    "signedinteger": "i",
    "unsignedinteger": "u",
    "inexact": "fc",
    "floating": "f",
    "complexfloating": "c",
}
"""NumPy's kinds of scalars, and the letters of the dtypes in each, those of ml_dtypes included."""

_BY_NAME = {element.name: element for element in ELEMENT_TYPES}
_BY_CODE = {element.code: element for element in ELEMENT_TYPES}


def by_name(name: str) -> ElementType:
    """Return the element type called ``name``.

    Raises
    ------
    InvalidTypeError
        If devrt knows no such type.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise InvalidTypeError(_unknown(name), dtype=name) from None


@functools.cache
def to_numpy(code: int) -> np.dtype[Any]:
    """Return the NumPy dtype for a PJRT code, the same object on every call."""
    import numpy as np

    element = _BY_CODE.get(code)
    if element is None:
        raise InvalidTypeError(_unknown(f"PJRT type {code}"), dtype=code)
    scalar = getattr(np, element.name, None) if element.name != "bool" else np.bool_
    if scalar is None:
        import ml_dtypes

        scalar = getattr(ml_dtypes, element.name, None)
    if scalar is None:
        msg = (
            f"dtype {element.name} is not known to the installed ml_dtypes "
            f"{ml_dtypes.__version__}. Install a newer one."
        )
        raise InvalidTypeError(msg, dtype=element.name)
    return np.dtype(scalar)


def from_numpy(dtype: Any) -> ElementType:
    """Return the element type of a NumPy dtype, or of anything ``numpy.dtype`` takes.

    Byte order is ignored: a big-endian ``float32`` is ``float32``.

    Raises
    ------
    InvalidTypeError
        If no device can hold the dtype (``object``, strings, dates, structures, long double).
    """
    import numpy as np

    try:
        resolved = to_numpy(_BY_NAME[dtype].code) if _is_name(dtype) else np.dtype(dtype)
    except (TypeError, ValueError):  # the latter for half a character
        msg = _of_keys(dtype) or _misspelt(dtype) or _unknown(repr(dtype))
        raise InvalidTypeError(msg, dtype=str(dtype)) from None
    element = _BY_NAME.get(resolved.name)
    if element is None or resolved.newbyteorder("=") != to_numpy(element.code):
        raise InvalidTypeError(_unknown(str(resolved)), dtype=str(resolved))
    return element


class extended:  # noqa: N801  JAX's name
    """What the dtypes are called together that are none of a device: `issubdtype` takes it."""


class prng_key(extended):  # noqa: N801  JAX's name
    """What the dtypes of arrays of keys are called together."""


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Return whether a dtype, or a kind of NumPy's scalars, belongs to another.

    ``issubdtype(x.dtype, prng_key)`` says whether an array is one of keys.
    """
    import numpy as np

    one = getattr(arg1, "type", arg1)
    if any(isinstance(each, type) and issubclass(each, extended) for each in (one, arg2)):
        return arg2 is np.generic or (isinstance(arg2, type) and issubclass(one, arg2))
    kinds, target = _letters(arg1), _letters(arg2)
    if target is not None:
        letters = kind_of(to_numpy(code_of(arg1))) if kinds is None else kinds
        return set(letters) <= set(target)
    return kinds is None and code_of(arg1) == code_of(arg2)


def _letters(kind: Any) -> str | None:
    """Return the letters of the dtypes in one of NumPy's kinds of scalars; None for a dtype."""
    name = kind.__name__ if isinstance(kind, type) and kind.__module__ == "numpy" else ""
    return _KINDS.get(name)


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return b, i, u, f or c; NumPy's own letter for what holds no numbers.

    NumPy calls most dtypes of ml_dtypes V, so that ``dtype.kind`` does not tell.
    """
    kind, name = str(dtype.kind), dtype.name
    if kind != "V":
        return kind
    if "float" in name:
        return "f"
    return "i" if name.startswith("int") else "u" if name.startswith("uint") else kind


def code_of(dtype: Any) -> int:
    """Return the PJRT code of a NumPy dtype; raises as `from_numpy` does."""
    return from_numpy(dtype).code


def _is_name(dtype: Any) -> bool:
    # NumPy knows the names of ml_dtypes only once that package was imported.
    return isinstance(dtype, str) and dtype in _BY_NAME


def _misspelt(dtype: Any) -> str:
    """Return the error for what is nearly a dtype's name; empty for anything else."""
    import difflib  # seldom needed, and startup counts

    name = dtype if isinstance(dtype, str) else ""
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.7)
    return f"dtype {name!r} is not known. Did you mean {near[0]!r}?" if near else ""


def _of_keys(dtype: Any) -> str:
    """Return the error for the dtype of keys; empty for anything else."""
    kind = getattr(dtype, "type", None)
    if not isinstance(kind, type) or not issubclass(kind, extended):
        return ""
    return (
        f"dtype {dtype} is one of keys, which are no numbers: functions that only move elements "
        "take them. Draw numbers with the functions of devrt.random, or take the keys' words with "
        "devrt.random.key_data."
    )


def _unknown(name: str) -> str:
    known = ", ".join(_BY_NAME)
    return (
        f"dtype {name} cannot be held by a device. "
        f"Convert the array first, for example with x.astype('float32'); known dtypes: {known}."
    )

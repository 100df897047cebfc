"""Which dtype operands of several have in common: JAX's lattice.

A Python number gives way to an array's dtype; where it does not, it is of 32 bits. The lattice is
the one of JAX's type promotion semantics; it holds the array API standard's table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.errors import InvalidTypeError
from devrt.tracing.ir import Value
from devrt.tracing.kinds import kind_of

__all__ = ["DEFAULT", "common_dtype", "dtype_of", "dtype_of_scalar", "inexact", "result_type"]

_FLOAT8 = tuple(
    e.name for e in dtypes.ELEMENT_TYPES if e.name.startswith(("float8", "float4", "float6"))
)
_NARROW = ("int1", "int2", "int4", "uint1", "uint2", "uint4")

# From each type the next ones that hold it. A star is a Python number's: it holds no values of
# its own, so that it is below every type of its kind.
_NEXT: dict[str, tuple[str, ...]] = {
    "bool": ("int*",),
    "int*": ("uint8", "int8", *_NARROW),
    **dict.fromkeys(_NARROW, ()),
    "uint8": ("int16", "uint16"),
    "uint16": ("int32", "uint32"),
    "uint32": ("int64", "uint64"),
    "uint64": ("float*",),
    "int8": ("int16",),
    "int16": ("int32",),
    "int32": ("int64",),
    "int64": ("float*",),
    "float*": (*_FLOAT8, "bfloat16", "float16", "complex*"),
    **dict.fromkeys(_FLOAT8, ()),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "complex*": ("complex64",),
    "complex64": ("complex128",),
    "complex128": (),
}

DEFAULT = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}
"""The dtypes of Python's numbers where nothing else decides."""

_STAR = {"b": "bool", "i": "int*", "u": "int*", "f": "float*", "c": "complex*"}
_OF_STAR = {"int*": "int32", "float*": "float32", "complex*": "complex64"}

Typed = tuple[Any, bool]  # a NumPy dtype, and whether it is weak


@functools.cache
def _above(name: str) -> frozenset[str]:
    return frozenset({name}).union(*(_above(upper) for upper in _NEXT[name]))


def _join(names: frozenset[str]) -> str:
    """Return the least type that holds all of some."""
    common = frozenset.intersection(*(_above(name) for name in names))
    least = [name for name in common if common == _above(name)]
    if not least:
        msg = (
            f"operands of {' and '.join(sorted(names))} have no dtype in common. Convert one of "
            "them with astype()."
        )
        raise InvalidTypeError(msg, dtypes=tuple(sorted(names)))
    return least[0]


@functools.cache
def named(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name."""
    return dtypes.to_numpy(dtypes.by_name(name).code)


@functools.lru_cache(maxsize=4096)
def common_dtype(typed: frozenset[Typed]) -> Typed:
    """Return the dtype that operands have in common, and whether it is weak.

    Raises
    ------
    InvalidTypeError
        If there is none: of float8 and float16, of two kinds of float8.
    """
    if len(typed) == 1:
        return next(iter(typed))
    strong = frozenset(dtype.name for dtype, is_weak in typed if not is_weak)
    weak = frozenset(_STAR[kind_of(dtype)] for dtype, is_weak in typed if is_weak)
    if not strong:
        joined = _join(weak)
        kind = [dtype for dtype, _ in typed if _STAR[kind_of(dtype)] == joined]
        if joined == "bool":
            return named("bool"), False
        # Of weak operands the widest of the kind that wins: an integer beyond 32 bits stays.
        return max(kind, key=lambda dtype: dtype.itemsize, default=named(_OF_STAR[joined])), True
    joined = _join(strong | weak)
    return (named(_OF_STAR[joined]), True) if joined in _OF_STAR else (named(joined), False)


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a name or a class; Python's classes of numbers are of 32 bits."""
    name = DEFAULT.get(dtype) if isinstance(dtype, type) else None
    found: np.dtype[Any] = dtypes.to_numpy(dtypes.code_of(dtype)) if name is None else named(name)
    return found


def dtype_of_scalar(value: Any) -> np.dtype[Any]:
    """Return the dtype of a Python number: of 32 bits, unless it is an integer beyond those."""
    if type(value) is int and not -(2**31) <= value < 2**31:
        return named("int64" if -(2**63) <= value < 2**63 else "uint64")
    known = DEFAULT.get(type(value))
    if known is not None:
        return named(known)
    for kind, name in DEFAULT.items():  # of a class of somebody's own
        if isinstance(value, kind):
            return named(name)
    msg = f"{value!r} of type {type(value).__name__} is no number"
    raise InvalidTypeError(msg)


def typed(x: Any) -> Typed:
    """Return the dtype of an operand or of a dtype, and whether it is weak."""
    if isinstance(x, Value):  # the common case, first
        return x.aval.dtype, x.aval.weak_type
    if isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic):
        return dtype_of_scalar(x), type(x) is not bool
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    if isinstance(x, type) and x in DEFAULT:
        return named(DEFAULT[x]), x is not bool
    if x is None or isinstance(x, list | tuple | dict | set):
        msg = (
            f"{x!r:.80} of type {type(x).__name__} is no array and no number. Make an array of it "
            "with devrt.numpy.asarray."
        )
        raise InvalidTypeError(msg, type=type(x).__name__)
    dtype = x if isinstance(x, type) else getattr(x, "dtype", x)
    return dtypes.to_numpy(dtypes.code_of(dtype)), bool(getattr(x, "weak_type", False))


def result_type(*operands: Any) -> Typed:
    """Return the dtype of a result of some operands, and whether it is weak.

    An operand is an array, a value of a trace, a number of Python's, or a dtype.
    """
    return common_dtype(frozenset(map(typed, operands)))


@functools.lru_cache(maxsize=256)
def inexact(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype of fractions for one of integers or truth values; any other as it is.

    Those of 64 bits become float64, all others float32.
    """
    if kind_of(dtype) not in "biu":
        return dtype
    return named("float64" if dtype.itemsize == 8 else "float32")


def widest(dtypes_: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the common dtype of strong dtypes."""
    common: np.dtype[Any] = common_dtype(frozenset((dtype, False) for dtype in dtypes_))[0]
    return common

"""Attributes of operations: values of Python, and their text in MLIR."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from devrt.tracing.aval import tensor_type
from devrt.tracing.kinds import kind_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Dense", "Literal", "dense_text", "text_of"]


class Literal(NamedTuple):
    """An attribute by its text, such as ``#stablehlo<comparison_direction LT>``."""

    text: str

    @property
    def word(self) -> str:
        """The last word, ``LT`` of the example: what tells one of a kind from the others."""
        return self.text.rpartition(" ")[2].rstrip(">")


class Dense(NamedTuple):
    """A tensor as an attribute."""

    array: np.ndarray[Any, Any]


def text_of(value: Any, meshes: Any = None) -> str:
    """Return the MLIR text of an attribute.

    Bools, integers (64 bits), strings, tuples of integers or of bools, `Dense`, `Literal`, and what
    has a method ``mlir()`` that returns its text, or ``mlir_in(meshes)``, which returns it in a
    program of some `devrt.tracing.sdy.Meshes`.
    """
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return f"{value} : i64"
    if kind is str:
        return quoted(value)
    if kind is tuple:
        if value and type(value[0]) is bool:
            return f"array<i1: {', '.join('true' if each else 'false' for each in value)}>"
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
    if kind is Literal:
        return str(value.text)
    if kind is Dense:
        return f"{dense_text(value.array)} : {tensor_type(value.array.shape, value.array.dtype)}"
    return str(value.mlir_in(meshes) if hasattr(value, "mlir_in") else value.mlir())


def quoted(text: str) -> str:
    """Return a string attribute."""
    escaped = "".join(
        c
        if c.isprintable() and c.isascii() and c not in '"\\'
        else "".join(f"\\{b:02X}" for b in c.encode())
        for c in text
    )
    return f'"{escaped}"'


def dense_text(array: np.ndarray[Any, Any]) -> str:
    """Return the elements of a tensor as text: one number where all are equal, else their bytes."""
    if array.size == 0:
        return "dense<>"
    first = array.flat[0]
    if not any(array.strides) or array.tobytes() == first.tobytes() * array.size:
        return f"dense<{_number(first)}>"
    if array.dtype.kind == "b" or array.dtype.itemsize * 8 != _bits(array.dtype):
        return f"dense<{_nested(array)}>"
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return f'dense<"0x{little.tobytes().hex().upper()}">'


def _bits(dtype: np.dtype[Any]) -> int:
    from devrt import dtypes

    return dtypes.from_numpy(dtype).bits


def _nested(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return _number(array[()])
    return f"[{', '.join(_nested(part) for part in array)}]"


def _number(value: Any) -> str:
    """Return one element as text that gives its very bits back."""
    kind = kind_of(value.dtype)
    if kind == "b":
        return "true" if value else "false"
    if kind in "iu":
        return str(int(value))
    if kind == "c":
        return f"({_number(value.real)}, {_number(value.imag)})"
    if not math.isfinite(float(value)) or value.dtype.name.startswith("float8"):
        return f"0x{value.tobytes()[::-1].hex().upper()}"
    # 1e-05 does not parse, 1.0e-05 does.
    text = repr(float(value))
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"

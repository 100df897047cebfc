"""Abstract values: what a trace knows of an array before it exists."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from devrt._support.shape_members import ShapeMembers

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ShapedArray", "shaped", "tensor_type"]

Shape = tuple[int, ...]

_ELEMENT = {
    "bool": "i1",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e4m3": "f8E4M3",
    "float8_e3m4": "f8E3M4",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float4_e2m1fn": "f4E2M1FN",
    "float6_e2m3fn": "f6E2M3FN",
    "float6_e3m2fn": "f6E3M2FN",
}
"""StableHLO's names of element types; integers follow a rule (``ui8``, ``i32``)."""


class ShapedArray(ShapeMembers):
    """The shape and dtype of an array, by JAX's name for them.

    Attributes
    ----------
    shape : tuple of int
        The global shape.
    dtype : numpy.dtype
        The element type.
    weak_type : bool
        Whether it gives way to the dtype of another operand, as Python's numbers do.
    type : str
        Its type in StableHLO's text, such as ``tensor<8x2xf32>``.
    """

    __slots__ = ("_hash", "dtype", "shape", "type", "weak_type")

    shape: Shape
    dtype: np.dtype[Any]
    weak_type: bool
    type: str
    _hash: int

    def __init__(self, shape: Shape, dtype: np.dtype[Any], weak_type: bool = False) -> None:
        set_ = object.__setattr__
        set_(self, "shape", shape)
        set_(self, "dtype", dtype)
        set_(self, "weak_type", weak_type)
        set_(self, "type", tensor_type(shape, dtype))
        set_(self, "_hash", hash((shape, dtype, weak_type)))

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"a ShapedArray is immutable: make another one in place of setting {name!r}"
        raise AttributeError(msg)

    def str_short(self) -> str:
        """Return the dtype and the shape as text, for example ``float32[8,2]``."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ShapedArray):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return self._hash

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.weak_type

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapedArray, self._key()

    def __str__(self) -> str:
        return self.str_short()

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()})"


@functools.lru_cache(maxsize=8192)
def shaped(shape: Shape, dtype: np.dtype[Any], weak_type: bool = False) -> ShapedArray:
    """Return the abstract value of a shape and dtype, one object for all that are equal."""
    return ShapedArray(shape, dtype, weak_type)


@functools.lru_cache(maxsize=64)
def _element(name: str) -> str:
    known = _ELEMENT.get(name)
    if known is not None:
        return known
    return name.replace("uint", "ui").replace("int", "i")


def tensor_type(shape: Shape, dtype: np.dtype[Any]) -> str:
    """Return StableHLO's type of a tensor, such as ``tensor<8x2xf32>``."""
    return f"tensor<{''.join([f'{n}x' for n in shape])}{_element(dtype.name)}>"

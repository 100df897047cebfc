"""Arrays without data: their shape and dtype, and perhaps how they are to lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt import dtypes
from devrt._support.shape_members import ShapeMembers
from devrt.errors import InvalidTypeError
from devrt.layout import AutoLayout, Format
from devrt.sharding import PartitionSpec, Sharding, as_shape, over_entered_mesh
from devrt.tracing.aval import ShapedArray

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ShapeDtypeStruct", "ShapedArray"]


class ShapeDtypeStruct(ShapeMembers):
    """An array that is only described: its shape, its dtype, and perhaps its sharding.

    Parameters
    ----------
    shape
        The global shape.
    dtype
        The element type.
    sharding
        A sharding, a `PartitionSpec` over the mesh that is entered, or a `devrt.layout.Format`;
        None if it is not given.
    weak_type
        Kept, and part of equality, as JAX has it; nothing in devrt acts on it.

    Raises
    ------
    InvalidTypeError
        If the dtype is missing or none that devices hold, or the sharding is none.
    InvalidArgumentError
        If a `PartitionSpec` is given and no mesh is entered.
    """

    __slots__ = ("_format", "dtype", "shape", "sharding", "weak_type")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sharding: Sharding | None
    weak_type: bool

    def __init__(
        self, shape: Any, dtype: Any, *, sharding: Any = None, weak_type: bool = False
    ) -> None:
        if dtype is None:
            msg = "ShapeDtypeStruct: dtype must be specified, for example dtype='float32'."
            raise InvalidTypeError(msg)
        self.shape = as_shape(shape, "ShapeDtypeStruct")
        self.dtype = dtypes.to_numpy(dtypes.code_of(dtype))
        if isinstance(sharding, PartitionSpec):
            sharding = over_entered_mesh(sharding, "ShapeDtypeStruct")
        self._format = sharding if isinstance(sharding, Format) else Format(None, sharding)
        if isinstance(self._format.layout, AutoLayout):
            msg = (
                "`Layout.AUTO` cannot be used in place of a device-local layout in a "
                "`ShapeDtypeStruct`: it describes an array. Pass a Layout, or a sharding alone."
            )
            raise InvalidTypeError(msg)
        self.sharding = self._format.sharding
        self.weak_type = bool(weak_type)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """Return the description of an array: its sharding too where it was placed on request."""
        is_placed = getattr(x, "committed", False)
        sharding = x.sharding if is_placed else None
        return cls(x.shape, x.dtype, sharding=sharding, weak_type=getattr(x, "weak_type", False))

    @property
    def format(self) -> Format:
        """The layout and the sharding; None in the place of what is not given."""
        return self._format

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """Return the description with another shape, dtype, sharding or weak_type."""
        kept = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        is_laid_out = self._format.layout is not None
        kept["sharding"] = self._format if is_laid_out else self.sharding
        return ShapeDtypeStruct(**{**kept, **changes})

    def __len__(self) -> int:
        if not self.shape:
            msg = "len() of an array without dimensions"
            raise TypeError(msg)
        return self.shape[0]

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self._format, self.weak_type

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        form: Any = self.sharding if self._format.layout is None else self._format
        return _rebuild, (self.shape, self.dtype, form, self.weak_type)

    def __repr__(self) -> str:
        where = "" if self.sharding is None else f", sharding={self.sharding}"
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{where}{weak})"


def _rebuild(shape: Any, dtype: Any, sharding: Any, weak_type: bool) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(shape, dtype, sharding=sharding, weak_type=weak_type)

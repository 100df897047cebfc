"""What an array says of itself, beyond its shape and dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from devrt._support.shape_members import ShapeMembers
from devrt.errors import UnimplementedError
from devrt.tracing.operators import functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from devrt.arrays.array import Array
    from devrt.arrays.dispatch_key import DispatchKey
    from devrt.contract import Buffer
    from devrt.layout import Format
    from devrt.sharding import Sharding
    from devrt.tracing.aval import ShapedArray

__all__ = ["Described"]

_ROWS_AT_ONCE = 16  # more of them take longer to compile than calls take
_BYTES_AT_ONCE = 2**20  # of rows that are made together


class Described(ShapeMembers):
    """Members of an array that follow from its shape, dtype, buffers and sharding."""

    __slots__ = ()

    if TYPE_CHECKING:
        _buffers: Sequence[Buffer]
        _key: DispatchKey | None

        @property
        def shape(self) -> tuple[int, ...]:
            """The array's own."""

        @property
        def dtype(self) -> np.dtype[Any]:
            """The array's own."""

        @property
        def sharding(self) -> Sharding:
            """The array's own."""

        def __getitem__(self, index: Any) -> Any: ...

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            msg = "iteration over an array without dimensions"
            raise TypeError(msg)
        count = self.shape[0]
        fitting = _BYTES_AT_ONCE * count // self.nbytes if self.nbytes else 1
        step = min(_ROWS_AT_ONCE, fitting) if len(self._buffers) == 1 else 1
        if step < 2 or count < 2:
            return (self[i] for i in range(count))
        return self._rows(count, step)

    def _rows(self, count: int, step: int) -> Iterator[Any]:
        """Yield the rows, several from one program each."""
        whole = count if count <= step else count // step * step
        for start in range(0, whole, step):
            part = self if step >= count else self[start : start + step]
            yield from functions["unstack"](part)
        yield from (self[i] for i in range(whole, count))  # not another program for the rest

    @property
    def aval(self) -> ShapedArray:
        """The shape and dtype alone, by JAX's name, and whether it is weak."""
        from devrt.arrays.dispatch_key import key_of

        return key_of(cast("Array", self)).aval

    @property
    def weak_type(self) -> bool:
        """Whether it gives way to another operand's dtype, as what Python's numbers made does."""
        return self._key is not None and self._key.aval.weak_type

    @property
    def format(self) -> Format:
        """The layout of each shard's elements, and the sharding; what `device_put` takes too."""
        from devrt.layout import Format

        return Format(self._buffers[0].layout if self._buffers else None, self.sharding)

    def to_device(self, device: Any, *, stream: Any = None) -> Array:
        """Return the array on a device or sharding: `devrt.device_put`, as a method.

        Raises
        ------
        UnimplementedError
            If a ``stream`` is given: transfers order themselves.
        """
        if stream is not None:
            msg = (
                "to_device takes no stream: transfers are ordered after the work that they need. "
                "Leave it out."
            )
            raise UnimplementedError(msg, operation="to_device")
        from devrt.arrays.placement import device_put

        moved: Array = device_put(self, device)
        return moved

"""What follows from a shape and a dtype, for all that have both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

__all__ = ["ShapeMembers"]


class ShapeMembers:
    """The members of an array, or of what stands for one, that its shape and dtype decide."""

    __slots__ = ()

    if TYPE_CHECKING:
        shape: Any
        dtype: Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, of all devices."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element in host memory."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, each counted once."""
        return self.size * self.itemsize

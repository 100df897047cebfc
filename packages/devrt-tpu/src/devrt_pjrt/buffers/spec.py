"""What is known of an array without looking at its data: dtype and shape, made once for each."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from devrt import dtypes
from devrt.dtypes import ELEMENT_TYPES
from devrt.errors import InvalidTypeError
from devrt_pjrt.library.since import MAJOR, TYPES

if TYPE_CHECKING:
    from devrt_pjrt.library.api import Api

__all__ = ["Spec", "check_type", "spec_of"]

_BITS = {element.code: element.bits for element in ELEMENT_TYPES}
_TOKEN = 23


class Spec:
    """The dtype and shape of a buffer, an argument or a result.

    ``code`` is a ``PJRT_Buffer_Type`` value; ``nbytes`` are those in host memory, ``bits`` those of
    an element on a device, where one that takes less than a byte is packed.
    """

    __slots__ = ("bits", "code", "dtype", "is_packed", "nbytes", "shape", "size")

    def __init__(self, code: int, shape: tuple[int, ...]) -> None:
        self.code = code
        self.shape = shape
        self.dtype = dtypes.to_numpy(code)
        self.size = math.prod(shape)
        self.nbytes = self.size * self.dtype.itemsize
        self.bits = _BITS[code]
        self.is_packed = self.bits < 8

    @property
    def device_bytes(self) -> int:
        """Bytes of the elements where they lie dense, those below a byte side by side."""
        return -(-self.size * self.bits // 8) if self.is_packed else self.nbytes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self.code == other.code and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.code, self.shape))

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

    __repr__ = __str__


@functools.lru_cache(maxsize=8192)
def spec_of(code: int, shape: tuple[int, ...]) -> Spec:
    """Return the spec of an element type and a shape, most often the same object again."""
    return Spec(code, shape)


def check_type(api: Api, code: int) -> None:
    """Refuse an element type that is younger than the plugin: it would end the process."""
    since = TYPES.get(code, 0)
    if api.minor < since or code == _TOKEN or code not in _BITS:
        name = dtypes.to_numpy(code).name if code in _BITS else f"type {code}"
        msg = (
            f"the PJRT plugin {api.name} is of version {api.major}.{api.minor} and does not know "
            f"{name}, which came with {MAJOR}.{since}. Convert the array, or upgrade the plugin."
        )
        raise InvalidTypeError(msg, dtype=name, plugin=api.name)


def type_code(api: Api, dtype: Any) -> int:
    """Return the element type of a NumPy dtype, if the plugin knows it."""
    code = dtypes.code_of(dtype)
    check_type(api, code)
    return code

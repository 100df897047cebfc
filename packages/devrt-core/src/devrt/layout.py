"""The order in which an array's elements lie in memory, in XLA's terms and text form.

A layout names the dimensions from the one that varies fastest to the one that varies slowest, may
cut the array into tiles, and may store an element in more bits than its type needs. The text form
is XLA's: ``{1,0:T(8,128)(2,1)E(4)}``.
"""

from __future__ import annotations

import itertools
import operator
import re
import reprlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from devrt.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Layout", "PjRtLayout", "row_major", "storage_order"]

_TEXT = re.compile(
    r"\{(?P<order>[\d,\s]*)(?::(?P<tiles>(?:T(?:\([\d,\s]+\))+)?)(?P<bits>E\(\d+\))?)?\}"
)
_TILE = re.compile(r"\(([\d,\s]+)\)")


class Layout:
    """How the elements of an array lie in memory.

    Parameters
    ----------
    minor_to_major
        Each dimension once, from the one that varies fastest to the slowest. Row-major order of
        a matrix is ``(1, 0)``.
    tiling
        Extents of the tiles, outermost tile first; empty for none.
    element_size_in_bits
        Bits that one element takes; 0 for what its type takes by itself.

    Raises
    ------
    InvalidArgumentError
        If ``minor_to_major`` is no permutation, or an extent or size is out of range.
    InvalidTypeError
        If a number is no int.
    """

    __slots__ = ("_bits", "_order", "_tiling")

    def __init__(
        self,
        minor_to_major: Iterable[int],
        tiling: Iterable[Iterable[int]] = (),
        element_size_in_bits: int = 0,
    ) -> None:
        self._order = _ints("minor_to_major", minor_to_major)
        if sorted(self._order) != list(range(len(self._order))):
            _refuse(
                f"minor_to_major must name each of the {len(self._order)} dimensions once, "
                f"from 0, and is {self._order}"
            )
        self._tiling = _tiles(tiling)
        if any(not tile or min(tile) < 1 for tile in self._tiling):
            _refuse(f"a tile needs at least one extent, each at least 1; tiling is {self._tiling}")
        (self._bits,) = _ints("element_size_in_bits", (element_size_in_bits,))
        if self._bits < 0:
            _refuse(f"element_size_in_bits must not be negative, and is {self._bits}")

    @classmethod
    def from_string(cls, text: str) -> Self:
        """Read XLA's text form, as `to_string` writes it.

        Raises
        ------
        InvalidArgumentError
            If the text is no layout, or says more than dimensions, tiles and element size.
        """
        match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None or not (match["tiles"] or match["bits"] or ":" not in text):
            _refuse(
                f"{reprlib.repr(text)} is no layout that devrt reads; the form is "
                "'{1,0:T(8,128)E(4)}': dimensions from minor to major, tiles, element size in bits"
            )
        tiles = [_split(tile) for tile in _TILE.findall(match["tiles"] or "")]
        return cls(_split(match["order"]), tiles, int(match["bits"][2:-1]) if match["bits"] else 0)

    def minor_to_major(self) -> tuple[int, ...]:
        """Return the dimensions, the fastest varying first."""
        return self._order

    def tiling(self) -> list[tuple[int, ...]]:
        """Return the extents of each level of tiles; empty where there are none."""
        return list(self._tiling)

    def element_size_in_bits(self) -> int:
        """Return the bits that an element takes; 0 for what its type takes by itself."""
        return self._bits

    def to_string(self) -> str:
        """Return the layout as XLA prints it, for example ``{1,0:T(8,128)}``."""
        order = ",".join(map(str, self._order))
        tiles = "".join(f"({','.join(map(str, tile))})" for tile in self._tiling)
        extra = (f"T{tiles}" if tiles else "") + (f"E({self._bits})" if self._bits else "")
        return f"{{{order}:{extra}}}" if extra else f"{{{order}}}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._key()

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"Layout.from_string({self.to_string()!r})"

    def _key(self) -> tuple[Any, ...]:
        return self._order, self._tiling, self._bits


class PjRtLayout:
    """A layout as PJRT clients hand it out: opaque but for its text and its XLA layout.

    Parameters
    ----------
    layout
        The layout, or its text form.
    """

    __slots__ = ("_layout",)

    def __init__(self, layout: Layout | str) -> None:
        self._layout = _as_layout(layout)

    def _xla_layout(self) -> Layout:
        return self._layout

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PjRtLayout):
            return NotImplemented
        return self._layout == other._layout

    def __hash__(self) -> int:
        return hash((PjRtLayout, self._layout))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._layout,)

    def __str__(self) -> str:
        return self._layout.to_string()

    def __repr__(self) -> str:
        return f"PjRtLayout({self._layout.to_string()!r})"


def row_major(ndim: int) -> Layout:
    """Return the layout of a C-contiguous array of ``ndim`` dimensions."""
    return Layout(range(ndim - 1, -1, -1))


def storage_order(layout: object, ndim: int, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the dimensions of a layout, minor to major, for memory that a host can address.

    Parameters
    ----------
    layout
        A `Layout`, a `PjRtLayout`, or the text of one.
    ndim
        Dimensions of the array that shall have it.
    dtype
        Its dtype.

    Raises
    ------
    InvalidArgumentError
        If the layout is of another number of dimensions, has tiles, or packs elements: host memory
        has each element at an address of its own.
    """
    layout = layout._xla_layout() if isinstance(layout, PjRtLayout) else _as_layout(layout)
    if len(layout.minor_to_major()) != ndim:
        _refuse(f"layout {layout} is for another number of dimensions than the array's {ndim}")
    bits = layout.element_size_in_bits()
    if layout.tiling() or bits not in (0, 8 * dtype.itemsize):
        _refuse(
            f"layout {layout} asks for tiles or packed elements, which host memory does not have; "
            f"elements of {dtype} take {8 * dtype.itemsize} bits here"
        )
    return layout.minor_to_major()


def _as_layout(value: object) -> Layout:
    if isinstance(value, str):
        return Layout.from_string(value)
    if not isinstance(value, Layout):
        _refuse_type(f"a layout must be a Layout or its text, not {reprlib.repr(value)}")
    return value


def _split(numbers: str) -> list[int]:
    return [int(number) for number in numbers.split(",")] if numbers.strip() else []


def _tiles(tiling: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    try:
        tiles = tuple(tiling)
    except TypeError:
        _refuse_type(f"tiling must be a sequence of tiles, not {reprlib.repr(tiling)}")
    return tuple(_ints("a tile", tile) for tile in tiles)


def _ints(name: str, values: Iterable[int]) -> tuple[int, ...]:
    try:
        # One more than an array can have is enough to refuse a source that never ends.
        return tuple(operator.index(value) for value in itertools.islice(values, 1 << 16))
    except TypeError:
        _refuse_type(f"{name} must consist of ints, and is {reprlib.repr(values)}")


def _refuse(what: str) -> NoReturn:
    raise InvalidArgumentError(f"{what}.", operation="Layout")


def _refuse_type(what: str) -> NoReturn:
    raise InvalidTypeError(f"{what}.", operation="Layout")

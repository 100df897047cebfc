"""The order in which an array's elements lie in memory, in XLA's terms and text form.

A layout names the dimensions from the one that varies fastest to the one that varies slowest, may
cut the array into tiles, and may store an element in more bits than its type needs. The text form
is XLA's: ``{1,0:T(8,128)(2,1)E(4)}``. A `Format` is a layout and a sharding: what an array has, and
where `devrt.device_put` can put one.
"""

from __future__ import annotations

import enum
import itertools
import operator
import re
import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from devrt._support.words import kind_of
from devrt.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["AutoLayout", "Format", "Layout", "PjRtLayout", "row_major", "storage_order"]

_TEXT = re.compile(
    r"\{(?P<order>[\d,\s]*)(?::(?P<tiles>(?:T(?:\([\d,\s]+\))+)?)(?P<bits>E\(\d+\))?)?\}"
)
_TILE = re.compile(r"\(([\d,\s]+)\)")


class AutoLayout(enum.Enum):
    """The layout that a compiler chooses; `Layout.AUTO` is its one member."""

    AUTO = "AUTO"

    def __repr__(self) -> str:
        return "AUTO"


class Layout:
    """How the elements of an array lie in memory.

    Parameters
    ----------
    minor_to_major
        Each dimension once, from the one that varies fastest to the slowest. Row-major order of
        a matrix is ``(1, 0)``.
    tiling
        Extents of the tiles, outermost tile first; empty or None for none.
    element_size_in_bits
        Bits that one element takes; 0 for what its type takes by itself.
    major_to_minor
        The dimensions the other way round, as JAX names them; instead of ``minor_to_major``.
        Row-major order of a matrix is ``(0, 1)``.

    Attributes
    ----------
    AUTO
        In a `Format` of a program: the layout that the compiler chooses.

    Raises
    ------
    InvalidArgumentError
        If an order is no permutation, or an extent or size is out of range.
    InvalidTypeError
        If a number is no int, or not one order of the two is given.
    """

    __slots__ = ("_bits", "_order", "_tiling")

    AUTO: ClassVar[AutoLayout] = AutoLayout.AUTO

    def __init__(
        self,
        minor_to_major: Iterable[int] | None = None,
        tiling: Iterable[Iterable[int]] | None = (),
        element_size_in_bits: int = 0,
        *,
        major_to_minor: Iterable[int] | None = None,
    ) -> None:
        self._order = _order(minor_to_major, major_to_minor)
        self._tiling = _tiles(() if tiling is None else tiling)
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

    @property
    def major_to_minor(self) -> tuple[int, ...]:
        """The dimensions, the slowest varying first."""
        return self._order[::-1]

    def tiling(self) -> list[tuple[int, ...]]:
        """Return the extents of each level of tiles; empty where there are none."""
        return list(self._tiling)

    def element_size_in_bits(self) -> int:
        """Return the bits that an element takes; 0 for what its type takes by itself."""
        return self._bits

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        """Raise `InvalidArgumentError` if arrays of a shape have another number of dimensions."""
        if len(self._order) != len(shape):
            _refuse(
                "Length of major_to_minor and the rank of the value should match: the layout "
                f"{self} has {len(self._order)} dimensions, and the shape {tuple(shape)} "
                f"{len(shape)}"
            )

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


class Format:
    """A layout and a sharding: how an array lies in memory, and on which devices.

    Parameters
    ----------
    layout
        The order of each shard's elements; `Layout.AUTO` for what a compiler chooses, None for
        the devices' default.
    sharding
        The sharding; it may be missing only where ``layout`` is not a `Layout`.

    Raises
    ------
    InvalidArgumentError
        If there is a layout and no sharding.
    InvalidTypeError
        If they are of other types.
    """

    __slots__ = ("_layout", "_sharding")

    def __init__(self, layout: Layout | AutoLayout | None = None, sharding: Any = None) -> None:
        given: Any = layout  # callers are not bound by the annotation
        if not isinstance(given, Layout | AutoLayout | None):
            _refuse_type(
                "Invalid value received for the layout argument of a Format: it is a Layout, "
                f"Layout.AUTO or None, not {reprlib.repr(given)} of type {type(given).__name__}"
            )
        if not (sharding is None or _is_sharding(sharding)):
            _refuse_type(
                "Invalid value received for the sharding argument of a Format: it is a sharding "
                f"of devrt or None, not {reprlib.repr(sharding)} of type {kind_of(sharding)}"
            )
        if isinstance(layout, Layout) and sharding is None:
            _refuse(
                f"Sharding has to be concrete when layout is one, such as {layout}. Pass a "
                "NamedSharding or SingleDeviceSharding with it"
            )
        self._layout = layout
        self._sharding = sharding

    @property
    def layout(self) -> Layout | AutoLayout | None:
        """The layout."""
        return self._layout

    @property
    def sharding(self) -> Any:
        """The sharding, or None."""
        return self._sharding

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Format):
            return NotImplemented
        return self._layout == other._layout and self._sharding == other._sharding

    def __hash__(self) -> int:
        return hash((self._layout, self._sharding))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._layout, self._sharding)

    def __repr__(self) -> str:
        return f"Format(layout={self._layout}, sharding={self._sharding})"


def _is_sharding(value: object) -> bool:
    """Return whether a value is one of devrt's shardings, whose package needs this module's."""
    names = {(kind.__module__, kind.__name__) for kind in type(value).__mro__}
    return ("devrt.sharding.sharding", "Sharding") in names


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


def _order(
    minor_to_major: Iterable[int] | None, major_to_minor: Iterable[int] | None
) -> tuple[int, ...]:
    if (minor_to_major is None) == (major_to_minor is None):
        _refuse_type("a layout takes its dimensions once, as minor_to_major or as major_to_minor")
    name, given = "minor_to_major", minor_to_major
    if given is None:
        name, given = "major_to_minor", major_to_minor
    assert given is not None
    order = _ints(name, given)
    if sorted(order) != list(range(len(order))):
        _refuse(
            f"{name} must name each of the {len(order)} dimensions once, from 0, and is {order}"
        )
    return order if minor_to_major is not None else order[::-1]


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

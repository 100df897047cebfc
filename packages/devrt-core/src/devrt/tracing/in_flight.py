"""Collectives of a program of one device that are under way, and what waits for their results.

A collective begins where the function calls it, and ends where a result is needed to go on: by
another collective, an effect or the end. What else takes a result is put off until then, so that
those which do not need each other are under way together, in one order on all devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from devrt.tracing.aval import ShapedArray
    from devrt.tracing.ir import Op, Value

__all__ = ["Begun", "InFlight"]

_LANES = 4
_MOST = 16
_MOST_BYTES = 256 << 20  # the host holds what is under way


class Begun(NamedTuple):
    """A collective that has begun.

    Attributes
    ----------
    op : Op
        The call that began it, which gives the order.
    result : Value
        What it is to give.
    plan : str
        What it exchanges, after the number of its lane.
    """

    op: Op
    result: Value
    plan: str


class InFlight:
    """The collectives under way in one graph."""

    def __init__(self) -> None:
        self._begun: list[Begun] = []
        self._bytes = 0
        self._later: list[tuple[Any, Callable[[], None]]] = []
        self._waiting: set[Value] = set()

    @property
    def lane(self) -> int:
        """Which connection the next one uses: those of different ones overlap."""
        return len(self._begun) % _LANES

    def is_waiting(self, values: Iterable[Value]) -> bool:
        """Return whether one of some values is not there yet."""
        return not self._waiting.isdisjoint(values)

    def is_full(self, aval: ShapedArray) -> bool:
        """Return whether a collective with such a result has to wait for the others."""
        size = self._bytes + aval.size * aval.dtype.itemsize
        return bool(self._begun) and (len(self._begun) == _MOST or size > _MOST_BYTES)

    def begin(self, begun: Begun) -> None:
        """Add one."""
        self._begun.append(begun)
        self._waiting.add(begun.result)
        aval = begun.result.aval
        self._bytes += aval.size * aval.dtype.itemsize

    def later(self, results: Sequence[Value], frame: Any, make: Callable[[], None]) -> None:
        """Put off what makes some values; ``frame`` is the user's line of it."""
        self._waiting.update(results)
        self._later.append((frame, make))

    def take(self) -> tuple[list[Begun], list[tuple[Any, Callable[[], None]]]]:
        """Return what is under way and what was put off, in order; nothing is any more."""
        taken = self._begun, self._later
        self._begun, self._later, self._bytes = [], [], 0
        self._waiting.clear()
        return taken

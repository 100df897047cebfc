"""Values of a trace of which somebody wants to know how the compiler divides them.

Nothing of a compiled program tells it: the compiler divides values halfway through. So each graph
holds those of its values that are inspected against one of its results, in a barrier with a mark,
which the compiler shows when it has divided them (`devrt.compiling.divided`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from devrt.tracing.ir import Op, Value
from devrt.tracing.trace import emit

if TYPE_CHECKING:
    from devrt.tracing.aval import ShapedArray
    from devrt.tracing.frames import Frame

__all__ = ["INSPECTION", "MARK", "Inspected", "inspect", "printed_barrier"]

INSPECTION = "devrt.inspection"
"""The operation. It takes the value, gives nothing, and is kept for its effect."""

MARK = "devrt_inspected"
"""The attribute that marks a barrier: the numbers, in the program, of its first values."""


_orders = itertools.count()


class Inspected:
    """An inspected value of a program.

    Attributes
    ----------
    aval : ShapedArray
        The value's shape and dtype.
    callback : callable
        What is called with its sharding.
    frame : Frame
        The line of the user that inspects it.
    order : int
        Grows from one inspection to the next, in the order of the trace.
    chosen : object
        How the compiler divides it; None as long as nobody knows.
    """

    __slots__ = ("aval", "callback", "chosen", "frame", "order")

    def __init__(self, op: Op) -> None:
        self.aval: ShapedArray = op.operands[0].aval
        self.callback: Callable[[Any], Any] = op.attributes["callback"]
        self.frame: Frame = op.frame
        self.order: int = op.attributes["order"]
        self.chosen: Any = None


def inspect(value: Value, callback: Callable[[Any], Any]) -> None:
    """Have a function called with a value's sharding when the program is compiled."""
    attributes = {"callback": callback, "order": next(_orders), "has_side_effect": True}
    emit(INSPECTION, (value,), (), attributes)


def printed_barrier(
    numbers: range, operands: Sequence[str], avals: Sequence[ShapedArray], results: Sequence[str]
) -> str:
    """Return the line of a barrier around values, the first of which have numbers."""
    mark = " ".join(map(str, numbers))
    types = ", ".join(aval.type for aval in avals)
    return (
        f'{", ".join(results)} = "stablehlo.optimization_barrier"({", ".join(operands)}) '
        f'{{mhlo.frontend_attributes = {{{MARK} = "{mark}"}}}} : ({types}) -> ({types})'
    )

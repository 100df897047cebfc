"""The walk over recorded operations, from the last to the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from devrt.errors import UnimplementedError
from devrt.tracing.elementwise import nary
from devrt.tracing.gradients.replay import replay
from devrt.tracing.ir import Op, Value

__all__ = ["Rule", "Walk", "is_inexact"]

Cotangent = Any  # a Value, or None where it is zero
Rule = Callable[[Op, Sequence[Cotangent], "Walk"], Sequence[Cotangent]]
Narrow = Callable[[Any, frozenset[str]], Any]


def is_inexact(value: Value) -> bool:
    """Return whether a value is of fractions or complex: whether it has cotangents."""
    dtype = value.aval.dtype
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


class Walk:
    """One pass over operations, with the values that depend on what is differentiated by.

    Attributes
    ----------
    rules : mapping of str to Rule
        By the name of the operation. A rule takes the operation, the cotangents of its results, of
        which some are None, and the walk; it returns those of `Op.inputs`, in their order.
    narrow : callable
        ``narrow(cotangent, axes)`` sums a cotangent over manual mesh axes: of a value that is the
        same along them, each device has its part.
    active : set of Value
        The values that depend on what is differentiated by.
    """

    def __init__(self, rules: Mapping[str, Rule], narrow: Narrow) -> None:
        self.rules = rules
        self.narrow = narrow
        self.active: set[Value] = set()
        self._found: dict[Value, Any] = {}

    def nested(self) -> Walk:
        """Return a walk for a graph of its own, with the same rules."""
        return Walk(self.rules, self.narrow)

    def pull(
        self,
        ops: Iterable[Op],
        outputs: Sequence[Any],
        cotangents: Sequence[Cotangent],
        inputs: Sequence[Any],
    ) -> list[Cotangent]:
        """Return the cotangents of inputs; None where outputs do not depend on one.

        Parameters
        ----------
        ops
            Operations that lead from the inputs to the outputs, in order.
        outputs, cotangents
            Results, and the cotangent of each.
        inputs
            Values that none of the operations makes.
        """
        self.active.update(value for value in inputs if is_inexact(value))
        left = list(ops)
        self._activate(left)
        for value, cotangent in zip(outputs, cotangents, strict=True):
            self._add(value, cotangent)
        while left:
            op = left.pop()
            given = [self._taken(value) for value in op.results]
            if any(each is not None for each in given) and self._depends(op):
                left.extend(self._step(op, given))
        return [self._taken(value) for value in inputs]

    def _activate(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if self._depends(op):
                self.active.update(value for value in op.results if is_inexact(value))

    def _depends(self, op: Op) -> bool:
        return any(value in self.active for value in op.inputs())

    def _add(self, value: Any, cotangent: Cotangent) -> None:
        if cotangent is None or value not in self.active:
            return
        before = self._found.get(value)
        self._found[value] = cotangent if before is None else nary("add", before, cotangent)

    def _taken(self, value: Any) -> Cotangent:
        """Return the whole cotangent of a value: every operation that uses it is behind."""
        cotangent = self._found.pop(value, None)
        if cotangent is None:
            return None
        axes = cotangent.varying - value.varying
        return self.narrow(cotangent, axes) if axes else cotangent

    def _step(self, op: Op, given: list[Cotangent]) -> list[Op]:
        """Take one operation; return those to take in its place, if it is made of others."""
        rule = self.rules.get(op.name)
        if rule is not None:
            for value, cotangent in zip(op.inputs(), rule(op, given, self), strict=True):
                self._add(value, cotangent)
            return []
        if not op.name.startswith("devrt."):
            raise self.refuse(op)
        (graph,) = op.regions
        results, ops = replay(graph, op.operands)
        self._activate(ops)
        for value, cotangent in zip(results, given, strict=True):
            self._add(value, cotangent)
        return ops

    def refuse(self, op: Op, why: str = "") -> UnimplementedError:
        """Return the error for an operation without a gradient."""
        where = f" at {op.frame}" if op.frame.line else ""
        reason = why or "devrt has no rule for it"
        msg = (
            f"there is no gradient of {op.name}, which was traced{where}: {reason}. Write it with "
            "other operations, or let the gradient stop there with devrt.lax.stop_gradient."
        )
        return UnimplementedError(msg, operation=op.name)

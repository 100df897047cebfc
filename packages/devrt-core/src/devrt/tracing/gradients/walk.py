"""The walk over recorded operations, from the last to the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from devrt.errors import UnimplementedError
from devrt.tracing.collectives import all_reduce, pvary
from devrt.tracing.elementwise import nary
from devrt.tracing.gradients.replay import alias, replay
from devrt.tracing.ir import Op, Value
from devrt.tracing.kinds import kind_of
from devrt.tracing.trace import current_graph

__all__ = ["Rule", "Walk", "has_fractions", "is_inexact"]

Cotangent = Any  # a Value, or None where it is zero
Rule = Callable[[Op, Sequence[Cotangent], "Walk"], Sequence[Cotangent]]


def is_inexact(value: Value) -> bool:
    """Return whether a value is of fractions or complex: whether it has cotangents."""
    return has_fractions(value.aval.dtype)


def has_fractions(dtype: Any) -> bool:
    """Return whether a dtype is of fractions or complex."""
    return kind_of(dtype) in "fc"


class Walk:
    """One pass over operations, with the values that depend on what is differentiated by.

    Attributes
    ----------
    rules : mapping of str to Rule
        By the name of the operation. A rule takes the operation, the cotangents of its results, of
        which some are None, and the walk; it returns those of `Op.inputs`, in their order.
    active : set of Value
        The values that depend on what is differentiated by.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self.active: set[Value] = set()
        # By the mesh axes along which parts vary: what all devices agree on is not to be summed.
        self._found: dict[Value, dict[frozenset[str], Any]] = {}

    def nested(self) -> Walk:
        """Return a walk for a graph of its own, with the same rules."""
        return Walk(self.rules)

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
            self._add(value, _widened(cotangent, value))
        while left:
            op = left.pop()
            given = [self._taken(value) for value in op.results]
            if any(each is not None for each in given) and self._depends(op):
                left.extend(self._step(op, given))
        return [self._taken(value) for value in inputs]

    def through(
        self, function: Callable[..., Any], operands: Sequence[Any], cotangents: Sequence[Any]
    ) -> list[Cotangent]:
        """Return the cotangents of operands of a function, by tracing and walking it.

        For an operation whose gradient is that of other operations that compute the same.
        """
        inputs = [alias(value) for value in operands]
        graph = current_graph()
        start = len(graph.ops)
        results = function(*inputs)
        ops = graph.ops[start:]
        return self.nested().pull(ops, results, cotangents, inputs)

    def _activate(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if self._depends(op):
                self.active.update(value for value in op.results if is_inexact(value))

    def _depends(self, op: Op) -> bool:
        return any(value in self.active for value in op.inputs())

    def _add(self, value: Any, cotangent: Cotangent) -> None:
        if cotangent is None or value not in self.active:
            return
        parts = self._found.setdefault(value, {})
        axes = cotangent.varying - value.varying
        parts[axes] = nary("add", parts[axes], cotangent) if axes in parts else cotangent

    def _taken(self, value: Any) -> Cotangent:
        """Return the whole cotangent of a value: every operation that uses it is behind.

        Of a value that is the same along mesh axes, each device has found a part.
        """
        total = None
        for axes, part in self._found.pop(value, {}).items():
            whole = all_reduce("add", part, sorted(axes)) if axes else part
            total = whole if total is None else nary("add", total, whole)
        return total

    def _step(self, op: Op, given: list[Cotangent]) -> list[Op]:
        """Take one operation; return those to take in its place, if it is made of others."""
        rule = self.rules.get(op.name)
        if rule is not None:
            found = rule(op, given, self)  # which may change the operation's inputs
            for value, cotangent in zip(op.inputs(), found, strict=True):
                self._add(value, cotangent)
            return []
        if not (op.regions and op.name.startswith("devrt.")):
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


def _widened(cotangent: Cotangent, value: Any) -> Cotangent:
    """Return a cotangent that counts as varying along mesh axes wherever its value does."""
    axes = frozenset() if cotangent is None else value.varying - cotangent.varying
    return pvary(cotangent, sorted(axes)) if axes else cotangent

"""Calls of the host in the program of one device, and what of a graph concerns their order."""

from __future__ import annotations

from typing import Any

from devrt.tracing.attributes import Literal
from devrt.tracing.ir import Graph, Op
from devrt.tracing.local_rules import plan_of

__all__ = [
    "COLLECTIVE_BEGIN",
    "COLLECTIVE_END",
    "COLLECTIVE_TARGET",
    "call",
    "exchange",
    "has_collective",
    "may_wait",
]

COLLECTIVE_TARGET = "devrt_collective"
"""What the custom call of a collective names; what the names of its two halves begin with."""

COLLECTIVE_BEGIN = f"{COLLECTIVE_TARGET}_begin"
COLLECTIVE_END = f"{COLLECTIVE_TARGET}_end"


def call(target: str, config: str, *, has_effect: bool) -> dict[str, Any]:
    """Return the attributes of a call of the host."""
    return {
        "api_version": Literal("4 : i32"),
        "backend_config": Literal(config),
        "call_target_name": target,
        **({"has_side_effect": True} if has_effect else {}),
    }


def exchange(target: str, plan: str) -> dict[str, Any]:
    """Return the attributes of the call of a collective, or of a half of one."""
    return call(target, f'{{plan = "{plan}"}}', has_effect=True)


def has_collective(graph: Graph) -> bool:
    """Return whether a graph exchanges data."""
    return any(
        plan_of(op, None) is not None or any(map(has_collective, op.regions)) for op in graph.ops
    )


def may_wait(op: Op) -> bool:
    """Return whether an operation that the program of one device keeps may come after others."""
    return not (
        plan_of(op, None) is not None or op.has_effect() or any(map(has_collective, op.regions))
    )

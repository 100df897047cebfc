"""All rules, by the names of operations."""

from __future__ import annotations

from typing import Any

from devrt.tracing.collectives import all_reduce
from devrt.tracing.gradients import contractions, elementwise, reductions, shapes
from devrt.tracing.gradients.walk import Rule

__all__ = ["RULES", "narrow"]

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **shapes.RULES,
    **reductions.RULES,
    **contractions.RULES,
}


def narrow(cotangent: Any, axes: frozenset[str]) -> Any:
    """Return a cotangent summed over manual mesh axes."""
    return all_reduce("add", cotangent, sorted(axes))

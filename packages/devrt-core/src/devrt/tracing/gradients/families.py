"""All rules, by the names of operations."""

from __future__ import annotations

from devrt.tracing.gradients import (
    contractions,
    control,
    convolutions,
    cumulative,
    devices,
    elementwise,
    gathering,
    matrices,
    reductions,
    shapes,
    sorting,
    transforms,
    windows,
)
from devrt.tracing.gradients.walk import Rule

__all__ = ["RULES"]

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **shapes.RULES,
    **reductions.RULES,
    **contractions.RULES,
    **convolutions.RULES,
    **gathering.RULES,
    **sorting.RULES,
    **transforms.RULES,
    **windows.RULES,
    **cumulative.RULES,
    **matrices.RULES,
    **control.RULES,
    **devices.RULES,
}

"""What a checkpointed function keeps for its gradient, beside its arguments.

A policy takes the name of an operation of StableHLO (``"dot_general"``), its operands' types, and
its attributes by name, and returns whether the results are kept.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
]


def everything_saveable(name: str, *avals: Any, **attributes: Any) -> bool:
    """Keep all results: the gradient computes nothing once more."""
    return True


def nothing_saveable(name: str, *avals: Any, **attributes: Any) -> bool:
    """Keep no result, as without a policy."""
    return False


def dots_saveable(name: str, *avals: Any, **attributes: Any) -> bool:
    """Keep what products of matrices and convolutions give."""
    return name in {"dot_general", "convolution"}


def dots_with_no_batch_dims_saveable(name: str, *avals: Any, **attributes: Any) -> bool:
    """Keep what products of matrices give, those over batches apart: as of weights with inputs."""
    return name == "dot_general" and not attributes["dot_dimension_numbers"].lhs_batching


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

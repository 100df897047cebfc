"""Drawings of arrays' shardings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.errors import InvalidTypeError
from devrt.sharding import Sharding, visualize_sharding

__all__ = ["visualize_array_sharding"]


def visualize_array_sharding(
    arr: Any,
    *,
    use_color: bool = True,
    max_width: int = 80,
    dims: Sequence[int] | None = None,
) -> None:
    """Draw which device holds which part of an array.

    Parameters
    ----------
    arr
        An array, or anything with a ``shape`` and a ``sharding``.
    use_color
        Whether to colour the blocks where the output is a terminal.
    max_width
        Width of a drawing in text, in characters.
    dims
        The dimensions to draw, down and across; needed for arrays of more than two.

    Raises
    ------
    InvalidTypeError
        If ``arr`` has no sharding.
    InvalidArgumentError
        If ``dims`` is wrong or missing.

    Notes
    -----
    SVG in a notebook, else text on the standard output, in colour on a terminal.
    """
    sharding = getattr(arr, "sharding", None)
    if not isinstance(sharding, Sharding):
        msg = (
            f"visualize_array_sharding takes an array on devices, not a {type(arr).__name__}. "
            "Put it there with devrt.device_put first."
        )
        raise InvalidTypeError(msg)
    visualize_sharding(arr.shape, sharding, use_color=use_color, max_width=max_width, dims=dims)

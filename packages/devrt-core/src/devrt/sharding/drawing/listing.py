"""Drawings of many arrays: where each shard of a program's arguments and results lies."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from devrt.sharding.drawing.svg import sharding_svg
from devrt.sharding.drawing.text import render_sharding
from devrt.sharding.grid import label_of

if TYPE_CHECKING:
    from devrt.sharding.sharding import Sharding

__all__ = ["Drawn", "shards_html", "shards_text"]


class Drawn(NamedTuple):
    """An array to draw: its name, its dtype and shape, and how it lies."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sharding: Sharding


def shards_text(arrays: Iterable[Drawn], *, max_width: int = 80) -> str:
    """Return a heading and a drawing in plain text for each array; of a whole one the heading."""
    parts = []
    for array in arrays:
        parts.append(_heading(array))
        if not array.sharding.is_fully_replicated:
            sharding, dims = array.sharding, _dims(array)
            drawn = render_sharding(array.shape, sharding, max_width=max_width, dims=dims, lines=0)
            parts.append(drawn)
    return "\n".join(parts)


def shards_html(arrays: Iterable[Drawn]) -> str:
    """Return the same as a part of a page, drawn as SVG."""
    parts = []
    for array in arrays:
        parts.append(f"<pre>{html.escape(_heading(array))}</pre>")
        if not array.sharding.is_fully_replicated:
            parts.append(sharding_svg(array.shape, array.sharding, dims=_dims(array)))
    return f"<div>{''.join(parts)}</div>"


def _heading(array: Drawn) -> str:
    sizes = ",".join(map(str, array.shape))
    text = f"{array.name}: {array.dtype}[{sizes}]"
    if array.sharding.is_fully_replicated:
        return f"{text} on {','.join(label_of(array.sharding._device_assignment))}"
    part = array.sharding.shard_shape(array.shape)
    text += f" in parts of [{','.join(map(str, part))}]"
    dims = _dims(array)
    return text if dims is None else f"{text}, dimensions {' and '.join(map(str, dims))}"


def _dims(array: Drawn) -> Sequence[int] | None:
    """Return which two dimensions are drawn of more: those that are divided, else the first."""
    ndim = len(array.shape)
    if ndim <= 2:
        return None
    part = array.sharding.shard_shape(array.shape)
    divided = [i for i in range(ndim) if part[i] != array.shape[i]]
    rest = [i for i in range(ndim) if i not in divided]
    return sorted([*divided, *rest][:2])

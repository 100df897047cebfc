"""Drawings of shardings as SVG."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from devrt.sharding.grid import Grid, grid_of, wrap

if TYPE_CHECKING:
    from devrt.sharding.sharding import Sharding

__all__ = ["sharding_svg"]

_LONGER_SIDE = 480
_MARGIN = 8
_LINE = 14
_LETTER = 8


def sharding_svg(
    shape: Sequence[int], sharding: Sharding, *, dims: Sequence[int] | None = None
) -> str:
    """Draw how an array is sharded, as an SVG document; arguments as for `visualize_sharding`.

    Each rectangle is a block; it shows the devices that hold it, and its tooltip says which
    elements it has.
    """
    grid = grid_of(shape, sharding, dims)
    width, height = _block_size(grid)
    full_width = len(grid.columns) * width + 2 * _MARGIN
    full_height = len(grid.rows) * height + 2 * _MARGIN
    title = html.escape(f"shape {tuple(shape)}, {sharding!r}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{full_width}" height="{full_height}" '
            f'viewBox="0 0 {full_width} {full_height}" font-family="monospace" font-size="12">',
            f"<title>{title}</title>",
            *(line for cell in sorted(grid.labels) for line in _block(grid, cell, width, height)),
            "</svg>",
        ]
    )


def _block_size(grid: Grid) -> tuple[int, int]:
    tall, wide = max(grid.rows[-1][1], 1), max(grid.columns[-1][1], 1)
    scale = _LONGER_SIDE / max(tall, wide)
    letters = max(len(name) for label in grid.labels.values() for name in label)
    width = max(int(wide * scale) // len(grid.columns), _LETTER * (letters + 2))
    lines = max(len(_lines(label, width)) for label in grid.labels.values())
    return width, max(int(tall * scale) // len(grid.rows), (lines + 1) * _LINE)


def _lines(label: Sequence[str], width: int) -> list[str]:
    return wrap(label, width // _LETTER - 1)


def _block(grid: Grid, cell: tuple[int, int], width: int, height: int) -> Iterator[str]:
    row, column = cell
    x, y = _MARGIN + column * width, _MARGIN + row * height
    hue = 360 * (row * len(grid.columns) + column) // (len(grid.rows) * len(grid.columns))
    (top, bottom), (left, right) = grid.rows[row], grid.columns[column]
    yield (
        f'<g><rect x="{x}" y="{y}" width="{width}" height="{height}" '
        f'fill="hsl({hue}, 55%, 80%)" stroke="#333"/>'
    )
    yield f"<title>[{top}:{bottom}, {left}:{right}]</title>"
    lines = _lines(grid.labels[cell], width)
    first = y + height // 2 - (len(lines) - 1) * _LINE // 2 + 4
    for number, line in enumerate(lines):
        yield (
            f'<text x="{x + width // 2}" y="{first + number * _LINE}" text-anchor="middle" '
            f'fill="#111">{html.escape(line)}</text>'
        )
    yield "</g>"

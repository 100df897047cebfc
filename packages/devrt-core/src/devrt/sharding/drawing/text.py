"""Drawings of shardings, for a terminal and for a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devrt._support.notebook import notebook_display
from devrt.sharding.drawing.svg import sharding_svg
from devrt.sharding.grid import Grid, grid_of, wrap

if TYPE_CHECKING:
    from rich.table import Table

    from devrt.sharding.sharding import Sharding

__all__ = ["render_sharding", "sharding_table", "visualize_sharding"]

_LINES = 9  # of a drawing whose labels need no more
_WIDTH = 23  # of a square array: a character is about two and a half times as high as wide

Cells = dict[tuple[int, int], list[str]]


def render_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    max_width: int = 80,
    dims: Sequence[int] | None = None,
    lines: int = _LINES,
) -> str:
    """Draw how an array is sharded, in plain text; arguments as for `visualize_sharding`.

    Each box is a block, and names the devices that hold it. The width is exceeded only where one
    device's name needs more, and the number of lines where the names do.
    """
    grid = grid_of(shape, sharding, dims)
    width, height, cells = _fit(grid, max_width, lines)
    bar = "─" * width
    n_rows, n_columns = len(grid.rows), len(grid.columns)

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join([bar] * n_columns) + right

    drawn = [rule("┌", "┬", "┐")]
    for row in range(n_rows):
        if row:
            drawn.append(rule("├", "┼", "┤"))
        for line in range(height):
            texts = (cells[row, column][line].center(width) for column in range(n_columns))
            drawn.append("│" + "│".join(texts) + "│")
    drawn.append(rule("└", "┴", "┘"))
    return "\n".join(drawn)


def sharding_table(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    max_width: int = 80,
    dims: Sequence[int] | None = None,
) -> Table:
    """Draw how an array is sharded, as a table that rich can print, as `render_sharding` does."""
    from rich.box import SQUARE
    from rich.table import Table
    from rich.text import Text

    grid = grid_of(shape, sharding, dims)
    width, _, cells = _fit(grid, max_width, _LINES)
    table = Table(show_header=False, show_lines=True, padding=0, box=SQUARE)
    for _ in grid.columns:
        table.add_column(width=width, no_wrap=True)
    for row in range(len(grid.rows)):
        texts = []
        for column in range(len(grid.columns)):
            number = row * len(grid.columns) + column
            style = f"black on {_COLOURS[number % len(_COLOURS)]}" if use_color else ""
            lines = (line.center(width) for line in cells[row, column])
            texts.append(Text("\n".join(lines), style=style))
        table.add_row(*texts)
    return table


_COLOURS = (
    "cyan",
    "yellow",
    "green",
    "magenta",
    "bright_blue",
    "bright_red",
    "white",
    "dark_orange",
)


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    max_width: int = 80,
    dims: Sequence[int] | None = None,
) -> None:
    """Draw how an array is sharded: SVG in a notebook, else text on the standard output.

    Parameters
    ----------
    shape
        Shape of the array.
    sharding
        How it is sharded.
    use_color
        Whether to colour the blocks where the output is a terminal.
    max_width
        Width of the drawing in characters.
    dims
        The dimensions to draw, down and across; needed for arrays of more than two.

    Raises
    ------
    InvalidArgumentError
        If the array cannot be sharded so, or ``dims`` is wrong or missing.
    """
    if _show_in_notebook(shape, sharding, dims):
        return
    if use_color and sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(
            sharding_table(shape, sharding, max_width=max_width, dims=dims)
        )
        return
    sys.stdout.write(render_sharding(shape, sharding, max_width=max_width, dims=dims) + "\n")


def _show_in_notebook(shape: Sequence[int], sharding: Sharding, dims: Sequence[int] | None) -> bool:
    """Show the drawing as SVG where this is a notebook; return whether it is one."""
    notebook = notebook_display()
    if notebook is None:
        return False
    notebook.display(notebook.SVG(sharding_svg(shape, sharding, dims=dims)))
    return True


def _fit(grid: Grid, max_width: int, lines: int) -> tuple[int, int, Cells]:
    """Return width and height of a box, and the lines of each, so that the drawing fits."""
    n_rows, n_columns = len(grid.rows), len(grid.columns)
    limit = max((max_width - 1) // n_columns - 1, 1)
    longest = max(len(",".join(label)) for label in grid.labels.values())
    tall = max(grid.rows[-1][1], 1)
    wide = max(grid.columns[-1][1], 1)
    square = _WIDTH * wide // tall // n_columns if n_rows > 1 or tall > 1 else 0
    width = min(max(square, longest + 2), limit)
    cells = {cell: wrap(label, width) for cell, label in grid.labels.items()}
    width = max(width, max(len(line) for label in cells.values() for line in label))
    needed = max(map(len, cells.values()))
    height = max(needed, lines // n_rows - 1) if tall > 1 else needed
    for label in cells.values():
        above = (height - len(label)) // 2
        label[:0] = [""] * above
        label.extend([""] * (height - len(label)))
    return (
        width,
        height,
        {
            (row, column): cells.get((row, column), [""] * height)
            for row in range(n_rows)
            for column in range(n_columns)
        },
    )

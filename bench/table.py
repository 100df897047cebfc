"""The table that is printed: cases first, then each sweep with how its cost grows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from bench.figures import Growth, growth
from bench.rows import Outcome, Row

__all__ = ["format_quantity", "render"]

_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}


def format_quantity(value: float, unit: str) -> str:
    """Write a quantity with three digits and the prefix that suits it."""
    scales = _SCALES.get(unit)
    if scales is None:
        plural = "" if value == 1 else "es" if unit.endswith("s") else "s"
        return f"{value:g} {unit}{plural}"
    if value == 0:
        return f"0 {unit}"
    factor, name = next((pair for pair in scales if abs(value) >= pair[0]), scales[-1])
    scaled = value / factor
    if unit == "B" and scaled == int(scaled):
        return f"{int(scaled)} {name}"
    digits = max(0, 2 - math.floor(math.log10(abs(scaled)))) if scaled else 0
    return f"{scaled:.{min(digits, 3)}f} {name}"


def render(rows: Sequence[Row], first: str = "devrt") -> str:
    """Lay the rows out; reasons for missing figures follow as remarks, and how many bars hold."""
    remarks: list[str] = []
    parts = []
    plain = [row for row in rows if row.sweep is None]
    if plain:
        lines = [_cells(row, row.case, remarks) for row in plain]
        parts.append(_grid(("case", first, "peer", "ratio", "which peer"), lines))
    for (name, peer), group in _sweeps(rows):
        parts.append(_sweep(name, peer, group, first, remarks))
    if remarks:
        parts.append("\n".join(f"[{i}] {text}" for i, text in enumerate(remarks, 1)))
    if barred := [row.keeps_bar for row in rows if row.bar is not None]:
        kept, missed, unknown = (barred.count(each) for each in (True, False, None))
        parts.append(f"bars: {kept} kept, {missed} missed, {unknown} without a figure")
    return "\n\n".join(parts)


def _sweeps(rows: Sequence[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    swept = [row for row in rows if row.sweep is not None]

    def key(row: Row) -> tuple[str, str]:
        return (f"{row.subject}: {row.sweep.name if row.sweep else ''}", row.peer)

    order = list(dict.fromkeys(key(row) for row in swept))
    ranked = sorted(swept, key=lambda row: order.index(key(row)))
    return [(name, list(group)) for name, group in groupby(ranked, key)]


def _sweep(name: str, peer: str, rows: Sequence[Row], first: str, remarks: list[str]) -> str:
    lines, costs = [], ([], [])  # type: ignore[var-annotated]
    for row in rows:
        assert row.sweep is not None
        lines.append(_cells(row, format_quantity(row.sweep.x, row.sweep.unit), remarks)[1:-1])
        for found, outcome in zip(costs, (row.devrt, row.other), strict=True):
            if outcome.figure is not None:
                found.append((row.sweep.x, outcome.figure.median))
    assert rows[0].sweep is not None
    of = rows[0].sweep.unit
    grown = [growth(points) for points in costs]
    lines.append([f"per {of}", *(_per_unit(g, rows[0].unit) for g in grown), ""])
    lines.append(["exponent", *(_exponent(g) for g in grown), ""])
    table = _grid((name, first, peer or "peer", "ratio"), lines)
    return table


def _per_unit(found: Growth | None, unit: str) -> str:
    return "-" if found is None else format_quantity(found.per_unit, unit)


def _exponent(found: Growth | None) -> str:
    return "-" if found is None else f"{found.exponent:.2f} (tail {found.tail:.2f})"


def _cells(row: Row, label: str, remarks: list[str]) -> list[str]:
    note = f" {_mark(row.note, remarks)}" if row.note else ""
    return [
        f"{row.subject}: {label}{note}" if row.sweep is None else label,
        *([] if row.sweep is None else [label + note]),
        _cost(row.devrt, row.unit, remarks),
        _cost(row.other, row.unit, remarks),
        _ratio(row),
        row.peer,
    ]


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "-"
    if row.bar is None:
        return f"{row.ratio:.2f}"
    return f"{row.ratio:.3f} {'<=' if row.keeps_bar else '>'} {row.bar:.3f}"


def _cost(outcome: Outcome, unit: str, remarks: list[str]) -> str:
    if outcome.figure is None:
        return _mark(outcome.reason or "no figure", remarks)
    return format_quantity(outcome.figure.median, unit)


def _mark(text: str, remarks: list[str]) -> str:
    if text not in remarks:
        remarks.append(text)
    return f"[{remarks.index(text) + 1}]"


def _grid(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Align columns: the first to the left, figures to the right, names to the left."""
    table = [list(head), *map(list, lines)]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]

    def write(line: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if 0 < i < 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([write(table[0]), rule, *map(write, table[1:])])

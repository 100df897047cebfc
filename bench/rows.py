"""One row of the result: a case, devrt's figure, a peer's figure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from bench.case import Sweep
from bench.figures import Figure, ratio

__all__ = ["Outcome", "Row"]


@dataclass(frozen=True)
class Outcome:
    """What one environment gave for a case: a figure, or the reason why there is none."""

    figure: Figure | None = None
    reason: str = ""
    blocks: list[float] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A case of a subject beside one peer.

    Attributes
    ----------
    subject, case
        What was measured.
    peer
        The peer's name and version, as the table shows it.
    devrt, other
        What devrt and the peer gave.
    unit
        ``"s"`` or ``"B"``.
    sweep
        The point of a sweep that this is, or None.
    note
        A remark that the reader needs beside the figures.
    bar
        The most that the ratio may be, or None where nothing says that.
    """

    subject: str
    case: str
    peer: str
    devrt: Outcome
    other: Outcome
    unit: str = "s"
    sweep: Sweep | None = None
    note: str = ""
    bar: float | None = None

    @property
    def ratio(self) -> float | None:
        """Devrt over peer; below one, devrt costs less."""
        return ratio(self.devrt.figure, self.other.figure)

    @property
    def keeps_bar(self) -> bool | None:
        """Whether the ratio is within the bar; None where one of them is missing."""
        return None if self.bar is None or self.ratio is None else self.ratio <= self.bar

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data, with the medians of every block."""
        data = asdict(self)
        data["ratio"] = self.ratio
        return data

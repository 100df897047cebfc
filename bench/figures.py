"""The arithmetic: medians, ratios, and how a cost grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Figure", "Growth", "exponent", "growth", "quantile", "ratio", "summarize"]


@dataclass(frozen=True)
class Figure:
    """The median of the blocks' medians, its quartiles, and how many blocks there were."""

    median: float
    q1: float
    q3: float
    blocks: int


@dataclass(frozen=True)
class Growth:
    """How a cost grows over a sweep.

    Attributes
    ----------
    per_unit
        What one more unit costs, from the first point to the last: seconds (or bytes) a unit.
    exponent
        The slope of the least-squares line through log(cost) over log(x), all points.
    tail
        The same over the upper half of the points, where the fixed cost no longer hides it.
    """

    per_unit: float
    exponent: float
    tail: float


def quantile(values: Sequence[float], q: float) -> float:
    """Return the `q` quantile, linear between neighbours."""
    if not values:
        raise ValueError("no values to take a quantile of")
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = math.ceil(at)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summarize(blocks: Sequence[Sequence[float]]) -> Figure:
    """Reduce blocks of samples: the median within each, then the median of those."""
    medians = [median(samples) for samples in blocks]
    return Figure(median(medians), quantile(medians, 0.25), quantile(medians, 0.75), len(medians))


def ratio(devrt: Figure | None, peer: Figure | None) -> float | None:
    """Return devrt over peer, or None when either is missing or the peer costs nothing."""
    if devrt is None or peer is None or peer.median <= 0:
        return None
    return devrt.median / peer.median


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Fit ``cost = c * x**k`` by least squares on the logarithms; returns ``k``.

    Points that have no logarithm are left out; ``nan`` when fewer than two remain.
    """
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return math.nan
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    return covariance / sum((x - mean_x) ** 2 for x, _ in logs)


def growth(points: Sequence[tuple[float, float]]) -> Growth | None:
    """Describe how a cost grows over ``(x, cost)`` points; None when fewer than two."""
    ordered = sorted(points)
    if len(ordered) < 2 or ordered[0][0] == ordered[-1][0]:
        return None
    (x0, y0), (x1, y1) = ordered[0], ordered[-1]
    upper = ordered[min(len(ordered) // 2, len(ordered) - 2) :]
    return Growth((y1 - y0) / (x1 - x0), exponent(ordered), exponent(upper))

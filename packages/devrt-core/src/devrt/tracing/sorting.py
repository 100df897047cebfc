"""Sorting: of several operands together, by the first ones as keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.complex_parts import parts
from devrt.tracing.elementwise import binary, compare, select
from devrt.tracing.kinds import kind_of
from devrt.tracing.trace import as_value, constant, emit, trace_flat

__all__ = ["sort"]


def sort(
    operands: Sequence[Any], dimension: int, *, num_keys: int = 1, is_stable: bool = True
) -> list[Any]:
    """Return values of one shape, in the order of the first ones along a dimension.

    Smaller keys come first; of equal ones the next key decides. Zeros are equal whatever their
    sign, and NaNs come last. Complex keys go by their real part, then by their imaginary part.
    """
    values = [as_value(x) for x in operands]
    pairs = [shaped((), value.aval.dtype) for value in values for _ in (0, 1)]
    region = trace_flat(lambda *sides: (_is_before(sides, num_keys),), pairs, "sort")
    attributes = {"dimension": dimension, "is_stable": is_stable}
    results = [value.aval for value in values]
    return emit("stablehlo.sort", values, results, attributes, (region,))


def _is_before(sides: Sequence[Any], num_keys: int) -> Any:
    keys = [
        pair
        for i in range(num_keys)
        for pair in zip(_parts(sides[2 * i]), _parts(sides[2 * i + 1]), strict=True)
    ]
    before = compare("LT", *keys[-1], is_total=_is_float(keys[-1][0]))
    for x, y in reversed(keys[:-1]):
        is_total = _is_float(x)
        is_equal = binary("and", compare("EQ", x, y, is_total=is_total), before)
        before = binary("or", compare("LT", x, y, is_total=is_total), is_equal)
    return before


def _parts(x: Any) -> list[Any]:
    """Return what decides the order of a key: scalars whose total order is that of the key."""
    if x.aval.dtype.kind == "c":
        return [_plain(part) for part in parts(x)]
    return [_plain(x) if _is_float(x) else x]


def _is_float(x: Any) -> bool:
    return kind_of(x.aval.dtype) == "f"


def _plain(x: Any) -> Any:
    """Return a fraction with one zero and one NaN, as the total order tells them apart."""
    zero = constant(0, x.aval.dtype)
    x = select(compare("EQ", x, zero), zero, x)
    return select(compare("NE", x, x), constant(math.nan, x.aval.dtype), x)

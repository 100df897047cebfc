"""How operations are written, apart from the names of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devrt.tracing.attributes import dense_text, quoted, text_of

if TYPE_CHECKING:
    from devrt.tracing.ir import Op
    from devrt.tracing.sdy import Meshes

__all__ = ["SHORT", "form_of"]

SHORT = frozenset(
    f"stablehlo.{name}"
    for name in """
    abs add and atan2 cbrt ceil cosine count_leading_zeros divide exponential
    exponential_minus_one floor log log_plus_one logistic maximum minimum multiply negate
    not or popcnt power remainder round_nearest_afz round_nearest_even rsqrt shift_left
    shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor
    """.split()
)
"""Operations with a short form where all operands and results are of one type."""


def form_of(op: Op, meshes: Meshes | None = None) -> tuple[str, str]:
    """Return what is written before an operation's operands, and what after them.

    Regions stand between the closing parenthesis of the operands, which the form lacks then, and
    the rest. ``meshes`` are those that the program's attributes name.
    """
    name = op.name
    types = [value.aval.type for value in op.operands]
    given = [value.aval.type for value in op.results]
    if name == "stablehlo.constant":
        return f"{name} {dense_text(op.attributes['value'].array)}", f" : {given[0]}"
    if name in SHORT and not op.attributes and set(types) == set(given):
        return f"{name} ", f" : {given[0]}"
    tail = f"{_attributes(op, meshes)} : ({', '.join(types)}) -> ({', '.join(given)})"
    return f'"{name}"(', tail if op.regions else f"){tail}"


def _attributes(op: Op, meshes: Meshes | None) -> str:
    if not op.attributes:
        return ""
    pairs = [
        f"{key if key.replace('_', '').isalnum() else quoted(key)} = {text_of(value, meshes)}"
        for key, value in op.attributes.items()
    ]
    return f" {{{', '.join(pairs)}}}"

"""Rules of Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.tracing.attributes import Literal
from devrt.tracing.aval import shaped
from devrt.tracing.elementwise import unary
from devrt.tracing.gradients.rules import mul
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.shapes import broadcast_in_dim, pad
from devrt.tracing.trace import constant, emit_one

__all__ = ["RULES"]


def _fft(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    (g,), (x,) = given, op.operands
    kind = op.attributes["fft_type"].word
    lengths = op.attributes["fft_length"]
    if kind in ("FFT", "IFFT"):  # symmetric matrices
        return [emit_one(op.name, (g,), g.aval, op.attributes)]
    return [(_of_real if kind == "RFFT" else _to_real)(op, g, x, lengths)]


def _as(op: Op, kind: str, x: Any, aval: Any) -> Any:
    attributes = {**op.attributes, "fft_type": Literal(f"#stablehlo<fft_type {kind}>")}
    return emit_one(op.name, (x,), aval, attributes)


def _of_real(op: Op, g: Any, x: Any, lengths: Sequence[int]) -> Any:
    """Transform the frequencies that the result has, as if the others were 0."""
    none = (0,) * g.aval.ndim
    missing = lengths[-1] - g.aval.shape[-1]
    whole = pad(g, 0, none, (*none[1:], missing))
    return unary("real", _as(op, "FFT", whole, whole.aval), x.aval.dtype)


def _to_real(op: Op, g: Any, x: Any, lengths: Sequence[int]) -> Any:
    """Count the frequencies twice that stand for two of them."""
    count, size = x.aval.shape[-1], lengths[-1]
    weights = np.full(count, 2.0)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    scale = constant((weights / math.prod(lengths)).astype(x.aval.dtype), x.aval.dtype)
    found = _as(op, "RFFT", g, shaped(x.aval.shape, x.aval.dtype))
    wide = broadcast_in_dim(scale, x.aval.shape, (x.aval.ndim - 1,))
    return mul(unary("chlo.conj", found), wide)


RULES: dict[str, Rule] = {"stablehlo.fft": _fft}

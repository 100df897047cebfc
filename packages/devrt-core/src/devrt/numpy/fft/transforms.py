"""Discrete Fourier transforms along one axis or several."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axes_of
from devrt.programs.eager import operation
from devrt.tracing import (
    Literal,
    as_value,
    at_user_line,
    binary,
    complex_of,
    conjugate,
    convert,
    real_of,
    shaped,
)

__all__ = [
    "fft",
    "fft2",
    "fftn",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftn",
]

_MOST_AXES = 3
"""How many axes XLA transforms at once."""

Sizes = Sequence[int] | None


def _emitted(kind: str, x: Any, lengths: Sequence[int]) -> Any:
    """Return a transform of the last axes, whose lengths are those of the real side."""
    *batch, last = x.shape
    real = real_of(x.dtype)
    last = {"RFFT": last // 2 + 1, "IRFFT": lengths[-1]}.get(kind, last)
    result = shaped((*batch, last), real if kind == "IRFFT" else complex_of(real))
    attributes = {"fft_type": Literal(f"#stablehlo<fft_type {kind}>"), "fft_length": tuple(lengths)}
    return tracing.emit_one("stablehlo.fft", (x,), result, attributes)


def _operand(a: Any, is_real: bool, name: str) -> Any:
    x = as_value(a)
    if not is_real:
        return convert(x, complex_of(x.dtype))
    if x.dtype.kind == "c":
        msg = f"fft.{name} takes real numbers, not {x.aval}{at_user_line()}. Use fft.{name[1:]}."
        raise InvalidArgumentError(msg, dtype=x.dtype.name)
    return convert(x, real_of(complex_of(x.dtype)))


def _fitted(x: Any, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    """Return a value cut, or padded with zeros, to sizes along axes."""
    more = [0] * x.ndim
    for size, axis in zip(sizes, axes, strict=True):
        more[axis] = size - x.shape[axis]
    return tracing.pad(x, 0, (0,) * x.ndim, tuple(more))


def _scale(norm: str | None, is_inverse: bool, count: int, name: str) -> float | None:
    """Return what the plain transform is multiplied by: XLA divides inverse ones by the count."""
    match norm:
        case None | "backward":
            return None
        case "ortho":
            return math.sqrt(count) if is_inverse else 1 / math.sqrt(count)
        case "forward":
            return float(count) if is_inverse else 1 / count
    msg = f"fft.{name}: norm is backward, ortho or forward, not {norm!r}{at_user_line()}."
    raise InvalidArgumentError(msg, norm=norm)


def _transform(
    name: str, kind: str, a: Any, s: Sizes, axes: Sequence[int] | None, norm: str | None
) -> Any:
    x = _operand(a, kind == "RFFT", name)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    dims = axes_of(tuple(axes), x.ndim, f"fft.{name}")
    if not dims:
        return x
    lengths = _lengths(name, kind, x, s, dims)
    sizes = list(lengths)
    if kind == "IRFFT":
        sizes[-1] = lengths[-1] // 2 + 1
    x = _fitted(x, sizes, dims)
    others = [i for i in range(x.ndim) if i not in dims]
    order = [*others, *dims]
    x = _of_last(kind, tracing.transpose(x, order), lengths)
    scale = _scale(norm, kind in ("IFFT", "IRFFT"), math.prod(lengths), name)
    if scale is not None:
        x = binary("multiply", x, scale)
    return tracing.transpose(x, [order.index(i) for i in range(x.ndim)])


def _lengths(name: str, kind: str, x: Any, s: Sizes, dims: Sequence[int]) -> list[int]:
    lengths = [x.shape[i] for i in dims]
    if kind == "IRFFT":
        lengths[-1] = 2 * (lengths[-1] - 1)
    if s is not None:
        given = [operator.index(n) for n in s]
        if len(given) != len(dims):
            msg = f"fft.{name}: {len(given)} sizes are given for {len(dims)} axes{at_user_line()}."
            raise InvalidArgumentError(msg, s=tuple(given), axes=tuple(dims))
        lengths = [n if m == -1 else m for n, m in zip(lengths, given, strict=True)]
    if any(n < 1 for n in lengths):
        msg = f"fft.{name}: a transform of {lengths} points has none{at_user_line()}: {x.aval}."
        raise InvalidArgumentError(msg, s=tuple(lengths))
    return lengths


def _of_last(kind: str, x: Any, lengths: list[int]) -> Any:
    """Return a transform of the last axes, a few of them at a time; the last is the real one's."""
    if not x.size:
        result = _emitted(kind, x, lengths[-1:])
        return tracing.constant(0, result.dtype, result.shape)
    if len(lengths) <= _MOST_AXES:
        return _emitted(kind, x, lengths)
    rest = lengths[:-_MOST_AXES]
    other = "IFFT" if kind in ("IFFT", "IRFFT") else "FFT"
    if kind == "IRFFT":
        return _emitted(kind, _over(x, other, rest), lengths[-_MOST_AXES:])
    return _over(_emitted(kind, x, lengths[-_MOST_AXES:]), other, rest)


def _over(x: Any, kind: str, lengths: list[int]) -> Any:
    """Return a transform of the axes before the last few."""
    count, end = len(lengths), x.ndim - _MOST_AXES
    dims = range(end - count, end)
    order = [*range(end - count), *range(end, x.ndim), *dims]
    made = _of_last(kind, tracing.transpose(x, order), lengths)
    return tracing.transpose(made, [order.index(i) for i in range(x.ndim)])


def _one(name: str, kind: str, a: Any, n: int | None, axis: int, norm: str | None) -> Any:
    return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)


@operation(static=("n", "axis", "norm"))
def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the Fourier transform along an axis, which is cut or padded to ``n`` first."""
    return _one("fft", "FFT", a, n, axis, norm)


@operation(static=("n", "axis", "norm"))
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the inverse Fourier transform along an axis; see `fft`."""
    return _one("ifft", "IFFT", a, n, axis, norm)


@operation(static=("n", "axis", "norm"))
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the half of a real array's transform that says all: ``n // 2 + 1`` elements."""
    return _one("rfft", "RFFT", a, n, axis, norm)


@operation(static=("n", "axis", "norm"))
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the real array of ``n`` elements whose `rfft` is given, by default an even number."""
    return _one("irfft", "IRFFT", a, n, axis, norm)


_OTHER = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@operation(static=("n", "axis", "norm"))
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return the real transform of an array of which half, as it is Hermitian, is given."""
    _scale(norm, False, 1, "hfft")
    return _one("hfft", "IRFFT", conjugate(_operand(a, False, "hfft")), n, axis, _OTHER[norm])


@operation(static=("n", "axis", "norm"))
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Return half of the inverse transform of a real array, the inverse of `hfft`."""
    _scale(norm, False, 1, "ihfft")
    return conjugate(_one("ihfft", "RFFT", a, n, axis, _OTHER[norm]))


_SEVERAL = ("s", "axes", "norm")


@operation(static=_SEVERAL)
def fftn(a: Any, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the Fourier transform along several axes, by default all; see `fft`."""
    return _transform("fftn", "FFT", a, s, axes, norm)


@operation(static=_SEVERAL)
def ifftn(a: Any, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the inverse Fourier transform along several axes, by default all."""
    return _transform("ifftn", "IFFT", a, s, axes, norm)


@operation(static=_SEVERAL)
def rfftn(a: Any, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the transform of a real array along several axes; of the last one half."""
    return _transform("rfftn", "RFFT", a, s, axes, norm)


@operation(static=_SEVERAL)
def irfftn(a: Any, s: Sizes = None, axes: Any = None, norm: str | None = None) -> Any:
    """Return the real array whose `rfftn` is given."""
    return _transform("irfftn", "IRFFT", a, s, axes, norm)


def fft2(a: Any, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Return the Fourier transform along two axes."""
    return fftn(a, s, axes, norm)


def ifft2(a: Any, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Return the inverse Fourier transform along two axes."""
    return ifftn(a, s, axes, norm)


def rfft2(a: Any, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Return the transform of a real array along two axes; of the last one half."""
    return rfftn(a, s, axes, norm)


def irfft2(a: Any, s: Sizes = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """Return the real array whose `rfft2` is given."""
    return irfftn(a, s, axes, norm)

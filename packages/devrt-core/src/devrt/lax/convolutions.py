"""Convolutions, by `jax.lax`'s names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from devrt import tracing
from devrt.lax.checks import lax_operation, one_dtype, refuse, require
from devrt.lax.windows import pads_of
from devrt.tracing import ConvDimensions, Window, as_value, dtype_of

__all__ = [
    "ConvDimensionNumbers",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_transpose",
    "conv_with_general_padding",
]


class ConvDimensionNumbers(NamedTuple):
    """The dimensions of a convolution's operands and result.

    ``lhs_spec`` and ``out_spec`` are batch, feature, then spatial dimensions; ``rhs_spec`` is
    output feature, input feature, then spatial dimensions.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Return the dimensions of a convolution from three strings such as NHWC, HWIO, NHWC.

    N is the batch, C the features, O and I those of the kernel; other letters are spatial. None is
    NCHW, OIHW, NCHW.

    Raises
    ------
    InvalidTypeError
        If the strings are none of that rank.
    """
    name, rank = "conv_dimension_numbers", len(lhs_shape)
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    require(rank == len(rhs_shape), name, f"shapes {lhs_shape} and {rhs_shape} differ in rank")
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    specs = tuple(dimension_numbers)
    if len(specs) != 3 or not all(isinstance(spec, str) for spec in specs):
        refuse(name, f"takes three strings, not {dimension_numbers!r}")
    kernel = [letter for letter in specs[1] if letter not in "OI"]
    orders = []
    for spec, ends in zip(specs, ("NC", "OI", "NC"), strict=True):
        fits = len(set(spec)) == len(spec) == rank and set(spec) == {*ends, *kernel}
        require(fits, name, f"{spec!r} has {ends} and the letters {''.join(kernel)}, once each")
        orders.append(tuple(spec.index(letter) for letter in [*ends, *kernel]))
    return ConvDimensionNumbers(*orders)


_STATIC = "dimension_numbers", "precision", "preferred_element_type"


@lax_operation(
    static=(
        "window_strides",
        "padding",
        "lhs_dilation",
        "rhs_dilation",
        "feature_group_count",
        "batch_group_count",
        *_STATIC,
    )
)
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return a convolution.

    Parameters
    ----------
    lhs, rhs
        The array and the kernel, of one dtype and rank.
    window_strides
        How far the kernel moves along each spatial dimension.
    padding
        ``"SAME"``, ``"SAME_LOWER"``, ``"VALID"``, or a pair for each spatial dimension.
    lhs_dilation, rhs_dilation
        The distance between elements of the array, and of the kernel; 1 by default.
    dimension_numbers
        What `conv_dimension_numbers` takes.
    feature_group_count, batch_group_count
        Into how many groups features or batches are divided, each with a part of the kernel.
    precision, preferred_element_type
        As those of `dot_general`.
    """
    name = "conv_general_dilated"
    x, kernel = one_dtype(name, lhs, rhs)
    dims = conv_dimension_numbers(x.aval.shape, kernel.aval.shape, dimension_numbers)
    numbers = ConvDimensions(*(tuple(spec) for spec in dims))
    sizes = tuple(kernel.aval.shape[d] for d in numbers.rhs[2:])
    ones = (1,) * len(sizes)
    strides, base = tuple(window_strides), tuple(lhs_dilation or ones)
    apart = tuple(rhs_dilation or ones)
    fits = len(strides) == len(base) == len(apart) == len(sizes)
    require(fits, name, f"strides and dilations are {len(sizes)} numbers each")
    if isinstance(padding, str):
        require(base == ones, name, "padding by name goes without lhs_dilation: give pairs")
    spatial = [x.aval.shape[d] for d in numbers.lhs[2:]]
    pads = pads_of(name, padding, spatial, sizes, strides, apart)
    _check(x.aval, kernel.aval, numbers, feature_group_count, batch_group_count)
    return tracing.convolution(
        x,
        kernel,
        numbers,
        Window(sizes, strides, pads, base, apart),
        feature_groups=feature_group_count,
        batch_groups=batch_group_count,
        precision=tracing.precision_of(precision, f"lax.{name}"),
        dtype=None if preferred_element_type is None else dtype_of(preferred_element_type),
    )


def _check(x: Any, kernel: Any, dims: ConvDimensions, features: int, batches: int) -> None:
    name = "conv_general_dilated"
    require(features == 1 or batches == 1, name, "divides features or batches, not both")
    require(min(features, batches) >= 1, name, "groups are 1 or more")
    taken, given = x.shape[dims.lhs[1]], kernel.shape[dims.rhs[1]]
    reason = (
        f"{x} has {taken} features in {features} group(s), and the kernel {kernel} takes {given}"
    )
    require(taken == given * features, name, reason)
    made = kernel.shape[dims.rhs[0]]
    reason = f"the kernel's {made} output features do not divide into {features * batches} groups"
    require(made % (features * batches) == 0, name, reason)
    rows = x.shape[dims.lhs[0]]
    require(rows % batches == 0, name, f"a batch of {rows} does not divide into {batches} groups")


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return a convolution of NCHW with OIHW; see `conv_general_dilated`."""
    return conv_with_general_padding(
        lhs, rhs, window_strides, padding, None, None, precision, preferred_element_type
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return a convolution of NCHW with OIHW with any padding; see `conv_general_dilated`."""
    how = {"precision": precision, "preferred_element_type": preferred_element_type}
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, **how
    )


_DEFAULT = {3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"), 5: ("NHWDC", "HWDIO", "NHWDC")}


@lax_operation(static=("strides", "padding", "rhs_dilation", "transpose_kernel", *_STATIC))
def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Return the convolution with strides that enlarge, as the gradient of one that shrinks.

    Parameters
    ----------
    lhs, rhs, rhs_dilation, precision, preferred_element_type
        As those of `conv_general_dilated`.
    strides
        By how much each spatial dimension is enlarged.
    padding
        ``"SAME"`` or ``"VALID"``: that of the convolution whose gradient it is. Or pairs.
    dimension_numbers
        NHWC, HWIO, NHWC by default.
    transpose_kernel
        Whether the kernel is that of the convolution whose gradient it is.
    """
    x, kernel = as_value(lhs), as_value(rhs)
    numbers = _DEFAULT.get(x.aval.ndim) if dimension_numbers is None else dimension_numbers
    dims = conv_dimension_numbers(x.aval.shape, kernel.aval.shape, numbers)
    apart = tuple(rhs_dilation or (1,) * len(strides))
    spatial = dims.rhs_spec[2:]
    sizes = [(kernel.aval.shape[d] - 1) * r + 1 for d, r in zip(spatial, apart, strict=True)]
    pads = padding
    if isinstance(padding, str):
        pads = tuple(_transposed(k, s, padding) for k, s in zip(sizes, strides, strict=True))
    if transpose_kernel:
        out, into, *rest = dims.rhs_spec
        kernel = tracing.reverse(kernel, rest)
        dims = dims._replace(rhs_spec=(into, out, *rest))
    ones = (1,) * len(strides)
    return conv_general_dilated(
        x, kernel, ones, pads, strides, apart, dims, 1, 1, precision, preferred_element_type
    )


def _transposed(size: int, stride: int, padding: str) -> tuple[int, int]:
    """Return the padding of one dimension."""
    if padding == "SAME":
        total = size + stride - 2
        low = size - 1 if stride > size - 1 else -(-total // 2)
    elif padding == "VALID":
        total, low = size + stride - 2 + max(size - stride, 0), size - 1
    else:
        refuse("conv_transpose", f"padding is SAME, VALID or pairs, not {padding!r}")
    return low, total - low

"""Random operations of jax on values of any shape and dtype, for `random_programs`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["OPERATIONS", "choose", "scaled"]

Random = np.random.Generator
Operation = Callable[[Random, Any, Any], Any]
OPERATIONS = []

_MOST = 96  # elements of a value that grows


def operation(function):
    OPERATIONS.append(function)
    return function


def choose(random, *options):
    return options[int(random.integers(len(options)))]


def is_float(x):
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def is_complex(x):
    return bool(jnp.issubdtype(x.dtype, jnp.complexfloating))


def is_integer(x):
    return bool(jnp.issubdtype(x.dtype, jnp.integer))


def as_float(x):
    return x if is_float(x) else x.real.astype(jnp.float32)


def ordered(x):
    """Return something that can be compared: the real part of what is complex."""
    return x.real if is_complex(x) else x


def flat(x):
    return jnp.ravel(x)[:_MOST]


def scaled(x):
    """Keep floats within bounds, so that long chains do not all end in infinities."""
    return x / (1 + jnp.max(jnp.abs(x), initial=0)).astype(x.dtype) if is_float(x) else x


def axis_of(random, x):
    return int(random.integers(x.ndim))


@operation
def unary(random, x, _):
    if x.dtype == bool:
        return ~x
    if is_integer(x):
        signed = jnp.issubdtype(x.dtype, jnp.signedinteger)
        names = [jnp.negative, jnp.invert, lax.population_count, lax.clz, jnp.square]
        return choose(random, *names, *([jnp.abs, jnp.sign] if signed else []))(x)
    if is_complex(x):
        return choose(random, jnp.conj, jnp.negative, jnp.real, jnp.imag, jnp.abs)(x)
    functions = "abs sign exp2 tanh sqrt sin floor ceil round isfinite cbrt expm1 log1p square"
    return getattr(jnp, choose(random, *functions.split()))(x)


@operation
def special(random, x, _):
    functions = [lax.erf, lax.logistic, lax.rsqrt, lax.lgamma, lax.erf_inv, jnp.arctan]
    return choose(random, *functions)(scaled(as_float(x).astype(jnp.float32)))


@operation
def binary(random, x, y):
    x, y = jnp.broadcast_arrays(x, jnp.ravel(y)[:1].reshape(()) if y.size else x)
    y = ordered(y).astype(x.dtype)
    if x.dtype == bool:
        return choose(random, jnp.logical_and, jnp.logical_or, jnp.logical_xor)(x, y)
    if is_complex(x):
        return choose(random, jnp.add, jnp.multiply, jnp.subtract)(x, y)
    functions = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum]
    if is_integer(x):
        functions += [jnp.bitwise_and, jnp.bitwise_xor, jnp.floor_divide, lax.rem]
    else:
        functions += [jnp.divide, lax.atan2, lax.rem, jnp.copysign, lax.nextafter]
    return choose(random, *functions)(x, y)


@operation
def shift(random, x, _):
    if not is_integer(x):
        return x
    by = jnp.asarray(int(random.integers(0, 3)), x.dtype)
    functions = [lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic]
    return choose(random, *functions)(x, jnp.broadcast_to(by, x.shape))


@operation
def compare(random, x, y):
    x, y = jnp.broadcast_arrays(ordered(x), jnp.ravel(ordered(y))[:1].sum())
    functions = [jnp.less, jnp.equal, jnp.greater_equal, jnp.not_equal]
    return choose(random, *functions)(x, y.astype(x.dtype))


@operation
def select(_, x, y):
    return jnp.where(x == jnp.roll(x, 1), x, jnp.ravel(y)[:1].sum().real.astype(x.dtype))


@operation
def convert(random, x, _):
    names = ["float32", "float16", "bfloat16", "int8", "int32", "uint8", "bool", "float64"]
    target = choose(random, *names)
    if is_float(x) and target not in ("float16", "bfloat16", "float32", "float64"):
        x = jnp.clip(jnp.nan_to_num(x), 0, 100)  # what does not fit is the compiler's to choose
    return ordered(x).astype(target)


@operation
def bits(_, x, __):
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}
    if x.dtype == bool or is_complex(x) or x.dtype.itemsize not in unsigned:
        return x
    if is_float(x):
        x = jnp.nan_to_num(x)  # a NaN has many bit patterns
    return lax.bitcast_convert_type(x, unsigned[x.dtype.itemsize])


@operation
def shape(random, x, _):
    kind = int(random.integers(5))
    if kind == 0:
        return x.reshape(-1)
    if kind == 1:
        return jnp.transpose(x, random.permutation(x.ndim).tolist())
    if kind == 2:
        return jnp.flip(x)
    if kind == 3:
        return jnp.expand_dims(x, int(random.integers(x.ndim + 1)))
    return jnp.broadcast_to(x, (int(random.integers(1, 4)), *x.shape)) if x.size < _MOST else x


@operation
def slice_(random, x, _):
    starts = [int(random.integers(0, max(1, n))) for n in x.shape]
    stops = [int(random.integers(a, n + 1)) for a, n in zip(starts, x.shape, strict=True)]
    return lax.slice(x, starts, stops, [int(random.integers(1, 3)) for _ in x.shape])


@operation
def dynamic_slice(random, x, y):
    sizes = [int(random.integers(0, n + 1)) for n in x.shape]
    at = jnp.nan_to_num(jnp.ravel(ordered(y))[:1].sum().astype(jnp.float32))
    starts = [jnp.clip(at, -3, 9).astype(jnp.int32)] * x.ndim
    taken = lax.dynamic_slice(x, starts, sizes)
    return choose(random, taken, lax.dynamic_update_slice(x, taken, [jnp.int32(0)] * x.ndim))


@operation
def pad(random, x, _):
    config = [tuple(int(v) for v in random.integers((-1, -1, 0), (3, 3, 2))) for _ in x.shape]
    fits = all(n + lo + hi >= 2 for n, (lo, hi, _) in zip(x.shape, config, strict=True))
    return lax.pad(x, jnp.zeros((), x.dtype), config) if fits and x.size < _MOST else x


@operation
def concatenate(_, x, y):
    return jnp.concatenate([flat(x), flat(ordered(y)).astype(x.dtype)])


@operation
def reduce(random, x, _):
    if x.dtype == bool:
        return choose(random, jnp.any, jnp.all)(x)
    axis = choose(random, None, *range(x.ndim))
    if is_complex(x):
        return jnp.sum(x, axis=axis)
    name = choose(random, "sum", "prod", "max", "min", "argmax", "argmin")
    if not x.size or (axis is not None and not x.shape[axis]):
        name = "sum"
    return getattr(jnp, name)(scaled(x), axis=axis)


@operation
def windows(random, x, _):
    x = ordered(x)
    functions = [jnp.cumsum, lambda a: lax.cummax(a, 0), lambda a: lax.cumlogsumexp(as_float(a), 0)]
    values = flat(x.astype(jnp.int32) if x.dtype == bool else scaled(x))
    return choose(random, *functions)(values)


@operation
def sort(random, x, y):
    keys, values = flat(ordered(x)), flat(y)
    count = min(keys.size, values.size)
    kind = int(random.integers(3))
    if kind == 0:
        return jnp.sort(keys)
    if kind == 1 or count < 2:
        return jnp.argsort(keys, stable=True)
    return lax.sort((keys[:count], values[:count]), num_keys=1, is_stable=True)[1]


@operation
def top(random, x, _):
    values = flat(as_float(x).astype(jnp.float32))
    if not values.size:
        return values
    return lax.top_k(values, int(random.integers(1, values.size + 1)))[int(random.integers(2))]


@operation
def gather(_, x, y):
    indices = jnp.nan_to_num(ordered(flat(y)).astype(jnp.float32))
    values = flat(x)
    return (
        jnp.take(values, indices.clip(-5, 99).astype(jnp.int32), mode="clip") if values.size else x
    )


@operation
def scatter(random, x, y):
    indices = jnp.nan_to_num(ordered(flat(y)).astype(jnp.float32)).clip(0, 50).astype(jnp.int32)
    values = flat(x)
    if values.dtype == bool or is_complex(values) or not values.size:
        return values
    one = jnp.ones(indices.shape, values.dtype)
    at = values.at[indices % values.size]
    return choose(random, at.add(one), at.max(one), at.set(one))


@operation
def dot(random, x, y):
    if x.dtype == bool:
        x = x.astype(jnp.int32)
    left, right = scaled(flat(x)), scaled(flat(ordered(y)).astype(x.dtype))
    n = max(1, int(random.integers(1, 6)))
    left, right = (
        jnp.resize(v, (2, n, 3)) if v.size else jnp.zeros((2, n, 3), x.dtype) for v in (left, right)
    )
    return jnp.einsum(choose(random, "bij,bkj->bik", "bij,bij->ij", "bij,ckj->bcik"), left, right)


@operation
def convolution(random, x, _):
    values = jnp.resize(scaled(as_float(x).astype(jnp.float32)), (2, 3, 8)) if x.size else None
    if values is None:
        return x
    kernel = jnp.asarray(random.standard_normal((4, 3, 3)), jnp.float32)
    stride, dilation = int(random.integers(1, 3)), int(random.integers(1, 3))
    padding = choose(random, "SAME", "VALID")
    return lax.conv_general_dilated(
        values,
        kernel,
        (stride,),
        padding,
        rhs_dilation=(dilation,),
        dimension_numbers=("NCH", "OIH", "NCH"),
    )


@operation
def fourier(random, x, _):
    values = scaled(as_float(flat(x)).astype(jnp.float32))
    return choose(random, jnp.fft.fft, jnp.fft.rfft)(values) if values.size else values


@operation
def loop(random, x, y):
    count = int(random.integers(0, 5))
    if choose(random, True, False):
        return lax.fori_loop(
            0, count, lambda i, v: scaled(v * v + i.astype(v.dtype)) if v.dtype != bool else ~v, x
        )
    limit = jnp.nan_to_num(jnp.ravel(ordered(y))[:1].sum().astype(jnp.float32)).clip(0, 4)
    return lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + 1, jnp.flip(s[1])), (0.0, x))[1]


@operation
def branch(random, x, y):
    which = jnp.nan_to_num(jnp.ravel(ordered(y))[:1].sum().astype(jnp.float32)).clip(0, 2)
    branches = [lambda v: v, lambda v: jnp.flip(v), lambda v: jnp.where(v == v, v, v)]
    return lax.switch(which.astype(jnp.int32), branches[: int(random.integers(1, 4))], x)


@operation
def scan(_, x, __):
    values = as_float(flat(x)).astype(jnp.float32)
    return lax.scan(lambda c, v: (jnp.tanh(c + v), c * v), jnp.float32(0), values)[1]


@operation
def gradient(_, x, __):
    return jax.grad(lambda v: jnp.sum(jnp.tanh(v) * v))(as_float(x).astype(jnp.float32))


@operation
def rng(random, x, _):
    key = jax.random.key(int(random.integers(1 << 30)))
    return choose(random, jax.random.uniform, jax.random.bits, jax.random.normal)(key, x.shape)


@operation
def iota(random, x, _):
    return lax.broadcasted_iota(jnp.int32, x.shape, axis_of(random, x)) if x.ndim else x


@operation
def small(random, x, _):
    """Go through a type that is narrower than a byte, or an eight-bit float."""
    name = choose(random, "int4", "uint4", "float8_e4m3fn", "float8_e5m2")
    values = jnp.clip(jnp.nan_to_num(as_float(x).astype(jnp.float32)), 0, 7)
    return (
        values.astype(name)
        if choose(random, True, False)
        else values.astype(name).astype("float32")
    )


@operation
def complexes(_, x, y):
    x, y = jnp.broadcast_arrays(as_float(x).astype(jnp.float32), as_float(flat(y)[:1].sum()))
    return lax.complex(x, y.astype(jnp.float32))

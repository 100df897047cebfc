"""The steps of random programs: each takes a namespace, a generator and values, and returns one.

A step that finds no value it can take returns None. See `traced_programs`.
"""

import numpy as np

__all__ = ["STEPS", "collective", "is_float"]


def is_float(x):
    return np.dtype(x.dtype).kind == "f" or x.dtype.name == "bfloat16"


def floats(values):
    return [x for x in values if is_float(x)]


def one(rng, values):
    return values[int(rng.integers(len(values)))] if values else None


def unary(ns, rng, values):
    x = one(rng, floats(values))
    name = str(rng.choice(_UNARY))
    return None if x is None else getattr(ns.np, name)(x)


_UNARY = "sin cos tanh abs square negative arctan sinh exp2 log1p sign floor sqrt expm1".split()


def bounded(ns, rng, values):
    """Keep numbers small, so that programs do not run into infinities."""
    x = one(rng, floats(values))
    return None if x is None else ns.np.clip(x, -2, 3)


def of_integers(ns, rng, values):
    x = one(rng, [v for v in values if not is_float(v)])
    if x is None:
        return None
    kind = np.dtype(x.dtype).kind
    names = ("logical_not",) if kind == "b" else ("abs", "square", "bitwise_not")
    return getattr(ns.np, str(rng.choice(names)))(x)


def binary(ns, rng, values):
    x = one(rng, values)
    y = one(rng, [v for v in values if fits(v.shape, x.shape)])
    name = str(rng.choice("add multiply subtract maximum minimum arctan2 hypot".split()))
    if name in ("arctan2", "hypot", "subtract") and "b" in (x.dtype.kind, y.dtype.kind):
        name = "add"
    if name == "hypot" and "float16" in (x.dtype.name, y.dtype.name):
        name = "maximum"  # jax's gradient divides by squares, which float16 does not hold
    return getattr(ns.np, name)(x, y)


def fits(a, b):
    pairs = zip(a[::-1], b[::-1], strict=False)
    return all(n == m or 1 in (n, m) for n, m in pairs)


def scaled(ns, rng, values):
    x = one(rng, [v for v in values if np.dtype(v.dtype).kind != "b"])
    number = [2, -1, 0.5, 1.25, True][int(rng.integers(5))]
    how = int(rng.integers(4))
    if x is None:
        return None
    return [lambda: x + number, lambda: x * number, lambda: number - x, lambda: x / 3][how]()


def divided(ns, rng, values):
    x, y = one(rng, floats(values)), one(rng, floats(values))
    return None if x is None or not fits(x.shape, y.shape) else x / (1 + y * y)


def compared(ns, rng, values):
    x = one(rng, floats(values))
    y = one(rng, [v for v in floats(values) if x is not None and fits(v.shape, x.shape)])
    return None if x is None else ns.np.where(x > 0.3, x, y * 2)


def reduced(ns, rng, values):
    x = one(rng, [v for v in values if v.ndim])
    if x is None:
        return None
    name = str(rng.choice("sum mean max min prod any var argmax".split()))
    axis = int(rng.integers(x.ndim))
    if name != "argmax" and rng.random() < 0.2:
        axis = None
    keepdims = bool(rng.random() < 0.4) and axis is not None
    if not x.size or (x.shape[axis] if axis is not None else x.size) == 0:
        return None
    return getattr(ns.np, name)(x, axis=axis, keepdims=keepdims)


def cumulated(ns, rng, values):
    x = one(rng, [v for v in floats(values) if v.ndim])
    return None if x is None else ns.np.cumsum(x, axis=int(rng.integers(x.ndim)))


def sorted_(ns, rng, values):
    x = one(rng, [v for v in floats(values) if v.ndim])
    return None if x is None else ns.np.sort(x, axis=int(rng.integers(x.ndim)))


def reshaped(ns, rng, values):
    x = one(rng, values)
    shape = list(x.shape)
    rng.shuffle(shape)
    how = int(rng.integers(3))
    return ns.np.reshape(x, [tuple(shape), (-1,), (*x.shape, 1)][how] if x.size else x.shape)


def transposed(ns, rng, values):
    x = one(rng, [v for v in values if v.ndim > 1])
    order = None if x is None else [int(i) for i in rng.permutation(x.ndim)]
    return None if x is None else ns.np.transpose(x, order)


def sliced(ns, rng, values):
    x = one(rng, [v for v in values if v.ndim])
    if x is None:
        return None
    index = []
    for n in x.shape:
        start, step = int(rng.integers(max(1, n))), int(rng.choice([1, 1, 2, -1]))
        parts = slice(None), slice(start, None, abs(step)), slice(None, None, step)
        index.append(parts[int(rng.integers(3))])
    return x[tuple(index)]


def indexed(ns, rng, values):
    x = one(rng, [v for v in values if v.ndim and v.shape[0]])
    if x is None:
        return None
    rows = rng.integers(-x.shape[0], x.shape[0], size=int(rng.integers(1, 5))).astype(np.int32)
    return x[rows] if rng.random() < 0.7 else x[int(rows[0])]


def updated(ns, rng, values):
    x = one(rng, [v for v in floats(values) if v.ndim and v.shape[0]])
    if x is None:
        return None
    rows = rng.choice(x.shape[0], size=min(2, x.shape[0]), replace=False).astype(np.int32)
    part = x[rows] * 0.5
    return getattr(x.at[rows], str(rng.choice(["set", "add", "multiply", "max"])))(part)


def joined(ns, rng, values):
    x = one(rng, [v for v in values if v.ndim])
    y = one(rng, [v for v in values if x is not None and v.shape == x.shape])
    if x is None:
        return None
    axis = int(rng.integers(x.ndim))
    return getattr(ns.np, str(rng.choice(["concatenate", "stack"])))([x, y], axis=axis)


def padded(ns, rng, values):
    x = one(rng, [v for v in floats(values) if v.ndim])
    widths = None if x is None else [tuple(map(int, rng.integers(0, 2, 2))) for _ in x.shape]
    return None if x is None else ns.np.pad(x, widths)


def rolled(ns, rng, values):
    x = one(rng, [v for v in values if v.ndim])
    if x is None:
        return None
    return ns.np.roll(x, int(rng.integers(-2, 3)), axis=int(rng.integers(x.ndim)))


def multiplied(ns, rng, values):
    x = one(rng, [v for v in floats(values) if v.ndim > 1])
    if x is None:
        return None
    how = int(rng.integers(3))
    if how == 0:
        return x @ ns.np.swapaxes(x, -1, -2)
    weights = np.cos(np.arange(x.shape[-1] * 3, dtype=np.float32)).reshape(x.shape[-1], 3)
    return x @ weights if how == 1 else ns.np.einsum("...i,ij->...j", x, weights)


def cast(ns, rng, values):
    x = one(rng, values)
    names = ["float32", "float16", "bfloat16"]
    return x.astype(str(rng.choice([*names, "int32", "uint8", "bool"] if is_bounded(x) else names)))


def is_bounded(x):
    return not is_float(x)


def chosen(ns, rng, values):
    x = one(rng, floats(values))
    if x is None:
        return None
    factor = float(rng.normal())
    return ns.lax.cond(ns.np.sum(x) > 0, lambda a: ns.np.sin(a) * factor, lambda a: a * 2, x)


def scanned(ns, rng, values):
    x = one(rng, [v for v in floats(values) if v.ndim and v.shape[0]])
    if x is None:
        return None

    def step(carry, row):
        carry = ns.np.tanh(carry * 0.5 + row)
        return carry, carry * row

    last, rows = ns.lax.scan(step, ns.np.zeros_like(x[0]), x, reverse=bool(rng.random() < 0.3))
    return rows if rng.random() < 0.5 else last


def counted(ns, rng, values):
    x = one(rng, floats(values))
    count = int(rng.integers(1, 4))
    if x is None:
        return None
    return ns.lax.fori_loop(0, count, lambda i, c: ns.np.sin(c) + (i * x).astype(x.dtype), x)


def drawn(ns, rng, values):
    shape = one(rng, values).shape
    key = ns.random.fold_in(ns.random.key(int(rng.integers(100))), int(rng.integers(10)))
    name = str(rng.choice(["uniform", "normal", "bernoulli"]))
    if name == "bernoulli":
        return ns.random.bernoulli(key, 0.4, shape)
    return getattr(ns.random, name)(key, shape)


STEPS = (
    [unary] * 4 + [bounded] * 3 + [binary] * 4 + [scaled] * 2 + [divided] * 2 + [compared] * 2
    + [reduced] * 3 + [reshaped, transposed, sliced, indexed, updated, joined, padded, rolled]
    + [multiplied] * 2 + [of_integers, cumulated, sorted_, cast, chosen, scanned, counted, drawn]
)  # fmt: skip


# -- collectives ---------------------------------------------------------------------------------


def collective(ns, rng, values, axes):
    """Exchange something between the devices of a manual computation."""
    x = one(rng, [v for v in floats(values) if v.ndim and v.shape[0]])
    if x is None:
        return None
    axis = str(rng.choice(list(axes)))
    count = axes[axis]
    how = int(rng.integers(6))
    if how == 0:
        return x * ns.lax.psum(ns.np.sum(x), axis)
    if how == 1:
        return x - ns.lax.pmean(x, axis)
    if how == 2:
        return ns.np.sum(ns.lax.all_gather(x, axis), axis=0) * 0.5
    if how == 3:
        return ns.lax.ppermute(x, axis, [(i, (i + 1) % count) for i in range(count)])
    if how == 4 and x.shape[0] % count == 0:
        return ns.lax.all_to_all(x, axis, 0, 0, tiled=True)
    return x * ns.lax.axis_index(axis)

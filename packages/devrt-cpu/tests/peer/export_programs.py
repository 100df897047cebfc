"""Exports programs of every kind from one version of jax, with its results: run where jax is.

``python export_programs.py FOLDER`` writes for each program ``NAME.mlir``, ``NAME.mlirbc`` and
``NAME.npz`` (``in0``..., ``out0``...), and ``index.json``: which there are, over which mesh each is
divided, and what this version of jax could not export.
"""

import json
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.experimental import sparse
from jax.sharding import Mesh, NamedSharding, PartitionSpec

try:
    from jax import shard_map
except ImportError:  # its name until 0.8
    from jax.experimental.shard_map import shard_map

RANDOM = np.random.default_rng(7)
Made = tuple[str, Any, list[np.ndarray], Any]
PLATFORM = "cpu"


def normal(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


# One device.


def mlp(weights, x):
    for w, b in weights[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = weights[-1]
    return jax.nn.log_softmax(x @ w + b)


def loss(weights, x, labels):
    picked = jnp.take_along_axis(mlp(weights, x), labels[:, None], axis=1)
    return -picked.mean()


def train_step(flat, x, labels):
    weights = [(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]
    value, slopes = jax.value_and_grad(loss)(weights, x, labels)
    return value, jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, weights, slopes)


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


def convolutions(x, w, deep):
    y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    z = lax.conv_general_dilated(
        x, deep, (1, 1), "VALID", rhs_dilation=(2, 1), feature_group_count=3,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    return y, z, pooled, jnp.var(y, axis=(0, 1, 2))


def spectra(x):
    return jnp.fft.fft(x), jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fft2(x)


def decompositions(a, b):
    positive = a @ a.T + 4 * jnp.eye(a.shape[0], dtype=a.dtype)
    q, r = jnp.linalg.qr(a)
    u, s, vt = jnp.linalg.svd(a)
    values, vectors = jnp.linalg.eigh(positive)
    return (
        jnp.linalg.cholesky(positive),
        jnp.linalg.solve(positive, b),
        jnp.linalg.inv(positive),
        jnp.linalg.det(a),
        q @ r,
        (u * s) @ vt,
        values,
        (vectors * values) @ vectors.T,
        lax.linalg.triangular_solve(positive, b, left_side=True, lower=True),
    )


def eigenvalues(a):
    """Return what does not depend on the order of the eigenvalues."""
    values, vectors = jnp.linalg.eig(a)
    return values.sum(), jnp.abs(values).max(), jnp.abs(a @ vectors - vectors * values).max() < 1e-3


def forms(a):
    form, vectors = jax.scipy.linalg.schur(a)
    symmetric = a + a.T
    return vectors @ form @ vectors.T, jax.scipy.linalg.sqrtm(a @ a.T + jnp.eye(4)), symmetric


def hessenberg(a):
    reduced, taus = lax.linalg.hessenberg(a)
    q = lax.linalg.householder_product(reduced[:, :-1][1:], taus)
    return jnp.triu(reduced, -1), q @ q.T


def random_bits(seed):
    key = jax.random.wrap_key_data(jnp.stack([seed, seed + 1]))
    keys = jax.random.split(key, 4)
    return (
        jax.random.bits(keys[0], (7,)),
        jax.random.normal(keys[1], (3, 4)),
        jax.random.randint(keys[2], (5,), 0, 100),
        jax.random.permutation(keys[3], 9),
        jax.random.categorical(keys[3], jnp.zeros((6, 3))),
    )


def random_philox(seed):
    values, state = lax.rng_bit_generator(jnp.stack([seed] * 4), (8,))
    return values, state


def control_flow(x, n):
    total = lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))
    carried, steps = lax.scan(lambda c, y: (c + y, c * y), x[0], x)
    chosen = lax.cond(n > 2, jnp.sin, jnp.cos, x)
    branch = lax.switch(n, [lambda v: v + 1, lambda v: v * 2, lambda v: v - 3], x)
    mapped = lax.map(lambda v: v * v, x)
    looped = lax.fori_loop(0, 4, lambda i, v: v.at[i].add(i), x)
    return total[1], carried, steps, chosen, branch, mapped, looped


def ordered(x, i):
    values, places = lax.top_k(x, 3)
    return (
        jnp.sort(x), jnp.argsort(x), values, places, jnp.argmax(x, axis=1), jnp.cumsum(i, axis=1),
        jnp.unique(i, size=4), jnp.median(x), jnp.searchsorted(jnp.sort(x[0]), x[1]),
    )  # fmt: skip


def special(x):
    functions = (
        lax.erf, lax.erfc, lax.erf_inv, lax.lgamma, lax.digamma, lax.bessel_i1e, jnp.sinh, jnp.cosh,
        jnp.tan, jnp.arctanh, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh, jnp.cbrt, jnp.expm1,
    )  # fmt: skip
    more = (jnp.arccosh(1 + x), lax.igamma(x, x + 1), lax.betainc(x, x, x), lax.zeta(1 + x, x))
    return tuple(f(x) for f in functions) + more + (jax.scipy.special.polygamma(1, x),)


def indexing(x, i, u):
    return (
        x[i], x.at[i].set(u), x.at[i].add(u), x.at[i].max(u), jnp.take(x, i, axis=1, mode="clip"),
        lax.dynamic_slice(x, (i[0], 1), (2, 3)), lax.dynamic_update_slice(x, u[:, :2], (i[1], 0)),
        jax.ops.segment_sum(x, jnp.arange(len(x)) // 2, 3),
    )  # fmt: skip


def narrow(x):
    half, brain = x.astype(jnp.float16), x.astype(jnp.bfloat16)
    eighth = x.astype(jnp.float8_e4m3fn).astype(jnp.float32)
    bits = lax.bitcast_convert_type(x, jnp.int32)
    wide = lax.dot_general(brain, brain.T, (((1,), (0,)), ((), ())),
                           preferred_element_type=jnp.float32)  # fmt: skip
    counted = lax.population_count(bits), lax.clz(bits)
    return half * 2, (brain + 1).astype(jnp.float32), eighth, bits, wide, counted


def complex_numbers(x):
    return (
        jnp.exp(x),
        jnp.abs(x),
        x.conj() * x,
        jnp.angle(x),
        jnp.sqrt(x),
        jnp.tanh(x),
        jnp.log1p(x),
    )


def ragged(x, w, sizes):
    return lax.ragged_dot(x, w, sizes)


def checkpointed(x, w):
    once = jax.checkpoint(lambda v: jnp.sin(v @ w))
    slopes = jax.grad(lambda v: once(once(v)).sum())(x)
    return slopes, jax.jvp(once, (x,), (x,))[1], jax.hessian(lambda v: (v**3).sum())(x[0])


def custom_rule(x):
    @jax.custom_vjp
    def clipped(v):
        return jnp.clip(v, -1, 1)

    clipped.defvjp(lambda v: (clipped(v), v), lambda v, g: (g * (jnp.abs(v) < 1),))
    return jax.vmap(jax.grad(lambda v: clipped(v) * 2))(x)


def banded(below, diagonal, above, b):
    return lax.linalg.tridiagonal_solve(below, diagonal, above, b)


def singular(below, diagonal, above, b):
    return lax.linalg.tridiagonal_solve(below, diagonal, above, b, perturb_singular=True)


def sparse_product(data, columns, starts, x):
    a = sparse.BCSR((data, columns, starts), shape=(3, 5))
    return a @ x, a @ x[:, 0]


def single():
    sizes = [(6, 16), (16, 16), (16, 5)]
    flat = [value for n, m in sizes for value in (normal(n, m) / 4, normal(m))]
    x, labels = normal(8, 6), RANDOM.integers(0, 5, 8).astype(np.int32)

    def mlp_flat(x, *flat):
        return mlp([(flat[i], flat[i + 1]) for i in range(0, len(flat), 2)], x)

    def step_flat(x, labels, *flat):
        return train_step(flat, x, labels)

    positive = RANDOM.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
    complexes = (normal(6) + 1j * normal(6)).astype(np.complex64)
    indices = np.array([1, 3], np.int32)
    yield "mlp", mlp_flat, [x, *flat], {}
    yield "train_step", step_flat, [x, labels, *flat], {}
    yield "donated", step_flat, [x, labels, *flat], {"donate_argnums": tuple(range(2, 8))}
    yield "attention", attention, [normal(2, 5, 3, 4) for _ in range(3)], {}
    yield "conv", convolutions, [normal(2, 8, 7, 3), normal(3, 3, 3, 4), normal(2, 2, 1, 6)], {}
    yield "fft", spectra, [normal(4, 8)], {}
    yield "linalg", decompositions, [normal(4, 4), normal(4, 2)], {}
    yield "linalg_batch", jax.vmap(decompositions), [normal(3, 4, 4), normal(3, 4, 2)], {}
    yield "eig", eigenvalues, [normal(4, 4)], {}
    yield "forms", forms, [normal(4, 4)], {}
    yield "hessenberg", hessenberg, [normal(4, 4)], {}
    yield "banded", banded, [normal(5), normal(5) + 8, normal(5), normal(5, 2)], {}
    path = [np.array(values, np.float32) for values in ([0, -1, -1], [1, 2, 1], [-1, -1, 0])]
    yield "singular", singular, [*path, np.eye(3, 1, dtype=np.float32)], {}
    columns, starts = np.array([0, 3, 4, 1], np.int32), np.array([0, 2, 2, 4], np.int32)
    yield "sparse", sparse_product, [normal(4), columns, starts, normal(5, 2)], {}
    yield "rng", random_bits, [np.uint32(17)], {}
    yield "philox", random_philox, [np.uint32(17)], {}
    yield "control_flow", control_flow, [normal(6), np.int32(2)], {}
    yield "ordered", ordered, [normal(4, 6), RANDOM.integers(0, 4, (2, 5)).astype(np.int32)], {}
    yield "special", special, [positive], {}
    yield "indexing", indexing, [normal(5, 4), indices, normal(2, 4)], {}
    eighths = (RANDOM.integers(-8, 9, (3, 4)) / 4).astype(np.float32)  # no format rounds them
    yield "narrow", narrow, [eighths], {}
    yield "complex", complex_numbers, [complexes], {}
    yield "ragged", ragged, [normal(6, 3), normal(2, 3, 4), np.array([2, 4], np.int32)], {}
    yield "checkpoint", checkpointed, [normal(3, 3), normal(3, 3)], {}
    yield "custom_rule", custom_rule, [normal(7)], {}
    yield "symbolic", mlp_flat, [x, *flat], {"symbolic": "b, 6"}


# Several devices.


def divided():
    devices = np.array(jax.devices()[:8])
    plane = Mesh(devices.reshape(4, 2), ("data", "model"))
    line = Mesh(devices, ("x",))
    spec = PartitionSpec
    w1, w2, x = normal(6, 8), normal(8, 4), normal(8, 6)

    def two_layers(x, w1, w2):
        hidden = lax.with_sharding_constraint(
            jnp.tanh(x @ w1), NamedSharding(plane, spec("data", "model"))
        )
        return hidden @ w2, (hidden**2).sum()

    specs = [spec("data"), spec(None, "model"), spec("model")]
    yield "sharded_mlp", two_layers, [x, w1, w2], {"mesh": plane, "in_specs": specs}

    def local(x):
        return (
            lax.psum(x, "x"), lax.all_gather(x, "x"), lax.ppermute(x, "x", [(i, (i + 1) % 8)
            for i in range(8)]), lax.psum_scatter(x, "x", tiled=True), lax.pmax(x, "x"),
            lax.all_to_all(x, "x", 0, 0, tiled=True), x + lax.axis_index("x"), lax.pmean(x, "x"),
        )  # fmt: skip

    out_specs = tuple(map(spec, [None, None, "x", "x", None, "x", "x", None]))
    manual = mapped(local, line, spec("x"), out_specs)
    yield "collectives", manual, [normal(64, 3)], {"mesh": line, "in_specs": [spec("x")]}

    def ring(x, w):
        partial_sum = lax.psum(x @ w, "model")
        return lax.psum(partial_sum.sum(), "data"), partial_sum

    both = mapped(ring, plane, (spec("data", "model"), spec("model")), (spec(), spec("data")))
    specs = [spec("data", "model"), spec("model")]
    yield "shard_map_2d", both, [x, normal(6, 4)], {"mesh": plane, "in_specs": specs}


def mapped(function, mesh, in_specs, out_specs):
    """Return a function of parts; what differs between them is not checked, under any name."""
    make = partial(shard_map, function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    try:
        return make(check_vma=False)
    except TypeError:  # its name until 0.7
        return make(check_rep=False)


# Exporting.


def exported(name, function, arguments, how):
    how = dict(how)
    symbolic, mesh = how.pop("symbolic", None), how.pop("mesh", None)
    if mesh is not None:
        how["in_shardings"] = tuple(NamedSharding(mesh, spec) for spec in how.pop("in_specs"))
    jitted = jax.jit(function, keep_unused=True, **how)
    specs = list(arguments)
    if symbolic:
        shape = export.symbolic_shape(symbolic)
        specs[0] = jax.ShapeDtypeStruct(shape, arguments[0].dtype)
    checks = [export.DisabledSafetyCheck.custom_call(target) for target in UNCHECKED]
    program = export.export(jitted, platforms=[PLATFORM], disabled_checks=checks)(*specs)
    copies = [jnp.array(a) for a in arguments] if mesh is None else arguments
    return program, jax.tree_util.tree_leaves(jitted(*copies))


ROUTINES = (
    "geev gees gehrd geqp3 geqrf gesdd gesvd getrf gtsv orgqr ormqr ungqr unmqr potrf syevd heevd "
    "sytrd hetrd trsm"
)
UNCHECKED = [
    f"{library}_{letter}{routine}{end}"
    for library in ("lapack", "blas")
    for letter in "sdcz"
    for routine in ROUTINES.split()
    for end in ("", "_ffi")
] + ["tridiagonal_solve_perturbed_ffi", "cpu_csr_sparse_dense_ffi"]


def stored(value):
    array = np.asarray(value)
    return array if array.dtype.kind in "biufc" else array.view(f"u{array.dtype.itemsize}")


def main(folder):
    index = {"jax": jax.__version__, "programs": {}, "failed": {}}
    for name, function, arguments, how in [*single(), *divided()]:
        try:
            program, results = exported(name, function, arguments, how)
        except Exception as error:  # noqa: BLE001 - what this version cannot is reported, not hidden
            index["failed"][name] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        (folder / f"{name}.mlir").write_text(str(program.mlir_module()))
        (folder / f"{name}.mlirbc").write_bytes(program.mlir_module_serialized)
        values = {f"in{i}": stored(a) for i, a in enumerate(arguments)}
        values |= {f"out{i}": stored(r) for i, r in enumerate(results)}
        np.savez(folder / f"{name}.npz", **values)
        index["programs"][name] = {
            "out": [str(np.asarray(r).dtype) for r in results],
            "mesh": list(how["mesh"].shape.items()) if "mesh" in how else None,
            "symbolic": "symbolic" in how,
        }
    (folder / "index.json").write_text(json.dumps(index, indent=1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))

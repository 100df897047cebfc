"""Exports linear algebra from jax, with arguments and jax's own results: run where jax is.

``python jax_programs.py FOLDER SEED COUNT`` writes ``NAME.mlirbc`` and ``NAME.npz`` (``in0``...,
``out0``...) for each program.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

jax.config.update("jax_enable_x64", True)

Case = tuple[str, Callable[..., Any], list[np.ndarray], tuple[int, ...]]


def matrix(random, shape, dtype):
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def linalg(random, count):
    """Yield one program for each routine and dtype, `count` times in other shapes."""
    for step in range(count):
        n, m, k = (int(x) for x in random.integers(1, 9, 3))
        batch = tuple(int(x) for x in random.integers(1, 4, random.integers(0, 3)))
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            for name, function, arguments in routines(random, batch, (n, m, k), dtype):
                yield f"{name}_{np.dtype(dtype).name}_{step}", function, arguments, ()


def routines(random, batch, sizes, dtype):
    n, m, k = sizes
    square = matrix(random, (*batch, n, n), dtype)
    wide = matrix(random, (*batch, n, m), dtype)
    right = matrix(random, (*batch, n, k), dtype)
    symmetric = square + np.swapaxes(square, -1, -2).conj()
    positive = square @ np.swapaxes(square, -1, -2).conj() + n * np.eye(n, dtype=dtype)
    yield "cholesky", jnp.linalg.cholesky, [positive]
    yield "lu", lax.linalg.lu, [wide]
    yield "qr", jnp.linalg.qr, [wide]
    yield "qr_full", lambda a: jnp.linalg.qr(a, mode="complete"), [wide]
    yield "eigh", lambda a: jnp.linalg.eigh(a)[0], [symmetric]
    yield "svd_values", lambda a: jnp.linalg.svd(a, compute_uv=False), [wide]
    yield "svd", lambda a: rebuilt(*jnp.linalg.svd(a, full_matrices=False)), [wide]
    yield "svd_full", lambda a: jnp.linalg.svd(a, full_matrices=True)[1], [wide]
    yield "svd_qr", lambda a: svd_by_qr(a), [wide]
    yield "eig", lambda a: residual(a, *lax.linalg.eig(a)), [square]
    yield "schur", lambda a: schur_rebuilt(*lax.linalg.schur(a)), [square]
    yield "hessenberg", lax.linalg.hessenberg, [square]
    yield "tridiagonal", lax.linalg.tridiagonal, [symmetric]
    yield "solve", jnp.linalg.solve, [positive, right]
    yield "triangular", triangular, [positive, right]
    yield "inverse", jnp.linalg.inv, [positive]
    diagonal = matrix(random, (*batch, n), dtype) + 8
    beside = matrix(random, (*batch, n), dtype)
    if n > 2:
        yield "banded", lax.linalg.tridiagonal_solve, [beside, diagonal, beside, right]
    if not batch:
        yield "qr_pivoted", lambda a: jax.scipy.linalg.qr(a, pivoting=True), [wide]


def rebuilt(u, s, vt):
    return (u * s[..., None, :].astype(u.dtype)) @ vt


def svd_by_qr(a):
    return lax.linalg.svd(a, full_matrices=False, algorithm=lax.linalg.SvdAlgorithm.QR)[1]


def residual(a, values, left, right):
    """Return what must be zero, so that the order of the eigenvalues does not matter."""
    of_right = a @ right - right * values[..., None, :]
    adjoint = jnp.swapaxes(left, -1, -2).conj()
    return of_right, adjoint @ a - values[..., None] * adjoint, values.sum(-1)


def schur_rebuilt(form, vectors):
    return vectors @ form @ jnp.swapaxes(vectors, -1, -2).conj()


def triangular(a, b):
    solve = lax.linalg.triangular_solve
    return (
        solve(a, b, left_side=True, lower=True),
        solve(a, b, left_side=True, lower=False, transpose_a=True),
        solve(a, jnp.swapaxes(b, -1, -2), left_side=False, lower=True, unit_diagonal=True),
        solve(a, b, left_side=True, lower=True, transpose_a=True, conjugate_a=True),
    )


def write(folder, case):
    name, function, arguments, donated = case
    jitted = jax.jit(function, donate_argnums=donated, keep_unused=True)
    allowed = [export.DisabledSafetyCheck.custom_call("lapack_" + n) for n in unstable()]
    exported = export.export(jitted, platforms=["cpu"], disabled_checks=allowed)(*arguments)
    results = jax.tree.leaves(jax.jit(function)(*arguments))
    data = {f"in{i}": bits(a) for i, a in enumerate(arguments)}
    data |= {f"out{i}": bits(np.asarray(r)) for i, r in enumerate(results)}
    (folder / f"{name}.mlirbc").write_bytes(exported.mlir_module_serialized)
    np.savez(folder / f"{name}.npz", **data)


def unstable():
    names = ["gesvd", "geqp3", "ormqr", "unmqr"]
    return [f"{letter}{name}_ffi" for name in names for letter in "sdcz"]


def bits(value):
    return value.view(np.uint16) if value.dtype.name == "bfloat16" else value


def main(folder, seed, count):
    random = np.random.default_rng(int(seed))
    for case in linalg(random, int(count)):
        write(Path(folder), case)


if __name__ == "__main__":
    main(*sys.argv[1:])

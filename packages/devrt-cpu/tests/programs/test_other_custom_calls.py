"""What jax leaves to custom calls beside LAPACK: singular tridiagonal systems, sparse products."""

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError

pytestmark = pytest.mark.engine
pytest.importorskip("scipy", reason="needs SciPy")

TYPES = {"float32": "f32", "float64": "f64", "int32": "i32"}
TYPES |= {"complex64": "complex<f32>", "complex128": "complex<f64>"}
DTYPES = ["float32", "float64", "complex64", "complex128"]


def called(client, target, operands, shape, dtype, *, by_column=False):
    """Return the result of a custom call; of those by column, operands of rank 3 lie so too."""

    def tensor(shape, dtype):
        return f"tensor<{''.join(f'{n}x' for n in shape)}{TYPES[np.dtype(dtype).name]}>"

    def layout(rank):
        order = [*range(rank)][::-1]
        if by_column and rank == 3:
            order[:2] = order[1::-1]
        return f"dense<{order}> : tensor<{rank}xindex>"

    ins = [tensor(a.shape, a.dtype) for a in operands]
    out = tensor(shape, dtype)
    text = f"""func.func @main({", ".join(f"%a{i}: {t}" for i, t in enumerate(ins))}) -> {out} {{
      %r = stablehlo.custom_call @{target}({", ".join(f"%a{i}" for i in range(len(ins)))}) {{
        api_version = 4 : i32, operand_layouts = [{", ".join(layout(a.ndim) for a in operands)}],
        result_layouts = [{layout(len(shape))}]}} : ({", ".join(ins)}) -> {out}
      return %r : {out} }}"""
    executable = client.compile_and_load(text)
    return np.asarray(executable.execute([client.buffer_from_pyval(a) for a in operands])[0])


def solved(client, below, diagonal, above, b):
    operands = [np.ascontiguousarray(a) for a in (below, diagonal, above, b)]
    target = "tridiagonal_solve_perturbed_ffi"
    return called(client, target, operands, b.shape, b.dtype, by_column=True)


def made(dtype, shape, seed):
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
@pytest.mark.parametrize("dtype", DTYPES)
def test_regular_tridiagonal_systems(client, dtype, n):
    below, diagonal, above = (made(dtype, (2, n), seed) for seed in range(3))
    diagonal[:, : n // 2] /= 100  # so that rows are exchanged
    b = made(dtype, (2, n, 3), 3)
    x = solved(client, below, diagonal, above, b)
    for i in range(2):
        full = np.diag(diagonal[i]) + np.diag(below[i, 1:], -1) + np.diag(above[i, :-1], 1)
        wide = np.linalg.solve(full.astype(np.complex128), b[i])
        scale = np.linalg.cond(full) * np.finfo(dtype).eps * np.abs(wide).max()
        np.testing.assert_allclose(x[i], wide, rtol=0, atol=20 * scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_tridiagonal_systems_have_finite_solutions(client, dtype):
    zeros, ones = np.zeros((1, 4), dtype), np.ones((1, 4, 1), dtype)
    limits = np.finfo(dtype)
    none = solved(client, zeros, zeros, zeros, ones)
    np.testing.assert_array_equal(none, ones / limits.tiny)
    large = solved(client, zeros, zeros, zeros, 100 * ones)
    assert np.isfinite(large).all()
    assert (np.abs(large) > limits.max / 10).all()
    # a path's Laplacian: what it takes to zero is constant
    diagonal = np.array([[1, 2, 2, 1]], dtype)
    first = np.eye(4, 1, dtype=dtype)[None]
    found = solved(client, zeros - 1, diagonal, zeros - 1, first)
    np.testing.assert_allclose(found.real, np.full((1, 4, 1), 1 / limits.eps), rtol=1e-6)
    small = np.array([[1, 1e-20, -1e-20, 2]], dtype)  # no reason to touch these
    found = solved(client, zeros, small, zeros, ones)
    np.testing.assert_allclose(found[0, :, 0], 1 / small[0], rtol=1e-6)
    assert np.isnan(solved(client, zeros, zeros * np.nan, zeros, ones)).all()


@pytest.mark.parametrize("width", [None, 1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_products(client, dtype, width):
    dense = made(dtype, (4, 5), 1) * (np.random.default_rng(2).random((4, 5)) < 0.4)
    dense[1] = 0
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(5)).astype(np.int32)
    operands = [dense[rows, columns], starts, columns.astype(np.int32)]
    right = made(dtype, (5,) if width is None else (5, width), 3)
    shape = (4, *right.shape[1:])
    found = called(client, "cpu_csr_sparse_dense_ffi", [*operands, right], shape, dtype)
    tolerance = 10 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, dense @ right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("starts", "columns", "message"),
    [
        ([0, 1, 3], [0, 1], "a row lies outside"),
        ([-1, 1, 2], [0, 1], "a row lies outside"),
        ([0, 1, 2], [0, 3], "a column is out of range"),
        ([0, 1, 2], [-1, 0], "a column is out of range"),
        ([0, 2], [0, 1], "wrong shape"),
    ],
)
def test_sparse_products_read_nothing_outside(client, starts, columns, message):
    values, right = np.ones(2, np.float32), np.ones((3, 2), np.float32)
    operands = [values, np.array(starts, np.int32), np.array(columns, np.int32), right]
    with pytest.raises(InvalidArgumentError, match=f"cpu_csr_sparse_dense_ffi failed: .*{message}"):
        called(client, "cpu_csr_sparse_dense_ffi", operands, (2, 2), np.float32)

"""Linear algebra beside NumPy's, and by what defines each result."""

import numpy as np
import pytest

import devrt.numpy as jnp
from beside_numpy import check, compare
from devrt import grad
from devrt.errors import InvalidArgumentError
from devrt.numpy import linalg
from devrt.programs.jit import jit

pytestmark = pytest.mark.engine
DTYPES = "float32 float64 complex64 complex128".split()


def tolerance(dtype):
    return 1e-10 if dtype in ("float64", "complex128") else 5e-4


def make(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def hermitian(dtype, size=4):
    a = make((2, size, size), dtype)
    return a @ adjoint(a) + np.eye(size, dtype=dtype) / 2


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


def eye_like(a):
    return np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_xla_writes_out(dtype):
    check(
        [
            lambda m, a, h, b, r: m.linalg.cholesky(h),
            lambda m, a, h, b, r: m.linalg.cholesky(h, upper=True),
            lambda m, a, h, b, r: m.linalg.solve(a, r),
            lambda m, a, h, b, r: m.linalg.inv(a),
            lambda m, a, h, b, r: m.linalg.det(a),
            lambda m, a, h, b, r: tuple(m.linalg.slogdet(a)),
            lambda m, a, h, b, r: m.linalg.eigvalsh(h),
            lambda m, a, h, b, r: m.linalg.eigvalsh(h, "U"),
            lambda m, a, h, b, r: m.linalg.matrix_power(a, -3),
            lambda m, a, h, b, r: m.linalg.matrix_power(a, 5),
            lambda m, a, h, b, r: m.linalg.matrix_power(a, 0),
            lambda m, a, h, b, r: m.linalg.multi_dot([b, b.T, b, b.T]),
            lambda m, a, h, b, r: m.linalg.trace(a),
            lambda m, a, h, b, r: m.linalg.diagonal(a, offset=1),
        ],
        make((2, 4, 4), dtype),
        hermitian(dtype),
        make((5, 3), dtype),
        make((2, 4, 2), dtype, 1),
        tolerance=tolerance(dtype),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors(dtype):
    h, b = hermitian(dtype), make((2, 5, 3), dtype)
    within = {"rtol": tolerance(dtype), "atol": tolerance(dtype)}

    @jit
    def factors(h, b):
        tall = [linalg.qr(b, mode=mode) for mode in ("reduced", "complete")]
        wide = linalg.qr(jnp.matrix_transpose(b))
        return linalg.eigh(h), tall, wide

    (values, vectors), tall, wide = factors(h, b)
    vectors = np.asarray(vectors)
    np.testing.assert_allclose(
        vectors * np.asarray(values)[:, None] @ adjoint(vectors), h, **within
    )
    for (q, r), expected, columns in ((tall[0], b, 3), (tall[1], b, 5), (wide, b.mT, 3)):
        q = np.asarray(q)
        assert q.shape[-1] == columns
        np.testing.assert_allclose(q @ np.asarray(r), expected, **within)
        np.testing.assert_allclose(adjoint(q) @ q, eye_like(adjoint(q) @ q), **within)


def test_close_eigenvalues():
    h = np.diag([1, 1, 1 + 1e-9, 2]).astype(np.float64)
    basis = np.linalg.qr(make((4, 4), "float64"))[0]
    h = basis @ h @ basis.T
    values, vectors = map(np.asarray, linalg.eigh(h))
    np.testing.assert_allclose(vectors * values @ vectors.T, h, atol=1e-13)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-12)


ORDERS_OF_MATRICES = (None, "fro", 1, -1, np.inf, -np.inf)
ORDERS_OF_VECTORS = (None, 0, 1, 2, 3, -2, 0.5, np.inf, -np.inf)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_norms(dtype):
    cases = [lambda m, a, o=o: m.linalg.norm(a, ord=o, axis=1) for o in ORDERS_OF_VECTORS]
    cases += [lambda m, a, o=o: m.linalg.norm(a, ord=o, axis=(1, 0)) for o in ORDERS_OF_MATRICES]
    cases += [
        lambda m, a: m.linalg.vector_norm(a, axis=(0, 1), keepdims=True),
        lambda m, a: m.linalg.vector_norm(a),
        lambda m, a: m.linalg.matrix_norm(a, keepdims=True),
        lambda m, a: m.linalg.norm(a),
        lambda m, a: m.linalg.cond(a, p=1),
    ]
    check(cases, make((2, 3, 3), dtype), tolerance=5e-4)


def test_integers_become_fractions():
    a = np.array([[2, 1], [1, 3]], np.int32)
    assert linalg.inv(a).dtype == np.float32
    compare([linalg.matrix_power(a, 2)], [np.linalg.matrix_power(a, 2)])
    compare([linalg.det(a)], [np.float32(5)])
    assert linalg.eigh(a).eigenvalues.dtype == np.float32
    half = a.astype(np.float16)
    assert linalg.solve(half, half).dtype == np.float16


def test_of_no_elements():
    none = np.zeros((2, 0, 0), np.float32)
    compare([linalg.det(none)], [np.ones(2, np.float32)])
    for name in ("cholesky", "inv", "pinv"):
        assert getattr(linalg, name)(none).shape == (2, 0, 0)
    assert linalg.svd(np.zeros((0, 3), np.float32)).Vh.shape == (3, 3)
    assert linalg.qr(np.zeros((3, 0), np.float32), mode="complete").Q.shape == (3, 3)


def test_tensors():
    a = make((4, 6, 8, 3), "float64")
    b = make((4, 6), "float64", 1)
    compare([linalg.tensorsolve(a, b)], [np.linalg.tensorsolve(a, b)], 1e-8)
    compare([linalg.tensorinv(a)], [np.linalg.tensorinv(a)], 1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_lapack_does(dtype):
    pytest.importorskip("scipy", reason="needs SciPy")
    a, b = make((2, 4, 4), dtype), make((2, 5, 3), dtype)
    check(
        [
            lambda m, a, b, c: m.linalg.svdvals(b),
            lambda m, a, b, c: m.linalg.pinv(b),
            lambda m, a, b, c: m.linalg.matrix_rank(b),
            lambda m, a, b, c: m.linalg.matrix_norm(b, ord=2),
            lambda m, a, b, c: m.linalg.norm(b, ord="nuc", axis=(1, 2)),
            lambda m, a, b, c: m.linalg.cond(b),
            lambda m, a, b, c: m.linalg.cond(b, -2),
            lambda m, a, b, c: m.linalg.lstsq(m.sum(b, axis=0), c, rcond=None)[:2],
        ],
        a,
        b,
        make((5, 2), dtype, 1),
        tolerance=tolerance(dtype),
    )
    within = {"rtol": tolerance(dtype), "atol": tolerance(dtype)}
    h = hermitian(dtype) - 2 * np.eye(4, dtype=dtype)
    for found, expected in (
        (linalg.svd(b, full_matrices=False), b),
        (linalg.svd(h, hermitian=True), h),
    ):
        u, s, vh = map(np.asarray, found)
        np.testing.assert_allclose(u * s[:, None] @ vh, expected, **within)
    assert [x.shape for x in linalg.svd(b)] == [(2, 5, 5), (2, 3), (2, 3, 3)]
    values, vectors = map(np.asarray, linalg.eig(a))
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None], **within)


def test_what_has_no_result_is_not_a_number():
    indefinite = np.array([[1, 2], [2, 1]], np.float32)
    assert (
        np.isnan(linalg.cholesky(indefinite)).all() or np.isnan(linalg.cholesky(indefinite)).any()
    )
    assert not np.isfinite(linalg.inv(np.zeros((2, 2), np.float32))).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a, b: linalg.inv(b), r"square.*float32\[4,2\]"),
        (lambda a, b: linalg.cholesky(linalg.diagonal(a)), r"float32\[4\]"),
        (lambda a, b: linalg.solve(a, jnp.matrix_transpose(b)), r"\[4,4\].*\[2,4\]"),
        (lambda a, b: linalg.norm(a, ord="other"), "other"),
        (lambda a, b: linalg.matrix_norm(a, ord=3), "order 3"),
        (lambda a, b: linalg.qr(a, mode="full"), "reduced"),
        (lambda a, b: linalg.eigh(a, UPLO="X"), "UPLO"),
        (lambda a, b: linalg.outer(a, b), "vectors"),
        (lambda a, b: linalg.cross(a, a), "size 3"),
        (lambda a, b: linalg.lstsq(a, b[:3] if isinstance(b, np.ndarray) else b.T), "lstsq"),
    ],
)
def test_what_does_not_fit(call, words):
    a = hermitian("float32")[0]
    with pytest.raises(InvalidArgumentError, match=words):
        jit(call)(a, a[:, :2])


def test_gradients_of_what_equations_give():
    a, b = make((3, 3), "float64"), make((3, 2), "float64", 1)
    cases = (
        lambda m, x: m.linalg.det(x),
        lambda m, x: m.linalg.slogdet(x)[1],
        lambda m, x: (m.linalg.solve(x, b) ** 2).sum(),
        lambda m, x: m.linalg.inv(x).sum(),
        lambda m, x: (m.linalg.solve(a, x) ** 2).sum(),
    )
    found = jit(lambda x: [grad(lambda x, f=f: f(jnp, x))(x) for f in cases])(a)
    for case, gradient in zip(cases, found, strict=True):
        for index in ((0, 0), (2, 1)):
            step = np.zeros_like(a)
            step[index] = 1e-6
            slope = (case(np, a + step) - case(np, a - step)) / 2e-6
            np.testing.assert_allclose(np.asarray(gradient)[index], slope, rtol=1e-5, atol=1e-6)

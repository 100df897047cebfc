"""Products of matrices and vectors, and Einstein's sums, beside NumPy."""

import numpy as np
import pytest

import devrt.numpy as jnp
from beside_numpy import check
from devrt.errors import InvalidArgumentError
from devrt.programs.jit import jit

pytestmark = pytest.mark.engine

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
Y = RANDOM.standard_normal((3, 4)).astype(np.float32)
V = RANDOM.standard_normal(4).astype(np.float32)
S = RANDOM.standard_normal((3, 3)).astype(np.float32)
C = (X + 1j * X[::-1]).astype(np.complex64)


def test_products():
    check(
        [
            lambda m, x, y, v, s: m.matmul(x, y.T),
            lambda m, x, y, v, s: m.matmul(y, m.swapaxes(x, 1, 2)),
            lambda m, x, y, v, s: x @ m.matrix_transpose(x),
            lambda m, x, y, v, s: m.matmul(v, m.matrix_transpose(x)),
            lambda m, x, y, v, s: m.matmul(x, v),
            lambda m, x, y, v, s: v @ v,
            lambda m, x, y, v, s: m.matmul(m.expand_dims(x, 1), m.matrix_transpose(x)),
            lambda m, x, y, v, s: m.dot(x, y.T),
            lambda m, x, y, v, s: m.dot(y, m.matrix_transpose(x)),
            lambda m, x, y, v, s: m.dot(x, 2.0),
            lambda m, x, y, v, s: m.vdot(y, y),
            lambda m, x, y, v, s: m.inner(x, y),
            lambda m, x, y, v, s: m.inner(2.0, y),
            lambda m, x, y, v, s: m.outer(x, y),
            lambda m, x, y, v, s: m.tensordot(x, y, [[1, 2], [0, 1]]),
            lambda m, x, y, v, s: m.tensordot(x, y.T, 1),
            lambda m, x, y, v, s: m.tensordot(x, y, axes=(1, 0)),
            lambda m, x, y, v, s: m.tensordot(v, v, 0),
            lambda m, x, y, v, s: m.cross(s, s.T),
            lambda m, x, y, v, s: m.cross(s, s.T, axis=0),
            lambda m, x, y, v, s: m.kron(y, x),
            lambda m, x, y, v, s: m.kron(x, v),
        ],
        X,
        Y,
        V,
        S,
    )


def test_products_of_complex_numbers():
    check(
        [
            lambda m, c: m.vdot(c, c),
            lambda m, c: m.matmul(c, m.matrix_transpose(c)),
            lambda m, c: m.einsum("ijk,ijl->kl", c, c),
        ],
        C,
    )
    expected = np.sum(C.conj() * C, axis=1)
    np.testing.assert_allclose(jnp.vecdot(C, C, axis=1), expected, rtol=1e-5)


def test_of_other_dtypes():
    i = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    b = i % 3 == 0
    check([lambda m, i: m.matmul(i, i.T), lambda m, i: m.einsum("ij,ij->j", i, i)], i)
    check([lambda m, b: m.matmul(b, b.T), lambda m, b: m.einsum("ij,ij->j", b, b)], b)
    wide = jnp.matmul(i, i.T, preferred_element_type=np.int32)
    assert wide.dtype == np.int32
    np.testing.assert_array_equal(wide, i.astype(np.int32) @ i.T.astype(np.int32))
    half = np.full((1, 4096), 1, np.float16)
    assert float(jnp.matmul(half, half.T)[0].sum()) == 4096
    assert jnp.matmul(half, half.T).dtype == np.float16


EINSUMS_OF_TWO = """
    ijk,jk->i  ijk,lk->ijl  ...k,jk  ijk,jk->kj  ijk,jk  ij...,j...->...i  ijk,lm->  ijk,jk->ijk
""".split()


def test_einstein_sums():
    cases = [lambda m, x, y, s, t=t: m.einsum(t, x, y) for t in EINSUMS_OF_TWO]
    cases += [lambda m, x, y, s, t=t: m.einsum(t, s) for t in ("ii->i", "ii", "ij->ji", "ji")]
    cases += [
        lambda m, x, y, s: m.einsum("ijk,jk,lk->il", x, y, y),
        lambda m, x, y, s: m.einsum("ij,jk,kl,lm->im", y, y.T, y, y.T),
        lambda m, x, y, s: m.einsum("ij,jk,kl,lm->im", y, y.T, y, y.T, optimize=False),
        lambda m, x, y, s: m.einsum("ij,jk,kl->il", s, s, s, optimize="greedy"),
        lambda m, x, y, s: m.einsum("b...,b...->...", x, x),
        lambda m, x, y, s: m.einsum(x, [0, 1, 2], y, [1, 2], [0]),
        lambda m, x, y, s: m.einsum(x, [..., 2], y, [..., 2]),
        lambda m, x, y, s: m.einsum(" i j k -> k i ", x),
        lambda m, x, y, s: m.einsum("iij,j->ij", m.stack([s, s, s]), m.sum(s, axis=0)),
    ]
    check(cases, X, Y, S)


def test_sizes_of_one_are_repeated_in_sums():
    one = np.full((1, 4), 2, np.float32)
    check([lambda m, y, o: m.einsum("...j,...j->...", y, o)], Y, one)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: jnp.matmul(x, y), r"float32\[2,3,4\] and float32\[3,4\].*4 columns, 3 rows"),
        (lambda x, y: jnp.matmul(x, 2), "dimension"),
        (lambda x, y: jnp.vdot(x, y), "24 elements, 12 elements"),
        (lambda x, y: jnp.tensordot(x, y, 1), "sizes"),
        (lambda x, y: jnp.einsum("ij,jk->ik", y, y), "'j' is of sizes 4 and 3"),
        (lambda x, y: jnp.einsum("ij->ijk", y), "names"),
        (lambda x, y: jnp.einsum("ij", x), "operand 0 has 3 dimensions"),
        (lambda x, y: jnp.einsum("ij,jk", y), "2 operands, and 1"),
        (lambda x, y: jnp.matmul(y, y.T, precision="much"), "highest"),
        (lambda x, y: jnp.cross(x, x), "two or three"),
    ],
)
def test_what_does_not_fit(call, words):
    with pytest.raises(InvalidArgumentError, match=words):
        jit(call)(X, Y)

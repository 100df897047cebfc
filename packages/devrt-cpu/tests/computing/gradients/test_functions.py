"""Gradients of functions of `devrt.numpy` and `devrt.lax`, by numerical differences."""

import numpy as np
import pytest

import devrt.numpy as dnp
from devrt import lax
from devrt.tracing import matrices

pytestmark = pytest.mark.engine
RNG = np.random.default_rng(5)


def small(*shape):
    return RNG.uniform(-0.9, 0.9, size=shape)


def complexes(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def conv(**options):
    options = {"padding": "SAME", "window_strides": (1, 1), **options}
    return lambda x, k: lax.conv_general_dilated(x, k, **options)


def window(function, initial, **options):
    return lambda x: lax.reduce_window(x, initial, function, **options)


POOL = {"window_dimensions": (2, 3), "window_strides": (2, 2), "padding": "SAME"}
WINDOWS = {
    "convolution": (conv(), small(2, 3, 5, 5), small(4, 3, 3, 3)),
    "convolution with strides": (
        conv(window_strides=(2, 3), padding=((1, 0), (2, 2))),
        small(1, 2, 6, 7),
        small(3, 2, 2, 3),
    ),
    "convolution with gaps": (
        conv(lhs_dilation=(2, 1), rhs_dilation=(1, 2), padding=((2, 1), (0, 3))),
        small(1, 2, 4, 6),
        small(3, 2, 2, 2),
    ),
    "convolution of groups": (
        conv(feature_group_count=2),
        small(2, 4, 4, 4),
        small(6, 2, 3, 3),
    ),
    "convolution of groups of a batch": (
        conv(batch_group_count=2),
        small(4, 3, 4, 4),
        small(6, 3, 3, 3),
    ),
    "convolution with channels last": (
        conv(dimension_numbers=("NHWC", "HWIO", "NHWC")),
        small(2, 4, 4, 3),
        small(2, 2, 3, 5),
    ),
    "sums of windows": (window(lax.add, 0.0, **POOL), small(4, 7)),
    "sums of windows with gaps": (
        window(
            lax.add,
            0.0,
            window_dimensions=(2, 2),
            window_strides=(2, 1),
            padding=((1, 2), (0, 1)),
            base_dilation=(1, 2),
            window_dilation=(2, 1),
        ),
        small(5, 4),
    ),
    "largest of windows": (window(lax.max, -np.inf, **POOL), small(4, 7)),
    "least of windows": (window(lax.min, np.inf, **POOL), small(4, 7)),
    "gradient of the largest of windows": (
        lambda x: devrt_grad(lambda y: dnp.sum(window(lax.max, -np.inf, **POOL)(y) ** 3), x),
        small(4, 7),
    ),
    "sort": (lambda x: lax.sort(x, dimension=0), small(5, 3)),
    "sort of two": (lambda x, y: lax.sort((x, y), dimension=-1), small(3, 5), small(3, 5)),
    "top_k": (lambda x: lax.top_k(x, 2)[0], small(3, 5)),
    "cumsum": (lambda x: lax.cumsum(x, axis=1), small(3, 4)),
    "cumsum in reverse": (lambda x: lax.cumsum(x, axis=0, reverse=True), small(3, 4)),
    "cumprod": (lambda x: lax.cumprod(x, axis=1), np.array([[2.0, 0.0, 3.0, -1.0], [1, 2, 3, 4]])),
    "cummax": (lambda x: lax.cummax(x, axis=0), small(6, 2)),
    "cummin in reverse": (lambda x: lax.cummin(x, axis=0, reverse=True), small(6, 2)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, axis=0), small(6, 2)),
}


def devrt_grad(function, x):
    import devrt

    return devrt.grad(function)(x)


def symmetric(x):
    return dnp.matmul(x, dnp.conj(dnp.matrix_transpose(x))) + 3 * np.eye(3)


def lower(x, is_lower=True):
    return matrices.triangle(x, is_lower=is_lower)


SQUARE = small(3, 3)
MATRICES = {
    "cholesky": (lambda x: lower(matrices.cholesky(symmetric(x))), SQUARE),
    "cholesky of complex": (
        lambda x: lower(matrices.cholesky(symmetric(x))),
        complexes(3, 3),
    ),
    "upper cholesky": (
        lambda x: lower(matrices.cholesky(symmetric(x), lower=False), False),
        SQUARE,
    ),
    **{
        f"triangular_solve {side} {low} {unit} {form}": (
            lambda a, b, side=side, low=low, unit=unit, form=form: matrices.triangular_solve(
                a, b, left_side=side, lower=low, unit_diagonal=unit, transpose_a=form
            ),
            small(2, 3, 3) + 2 * np.eye(3),
            small(2, 3, 3),
        )
        for side, low, unit, form in (
            (True, True, False, "NO_TRANSPOSE"),
            (True, False, True, "TRANSPOSE"),
            (False, True, True, "NO_TRANSPOSE"),
            (False, False, False, "ADJOINT"),
        )
    },
    "triangular_solve of complex": (
        lambda a, b: matrices.triangular_solve(a, b, lower=True, transpose_a="ADJOINT"),
        complexes(3, 3) + 2 * np.eye(3),
        complexes(3, 2),
    ),
    "qr": (matrices.qr, small(4, 3)),
    "eigh": (
        lambda x: [e if e.ndim == 1 else e * e for e in matrices.eigh(symmetric(x))],
        SQUARE + np.diag([1.0, 2.0, 3.0]),
    ),
    "svd": (lambda x: [u * u for u in matrices.svd(x)], small(4, 3)),
    "svd of wide matrices": (lambda x: [u * u for u in matrices.svd(x)], small(2, 4)),
    "singular values of complex": (lambda x: matrices.svd(x)[1], complexes(3, 3)),
    "eigenvalues of complex": (lambda x: matrices.eigh(symmetric(x))[0], complexes(3, 3)),
}


TRANSFORMS = {
    "fft": (lambda x: dnp.fft.fft(x), complexes(2, 5)),
    "ifft": (lambda x: dnp.fft.ifft(x, axis=0), complexes(4, 2)),
    "rfft": (lambda x: dnp.fft.rfft(x), small(2, 6)),
    "rfft of an uneven length": (lambda x: dnp.fft.rfft(x), small(2, 5)),
    "irfft": (lambda x: dnp.fft.irfft(x), complexes(2, 4)),
    "irfft of an uneven length": (lambda x: dnp.fft.irfft(x, 5), complexes(2, 3)),
    "rfft2": (lambda x: dnp.fft.rfft2(x), small(4, 6)),
    "irfft2": (lambda x: dnp.fft.irfft2(x), complexes(3, 4)),
}


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(group, name, id=name)
        for group in (WINDOWS, MATRICES, TRANSFORMS)
        for name in group
    ],
)
def test_the_gradient_is_that_of_differences(differences, group, name):
    by_rules, by_differences = differences(group, name)
    assert by_rules == pytest.approx(by_differences, rel=2e-6, abs=2e-8)

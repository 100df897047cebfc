"""Quantiles, covariances, histograms, sampled functions and transforms, beside NumPy."""

import numpy as np
import pytest

import devrt.numpy as jnp
from beside_numpy import check, compare, flat
from devrt.errors import ConcretizationTypeError, InvalidArgumentError
from devrt.programs.jit import jit

pytestmark = pytest.mark.engine

RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((3, 5)).astype(np.float32)
N = np.where(X > 0.8, np.nan, X).astype(np.float32)
V = RANDOM.standard_normal(7).astype(np.float32)
W = RANDOM.random(5).astype(np.float32)
METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def test_quantiles():
    q = np.array([0.25, 0.9], np.float32)
    cases = [lambda m, x, n, k=k: m.quantile(x, 0.3, axis=1, method=k) for k in METHODS]
    cases += [
        lambda m, x, n: m.quantile(x, q),
        lambda m, x, n: m.percentile(x, 40.0, axis=0, keepdims=True),
        lambda m, x, n: m.median(x, axis=1),
        lambda m, x, n: m.median(x),
        lambda m, x, n: m.median(n, axis=1),
        lambda m, x, n: m.nanmedian(n, axis=1),
        lambda m, x, n: m.nanquantile(n, q, axis=0),
        lambda m, x, n: m.nanpercentile(n, 30.0),
    ]
    check(cases, X, N)


def test_without_nan():
    names = "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanargmax nanargmin".split()
    cases = [lambda m, n, f=f: getattr(m, f)(n, axis=1) for f in names]
    cases += [lambda m, n: m.nancumsum(n), lambda m, n: m.nancumprod(n, axis=0)]
    check(cases, N)
    none = np.full(2, np.nan, np.float32)
    assert int(jnp.nanargmax(none)) == -1
    assert np.isnan(jnp.nanmax(none))


def test_averages_and_covariances():
    check(
        [
            lambda m, x, w: m.average(x, axis=1, weights=w),
            lambda m, x, w: m.average(x),
            lambda m, x, w: m.average(x, axis=1, weights=w, returned=True),
            lambda m, x, w: m.cov(x),
            lambda m, x, w: m.cov(x, rowvar=False, bias=True),
            lambda m, x, w: m.cov(x, aweights=w),
            lambda m, x, w: m.cov(x[0], x[1]),
            lambda m, x, w: m.cov(w),
            lambda m, x, w: m.corrcoef(x),
        ],
        X,
        W,
    )


def test_sampled_functions():
    xp = np.array([0, 1, 3, 4], np.float32)
    fp = np.array([1, 5, 2, 2], np.float32)
    at = np.array([-1, 0, 0.5, 2.5, 3, 7], np.float32)
    check(
        [
            lambda m, x, v, w, xp, fp, at: m.diff(x),
            lambda m, x, v, w, xp, fp, at: m.diff(x, n=2, axis=0),
            lambda m, x, v, w, xp, fp, at: m.diff(v, prepend=0.0, append=v[:2]),
            lambda m, x, v, w, xp, fp, at: m.ediff1d(v, to_end=v[:1], to_begin=v[:2]),
            lambda m, x, v, w, xp, fp, at: m.gradient(x),
            lambda m, x, v, w, xp, fp, at: m.gradient(x, 2.0, axis=1),
            lambda m, x, v, w, xp, fp, at: m.gradient(fp, xp),
            lambda m, x, v, w, xp, fp, at: m.trapezoid(x),
            lambda m, x, v, w, xp, fp, at: m.trapezoid(fp, xp),
            lambda m, x, v, w, xp, fp, at: m.trapezoid(x, dx=0.5, axis=0),
            lambda m, x, v, w, xp, fp, at: m.interp(at, xp, fp),
            lambda m, x, v, w, xp, fp, at: m.interp(at, xp, fp, left=-1.0, right=9.0),
            lambda m, x, v, w, xp, fp, at: m.interp(at, xp, fp, period=5.0),
            *(
                lambda m, x, v, w, xp, fp, at, f=f, k=k: getattr(m, f)(v, w, mode=k)
                for f in ("convolve", "correlate")
                for k in ("full", "same", "valid")
            ),
            lambda m, x, v, w, xp, fp, at: m.correlate(w, v, mode="full"),
        ],
        X,
        V,
        W,
        xp,
        fp,
        at,
    )


def test_histograms():
    edges = np.array([-1, 0, 0.5, 2], np.float32)
    check(
        [
            lambda m, x, e: m.histogram(x, bins=e),
            lambda m, x, e: m.histogram(x, bins=e, density=True),
            lambda m, x, e: m.histogram(x, bins=4, range=(-2, 2)),
            lambda m, x, e: m.histogram(x, bins=e, weights=x),
            lambda m, x, e: m.histogram_bin_edges(x, 3),
            lambda m, x, e: m.histogram2d(x[0], x[1], bins=3),
            lambda m, x, e: m.histogramdd(x.T, bins=2, density=True)[0],
        ],
        X,
        edges,
    )
    i = np.array([3, 1, 1, 0, 3], np.int32)
    for options in ({}, {"weights": W}, {"minlength": 6}):
        compare(
            [jnp.bincount(i, **options)],
            [np.bincount(i, **options).astype(np.float32 if "weights" in options else np.int32)],
        )
    compare([jit(lambda i: jnp.bincount(i, length=3))(i)], [np.array([1, 2, 0])])
    with pytest.raises(ConcretizationTypeError, match="length="):
        jit(lambda i: jnp.bincount(i))(i)


def test_transforms():
    c = (X + 1j * X[::-1]).astype(np.complex64)
    four = RANDOM.standard_normal((2, 3, 2, 4)).astype(np.float32)
    check(
        [
            *(
                lambda m, x, c, f, n=n, k=k: getattr(m.fft, n)(c, axis=0, norm=k)
                for n in ("fft", "ifft", "irfft", "hfft")
                for k in (None, "ortho", "forward")
            ),
            lambda m, x, c, f: m.fft.rfft(x),
            lambda m, x, c, f: m.fft.ihfft(x, norm="ortho"),
            lambda m, x, c, f: m.fft.fft(x, n=8),
            lambda m, x, c, f: m.fft.fft(x, n=3),
            lambda m, x, c, f: m.fft.irfft(c, n=7),
            lambda m, x, c, f: m.fft.fft2(c),
            lambda m, x, c, f: m.fft.ifft2(c, s=(4, 4)),
            lambda m, x, c, f: m.fft.rfft2(x),
            lambda m, x, c, f: m.fft.irfft2(c),
            lambda m, x, c, f: m.fft.fftn(f),
            lambda m, x, c, f: m.fft.ifftn(f, axes=(0, 2)),
            lambda m, x, c, f: m.fft.rfftn(f),
            lambda m, x, c, f: m.fft.irfftn(f),
            lambda m, x, c, f: m.fft.fftshift(x),
            lambda m, x, c, f: m.fft.ifftshift(x, axes=1),
        ],
        X,
        c,
        four,
    )
    for n in (4, 5):
        compare([jnp.fft.fftfreq(n, 0.5)], [np.fft.fftfreq(n, 0.5)])
        compare([jnp.fft.rfftfreq(n)], [np.fft.rfftfreq(n)])
    assert jnp.fft.fft(X).dtype == np.complex64
    assert jnp.fft.irfft(np.ones(3, np.complex128)).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jnp.quantile(X, 0.5, method="other"), "linear"),
        (lambda: jnp.average(X, weights=V), r"float32\[7\]"),
        (lambda: jnp.fft.rfft(X + 1j), "real"),
        (lambda: jnp.fft.fft(X, n=0), "points"),
        (lambda: jnp.fft.fft(X, norm="other"), "ortho"),
        (lambda: jnp.histogram(X, bins=0), "1 or more"),
        (lambda: jnp.histogram(X, bins="auto"), "'auto'"),
        (lambda: jnp.bincount(X), "integers"),
        (lambda: jnp.convolve(X, V), "vectors"),
        (lambda: jnp.interp(V, V, W), "samples"),
        (lambda: jnp.gradient(X, 1.0, 2.0, 3.0), "distances"),
        (lambda: flat(jnp.diff(X, n=-1)), "n is 0"),
    ],
)
def test_what_does_not_fit(call, words):
    with pytest.raises(InvalidArgumentError, match=words):
        call()

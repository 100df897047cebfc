"""Programs of one subject each: control flow, Fourier transforms, linear algebra."""

import numpy as np
import pytest

import devrt
from devrt import lax
from devrt import numpy as jnp

pytestmark = pytest.mark.engine


@devrt.jit
def control_flow(x, n, tolerance):
    """Return what a branch, a choice of four, three loops and a map make of x."""
    first = lax.cond(n > 2, lambda x: jnp.sin(x) * 2, lambda x: x - 1, x)
    chosen = lax.switch(
        n, [lambda x: x, lambda x: x * 2, lambda x: jnp.exp(-x), lambda x: x * x * x], first
    )

    def is_rough(state):
        count, _, change = state
        return (change > tolerance) & (count < 50)

    def newton(state):
        count, root, _ = state
        better = 0.5 * (root + (jnp.abs(x) + 1) / root)
        return count + 1, better, jnp.max(jnp.abs(better - root))

    count, root, _ = lax.while_loop(is_rough, newton, (0, jnp.ones_like(x), 1e9))
    summed = lax.fori_loop(0, n + 3, lambda i, y: y * 0.5 + i, x)
    rows = lax.map(lambda row: jnp.sum(row * row), x.reshape(4, -1))
    return chosen, count, root, summed, rows


def test_control_flow(agrees):
    def draw(rng, avals):
        return [rng.normal(size=avals[0][0]).astype("float32"), np.int32(3), np.float32(1e-4)]

    agrees("control_flow", control_flow, draw=draw)


@devrt.jit
def spectra(signals, image):
    """Return spectra of signals, the signals smoothed, and an image's correlation with itself."""
    spectrum = jnp.fft.rfft(signals)
    damping = jnp.exp(-jnp.arange(spectrum.shape[-1]) / 10)
    smooth = jnp.fft.irfft(spectrum * damping, signals.shape[-1])
    waves = jnp.fft.fft2(image)
    power = jnp.real(jnp.fft.ifft2(waves * jnp.conj(waves)))
    centred = jnp.fft.fftshift(jnp.log1p(jnp.abs(waves)))
    rows = jnp.fft.rfft2(jnp.real(image))
    return jnp.abs(spectrum), jnp.angle(spectrum), smooth, power, centred, rows


def test_fourier_transforms(agrees):
    def draw(rng, avals):
        parts = [rng.normal(size=shape) for shape, _ in (*avals, avals[1])]
        return [parts[0].astype("float32"), (parts[1] + 1j * parts[2]).astype("complex64")]

    agrees("fft_signal", spectra, draw=draw)


@devrt.jit
def decompositions(definite, anything, columns):
    """Return factors and solutions; ``definite`` is symmetric with positive eigenvalues."""
    lower = jnp.linalg.cholesky(definite)
    half = jnp.linalg.solve(lower[0], columns[0])
    size = anything.shape[-1]
    shifted = anything + size * jnp.eye(size)
    _, upper = jnp.linalg.qr(anything)
    return (
        lower,
        half,
        jnp.linalg.solve(shifted, columns),
        jnp.abs(upper),
        jnp.linalg.eigvalsh(definite),
        jnp.linalg.slogdet(definite).logabsdet,
        jnp.linalg.inv(definite),
    )


def test_linear_algebra(agrees):
    def run(definite, anything, columns):
        *first, logs, inverse = decompositions(definite, anything, columns)
        return [*first, jnp.linalg.svdvals(anything), logs, inverse]

    def draw(rng, avals):
        parts = [rng.normal(size=shape) for shape, _ in avals]
        parts[0] = parts[0] @ np.swapaxes(parts[0], 1, 2) + np.eye(parts[0].shape[-1])
        return [part.astype("float32") for part in parts]

    agrees("linalg", run, draw=draw)

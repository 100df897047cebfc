"""NumPy's functions on arrays: those that look at them work on the host, others are devrt's."""

import io

import numpy as np
import pytest

import devrt
from devrt.errors import UnimplementedError
from devrt_acme.client import AcmeClient


@pytest.fixture
def acme():
    """A simulated backend's client, closed afterwards."""
    client = AcmeClient(2)
    yield client
    client.close()


@pytest.fixture
def x(acme):
    return devrt.device_put(np.arange(6.0).reshape(2, 3), acme.devices()[0])


@pytest.mark.parametrize(
    "compute",
    [
        np.exp,
        lambda x: np.add(x, 1),
        lambda x: np.ones((2, 3)) + x,
        lambda x: x + 1,
        lambda x: x[0],
    ],
)
def test_what_computes_needs_a_client_that_compiles(x, compute):
    with pytest.raises(UnimplementedError, match=r"compile_and_load is not offered|numpy\.asarray"):
        compute(x)


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (np.add.reduce, "numpy.add.reduce"),
        (lambda x: np.add(x, 1, where=True, dtype=np.int8), "numpy.add"),
        (lambda x: np.add(1, 2, out=x), "numpy.add"),
        (np.busday_count, "numpy.busday_count"),
    ],
)
def test_what_devrt_has_no_function_for_is_refused_and_named(x, compute, name):
    arguments = (x, x) if compute is np.busday_count else (x,)
    with pytest.raises(UnimplementedError, match=rf"^{name} on a devrt array.*numpy\.asarray\(x\)"):
        compute(*arguments)


def test_what_asks_for_shape_and_dtype_reads_nothing(x):
    x.delete()
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert np.result_type(x, np.float32) == np.float64
    for like in (np.empty_like, np.zeros_like, np.ones_like):
        made = like(x)
        assert (made.shape, made.dtype, made.strides) == ((2, 3), np.float64, (24, 8))
        assert made.flags.writeable
    assert np.zeros_like(x, dtype=np.int8).dtype == np.int8


def test_what_looks_reads(x):
    host = np.asarray(x)
    assert np.shape(x) == (2, 3)
    assert np.ndim(x) == 2
    assert np.array_equal(x, host)
    assert np.allclose(host, x)
    assert np.result_type(x, np.float32) == np.float64
    np.testing.assert_array_equal(x, host)
    copied = np.copy(x)
    copied[0, 0] = 7
    assert np.zeros_like(x).tolist() == np.zeros((2, 3)).tolist()
    file = io.BytesIO()
    np.savez(file, x=x)
    file.seek(0)
    assert np.array_equal(np.load(file)["x"], host)

"""NumPy's functions on arrays: those that look at them work on the host, all others are refused."""

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
        np.sum,
        np.mean,
        np.argmax,
        np.max,
        np.transpose,
        np.exp,
        np.linalg.norm,
        lambda x: np.concatenate([x, x]),
        lambda x: np.dot(x, x),
        lambda x: np.add(x, 1),
        lambda x: np.ones((2, 3)) + x,
        lambda x: x + 1,
        lambda x: x @ x,
        lambda x: x[0],
    ],
)
def test_what_computes_is_refused_and_says_what_to_do(x, compute):
    with pytest.raises(UnimplementedError, match="devrt does not trace Python yet") as caught:
        compute(x)
    assert "numpy.asarray(x)" in str(caught.value)
    assert "devrt.programs.load_program" in str(caught.value)


def test_a_function_is_named_as_it_was_called(x):
    with pytest.raises(UnimplementedError, match=r"^numpy\.linalg\.norm on a devrt array"):
        np.linalg.norm(x)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "T", "reshape"])
def test_a_method_that_computes_is_absent_and_says_why(x, name):
    assert not hasattr(x, name)
    with pytest.raises(AttributeError, match="devrt does not trace Python yet"):
        getattr(x, name)


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

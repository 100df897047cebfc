"""What beside arrays can be put; tests/integration has the arrays."""

import ml_dtypes
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (3, "int32"),
        (-(2**31), "int32"),
        (2**31, "int64"),
        (1.5, "float32"),
        (1 + 2j, "complex64"),
        (np.float64(2.5), "float64"),
        (np.int8(-3), "int8"),
        (np.bool_(True), "bool"),
        (ml_dtypes.bfloat16(1.5), "bfloat16"),
    ],
)
def test_scalars(client, value, name):
    buffer = client.buffer_from_pyval(value)
    assert buffer.shape == ()
    assert buffer.dtype.name == name
    assert np.asarray(buffer)[()] == value


def test_read_only_source(client):
    host = np.arange(6.0)
    host.flags.writeable = False
    for semantics in range(4):
        back = np.asarray(client.buffer_from_pyval(host, None, False, semantics))
        assert np.array_equal(back, host)


def test_a_buffer_is_a_source(client):
    first = client.buffer_from_pyval(np.arange(5, dtype=ml_dtypes.bfloat16))
    second = client.buffer_from_pyval(first, client.devices()[1])
    assert second.dtype == first.dtype
    assert np.array_equal(np.asarray(second), np.asarray(first))

"""Every value that can be put comes back bit for bit."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from devrt import dtypes
from devrt_cpu import make_cpu_client

ALL_TYPES = [element.name for element in dtypes.ELEMENT_TYPES]
MULTIBYTE = ["int16", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def _values(name, shape):
    """Return every kind of bit pattern that the type has, or small values where it has few."""
    element = dtypes.by_name(name)
    dtype = dtypes.to_numpy(element.code)
    count = int(np.prod(shape))
    if name == "bool":
        return (np.arange(count) % 2 == 0).reshape(shape)
    raw = np.random.default_rng(7).integers(0, 256, count * element.itemsize, dtype=np.uint8)
    if element.bits < 8:
        raw &= (1 << (element.bits - (1 if name.startswith("int") else 0))) - 1
    return raw.view(dtype).reshape(shape)


@pytest.mark.parametrize("name", ALL_TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 1, 3), (0,), (2, 0, 3)])
def test_every_dtype_and_shape(client, name, shape):
    host = _values(name, shape)
    buffer = client.buffer_from_pyval(host)
    back = np.asarray(buffer)
    assert buffer.shape == back.shape == shape
    assert buffer.dtype == back.dtype == host.dtype
    assert back.tobytes() == host.tobytes()
    assert (buffer.ndim, buffer.size) == (host.ndim, host.size)
    assert (buffer.nbytes, buffer.itemsize) == (host.nbytes, host.itemsize)
    assert not back.flags.writeable


@pytest.mark.parametrize("name", ALL_TYPES)
def test_dtype_is_one_object(client, name):
    buffer = client.buffer_from_pyval(_values(name, (2,)))
    assert buffer.dtype is buffer.dtype is dtypes.to_numpy(dtypes.by_name(name).code)


@pytest.mark.parametrize("name", ["uint8", "bfloat16", "float32", "int64", "complex128"])
@pytest.mark.parametrize(
    "index",
    [
        np.s_[::-1],
        np.s_[:, ::-2],
        np.s_[1::2, ::3],
        np.s_[..., 0],
        np.s_[:, None, 2:4],
        np.s_[3:3],
    ],
)
def test_strided_sources(client, name, index):
    host = _values(name, (6, 7, 4))[index]
    assert np.asarray(client.buffer_from_pyval(host)).tobytes() == host.tobytes()


def test_transposed_and_broadcast_sources(client):
    base = np.arange(130 * 70 * 3, dtype=np.int32).reshape(130, 70, 3)
    for host in (base.T, base.transpose(1, 0, 2), np.broadcast_to(base[0], (5, 70, 3))):
        assert np.array_equal(np.asarray(client.buffer_from_pyval(host)), host)


def test_large_transposed_source(client):
    host = np.arange(1500 * 1501, dtype=np.float32).reshape(1500, 1501).T
    assert np.array_equal(np.asarray(client.buffer_from_pyval(host)), host)


@pytest.mark.parametrize("name", MULTIBYTE)
def test_big_endian_is_converted(client, name):
    native = _values(name, (4, 3))
    swapped = native.astype(native.dtype.newbyteorder(">"))
    buffer = client.buffer_from_pyval(swapped)
    assert buffer.dtype == native.dtype
    assert buffer.dtype.isnative
    assert np.asarray(buffer).tobytes() == native.tobytes()


def test_large_big_endian_is_converted(client):
    native = np.arange(1 << 20, dtype=np.float64).reshape(1024, 1024)
    buffer = client.buffer_from_pyval(native.astype(">f8")[::2])
    assert np.array_equal(np.asarray(buffer), native[::2])


@settings(max_examples=60, deadline=None)
@given(
    host=npst.arrays(
        dtype=npst.integer_dtypes(endianness="=")
        | npst.floating_dtypes(sizes=(16, 32, 64))
        | npst.complex_number_dtypes(sizes=(64, 128)),
        shape=npst.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5),
    ),
    data=st.data(),
)
def test_any_array_any_view(host, data):
    view = host
    if host.ndim and host.size:
        view = np.asarray(host[data.draw(npst.basic_indices(host.shape))])
        view = view.transpose(data.draw(st.permutations(range(view.ndim))))
    with make_cpu_client() as client:
        back = np.asarray(client.buffer_from_pyval(view))
        assert back.shape == view.shape
        assert back.tobytes() == view.astype(view.dtype.newbyteorder("=")).tobytes()


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


def test_other_sources(client):
    class WithArray:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3, dtype=np.int16)

    class Sub(np.ndarray[Any, Any]):
        pass

    for source, expected in (
        (b"abc", np.frombuffer(b"abc", np.uint8)),
        (bytearray(b"xy"), np.frombuffer(b"xy", np.uint8)),
        (memoryview(np.arange(4.0)), np.arange(4.0)),
        (WithArray(), np.arange(3, dtype=np.int16)),
        (np.arange(5).view(Sub), np.arange(5)),
    ):
        back = np.asarray(client.buffer_from_pyval(source))
        assert back.dtype == expected.dtype
        assert np.array_equal(back, expected)


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

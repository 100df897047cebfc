"""Buffers whose elements lie in another order than the row-major one."""

import hashlib
import itertools

import ml_dtypes
import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.layout import Layout, PjRtLayout, row_major

ORDERS = list(itertools.permutations(range(3)))


def dense_strides(shape, order, size):
    strides = [0] * len(shape)
    for dimension in order:
        strides[dimension] = size
        size *= shape[dimension]
    return tuple(strides)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, ml_dtypes.bfloat16, ml_dtypes.int4])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("semantics", range(4))
def test_data_lie_in_the_order_requested(client, dtype, order, semantics):
    host = (np.arange(24) % 7).astype(dtype).reshape(2, 3, 4)
    buffer = client.buffer_from_pyval(host, None, False, semantics, layout=Layout(order))
    expected = dense_strides(host.shape, order, host.dtype.itemsize)
    assert buffer.layout == Layout(order)
    assert buffer.pjrt_layout == PjRtLayout(Layout(order))
    view = np.asarray(buffer)
    assert view.strides == expected
    assert np.array_equal(view, host)
    # What lies at the address, byte by byte: major to minor is the order backwards.
    raw = np.asarray(view).transpose(order[::-1])
    assert raw.flags.c_contiguous
    assert raw.ctypes.data == buffer.unsafe_buffer_pointer()
    assert raw.tobytes() == np.ascontiguousarray(host.transpose(order[::-1])).tobytes()


@pytest.mark.parametrize("order", ORDERS)
def test_every_view_has_the_strides(client, order):
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    buffer = client.buffer_from_pyval(host, layout=PjRtLayout(Layout(order)))
    strides = dense_strides(host.shape, order, 4)
    for view in (np.from_dlpack(buffer), np.asarray(memoryview(buffer)), buffer.__array__()):
        assert view.strides == strides
        assert np.array_equal(view, host)
        assert view.ctypes.data == buffer.unsafe_buffer_pointer()
    copied = np.from_dlpack(buffer, copy=True)
    assert np.array_equal(copied, host)


@pytest.mark.parametrize("order", ORDERS)
def test_copies_and_clones_keep_the_order(client, order):
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    buffer = client.buffer_from_pyval(host, layout=Layout(order))
    pinned = client.devices()[1].memory("pinned_host")
    for other in (
        buffer.clone(),
        buffer.copy_to_memory(pinned),
        buffer.copy_to_memory(client.devices()[1].default_memory(), may_alias=False),
    ):
        assert other.layout == buffer.layout
        assert np.array_equal(np.asarray(other), host)
    again = client.buffer_from_pyval(buffer)  # a buffer as a source: its values, row-major
    assert again.layout == row_major(3)
    assert np.array_equal(np.asarray(again), host)


def test_a_large_asynchronous_transfer_has_the_order(client):
    host = np.arange(500 * 700, dtype=np.float64).reshape(500, 700)
    buffer = client.buffer_from_pyval(host, None, False, 1, layout=Layout((0, 1)))
    assert np.asarray(buffer).flags.f_contiguous
    assert np.array_equal(np.asarray(buffer), host)


def test_a_source_in_the_order_requested_is_aliased(client):
    raw = np.zeros(64 * 64 * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    host = raw[start : start + 64 * 64 * 4].view(np.float32).reshape((64, 64), order="F")
    buffer = client.buffer_from_pyval(host, None, False, 2, layout=Layout((0, 1)))
    assert buffer.unsafe_buffer_pointer() == host.ctypes.data
    assert np.asarray(buffer).strides == host.strides
    copied = client.buffer_from_pyval(host, None, False, 2)
    assert copied.unsafe_buffer_pointer() != host.ctypes.data


def test_consumers_that_need_one_order_are_refused_another(client):
    host = np.arange(6, dtype=np.int32).reshape(2, 3)
    columns = client.buffer_from_pyval(host, layout=Layout((0, 1)))
    view = memoryview(columns)
    assert view.f_contiguous
    assert not view.c_contiguous
    with pytest.raises(BufferError, match="row-major"):
        hashlib.sha256(columns)  # wants plain bytes in C order
    assert np.frombuffer(client.buffer_from_pyval(host), np.int32).tolist() == [0, 1, 2, 3, 4, 5]
    line = client.buffer_from_pyval(np.arange(3).reshape(1, 3), layout=Layout((0, 1)))
    assert np.frombuffer(line, np.int64).tolist() == [0, 1, 2]  # one row is in every order


def test_the_default_is_row_major(client):
    device = client.devices()[1]
    for shape in ((), (3,), (2, 3), (4, 0, 2)):
        layout = client.get_default_layout(np.dtype("float32"), shape, device)
        assert isinstance(layout, PjRtLayout)
        assert layout == PjRtLayout(row_major(len(shape)))
        assert client.buffer_from_pyval(np.zeros(shape, np.float32), device).pjrt_layout == layout
    assert str(client.get_default_layout("bfloat16", [2, 3])) == "{1,0}"
    explicit = client.buffer_from_pyval(np.ones((2, 3)), layout=row_major(2))
    assert np.frombuffer(explicit).tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("layout", "error"),
    [
        ("{0}", InvalidArgumentError),
        ("{0,1:T(8,128)}", InvalidArgumentError),
        ("{0,1:E(4)}", InvalidArgumentError),
        ("rows", InvalidArgumentError),
        ((1, 0), InvalidTypeError),
    ],
)
def test_layouts_that_a_host_buffer_cannot_have(client, layout, error):
    with pytest.raises(error):
        client.buffer_from_pyval(np.zeros((2, 3), np.float32), layout=layout)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("object", (1,)), InvalidTypeError),
        (("float32", (-1,)), InvalidArgumentError),
        (("float32", (2**62, 2**62)), InvalidArgumentError),
        (("float32", (1,) * 65), InvalidArgumentError),
        (("float32", ("a",)), InvalidArgumentError),
        (("float32", 3), TypeError),
        (("float32", (1,), "cpu"), InvalidTypeError),
    ],
)
def test_what_has_no_default_layout(client, arguments, error):
    with pytest.raises(error):
        client.get_default_layout(*arguments)

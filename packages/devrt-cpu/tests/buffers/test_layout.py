"""Buffers whose elements lie in another order than the row-major one."""

import hashlib
import itertools

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.layout import Layout, PjRtLayout

ORDERS = list(itertools.permutations(range(3)))


def dense_strides(shape, order, size):
    strides = [0] * len(shape)
    for dimension in order:
        strides[dimension] = size
        size *= shape[dimension]
    return tuple(strides)


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


def test_a_large_asynchronous_transfer_has_the_order(client):
    host = np.arange(500 * 700, dtype=np.float64).reshape(500, 700)
    buffer = client.buffer_from_pyval(host, None, False, 1, layout=Layout((0, 1)))
    assert np.asarray(buffer).flags.f_contiguous
    assert np.array_equal(np.asarray(buffer), host)


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

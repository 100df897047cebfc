"""What the conformance kit does not hold backends to, of arrays of the host, over both clients."""

import gc
import itertools
import weakref

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from devrt.contract import HostBufferSemantics as Semantics
from devrt.errors import InvalidTypeError, UnimplementedError
from devrt.layout import Layout, PjRtLayout, row_major
from support import aligned, make_client

SIZES = [8, 1 << 16, 1 << 20]
ORDERS = list(itertools.permutations(range(3)))


@pytest.fixture(scope="module", params=["cpu", "loader"])
def client(request):
    """Return a client of each kind with four devices."""
    with make_client(request.param, 4, compiles=False) as made:
        yield made


def same(left, right):
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


class Tracked(np.ndarray):
    """An array that can be watched dying."""


@settings(max_examples=100)
@given(
    host=npst.arrays(
        npst.integer_dtypes(endianness="=")
        | npst.boolean_dtypes()
        | npst.floating_dtypes(sizes=(16, 32, 64), endianness="=")
        | npst.complex_number_dtypes(sizes=(64, 128), endianness="="),
        npst.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5),
    ),
    data=st.data(),
)
def test_any_array_any_view_any_order(client, host, data):
    view = host
    if host.ndim and host.size:
        view = np.asarray(host[data.draw(npst.basic_indices(host.shape))])
        view = view.transpose(data.draw(st.permutations(range(view.ndim))))
    order = Layout(tuple(data.draw(st.permutations(range(view.ndim)))))
    buffer = client.buffer_from_pyval(
        view,
        None,
        False,
        data.draw(st.integers(0, 3)),
        layout=data.draw(st.sampled_from([None, order])),
    )
    other = client.devices()[data.draw(st.integers(0, 3))].default_memory()
    for found in (buffer, buffer.clone(), buffer.copy_to_memory(other)):
        assert same(np.asarray(found), view)


@pytest.mark.parametrize(
    "value", [object(), "text", [1, "x"], np.array(["a"]), np.zeros(2, "M8[s]"), [[1], [1, 2]]]
)
def test_what_no_device_can_hold_is_refused(client, value):
    with pytest.raises(InvalidTypeError):
        client.buffer_from_pyval(value)


# -- semantics ------------------------------------------------------------------------------------


@pytest.mark.parametrize("semantics", [2, 3])
@pytest.mark.parametrize("size", SIZES)
def test_zero_copy_shows_the_source(client, size, semantics):
    host, device = aligned(size), client.devices()[3]
    in_use = device.memory_stats()["bytes_in_use"]
    buffer = client.buffer_from_pyval(host, device, False, semantics)
    assert buffer.unsafe_buffer_pointer() == host.ctypes.data
    host[0] = 42
    assert np.asarray(buffer)[0] == 42
    if client.runtime_type == "native":  # the loader counts what is lent
        assert device.memory_stats()["bytes_in_use"] == in_use


def test_zero_copy_keeps_the_source_and_lets_it_go(client):
    before = 0 if client.runtime_type == "native" else len(client.connection.kept)
    host = aligned(1000).view(Tracked)
    alive = weakref.ref(host)

    def is_kept():  # the loader keeps the memory, not the array that shows it
        if client.runtime_type == "native":
            return alive() is not None
        return len(client.connection.kept) > before

    buffer = client.buffer_from_pyval(host, None, False, Semantics.ZERO_COPY)
    view, clone = np.asarray(buffer), buffer.clone()
    del host
    buffer.delete()
    del buffer
    gc.collect()
    assert is_kept()
    assert view[3] == np.asarray(clone)[3] == 3
    del view, clone
    gc.collect()
    client.buffer_from_pyval(1)  # a call releases what other threads queued
    assert not is_kept()


# -- views, copies, ends --------------------------------------------------------------------------


def test_asarray_converts_and_copies_on_request(client):
    buffer = client.buffer_from_pyval(np.arange(3, dtype=np.float32))
    assert np.asarray(buffer, dtype=np.int32).tolist() == [0, 1, 2]
    assert buffer.__array__(np.dtype("float64")).dtype == np.float64
    copied = np.array(buffer, copy=True)
    assert copied.flags.writeable
    assert copied.ctypes.data != buffer.unsafe_buffer_pointer()
    if client.runtime_type == "native":  # small arrays are read into memory of their own elsewhere
        assert buffer.__array__(copy=False).ctypes.data == buffer.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="copy=False"):
        buffer.__array__(np.dtype(np.int32), copy=False)


@pytest.mark.parametrize("count", [4, 100_000])
def test_a_view_is_read_only_for_good_and_outlives_its_buffer(client, count):
    buffer = client.buffer_from_pyval(np.arange(count, dtype=np.float32))
    views = [np.asarray(buffer), np.from_dlpack(buffer)]
    with pytest.raises(ValueError, match="WRITEABLE"):
        views[0].flags.writeable = True
    buffer.delete()
    del buffer
    gc.collect()
    assert all(view[-1] == count - 1 for view in views)


# -- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, ml_dtypes.bfloat16, np.complex128, bool])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("semantics", range(4))
def test_elements_lie_in_the_order_requested(client, dtype, order, semantics):
    host = (np.arange(24) % 7).astype(dtype).reshape(2, 3, 4)
    buffer = client.buffer_from_pyval(host, None, False, semantics, layout=Layout(order))
    assert (buffer.layout, buffer.pjrt_layout) == (Layout(order), PjRtLayout(Layout(order)))
    assert not np.asarray(buffer).flags.writeable
    pinned = client.devices()[1].memory("pinned_host")
    copies = [buffer.copy_to_memory(pinned), buffer.copy_to_memory(buffer.memory, may_alias=False)]
    for found in (buffer, buffer.clone(), *copies):
        assert found.layout == Layout(order)
        assert np.array_equal(np.asarray(found), host)
        # What lies at the address, byte by byte: major to minor is the order backwards.
        assert memory_of(found) == np.ascontiguousarray(host.transpose(order[::-1])).tobytes()
    again = client.buffer_from_pyval(buffer)  # a buffer as a source: its values, row-major
    assert again.layout == row_major(3)
    assert np.array_equal(np.asarray(again), host)


def memory_of(buffer):
    import ctypes

    buffer.block_until_ready()
    return ctypes.string_at(buffer.unsafe_buffer_pointer(), buffer.nbytes)


@pytest.mark.parametrize("order", ORDERS)
def test_elements_below_a_byte_have_it_too(client, order):
    host = (np.arange(24) % 7).astype(ml_dtypes.int4).reshape(2, 3, 4)
    is_newer = client.runtime_type != "native" and client.connection.library.version > (0, 81)
    if is_newer and Layout(order) != row_major(3):
        with pytest.raises(UnimplementedError, match="mixes up elements below a byte"):
            client.buffer_from_pyval(host, layout=Layout(order))
        return
    buffer = client.buffer_from_pyval(host, layout=Layout(order))
    assert buffer.layout == Layout(order)
    assert np.array_equal(np.asarray(buffer), host)


def test_a_source_in_the_order_requested_is_aliased(client):
    host = aligned(512 * 600).reshape((512, 600), order="F")
    buffer = client.buffer_from_pyval(host, None, False, 2, layout=Layout((0, 1)))
    if getattr(buffer.memory, "transposes", False):
        pytest.skip("this plugin orders the elements itself, in memory of its own")
    assert buffer.unsafe_buffer_pointer() == host.ctypes.data
    for layout, semantics in ((Layout((0, 1)), 0), (None, 2)):
        copied = client.buffer_from_pyval(host, None, False, semantics, layout=layout)
        assert copied.unsafe_buffer_pointer() != host.ctypes.data


def test_the_default_is_row_major(client):
    device = client.devices()[1]
    for shape in ((), (3,), (2, 3), (4, 0, 2)):
        layout = client.get_default_layout(np.dtype("float32"), shape, device)
        assert layout == PjRtLayout(row_major(len(shape)))
        assert client.buffer_from_pyval(np.zeros(shape, np.float32), device).pjrt_layout == layout
    assert str(client.get_default_layout(np.dtype("bfloat16"), [2, 3])) == "{1,0}"
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    for explicit in (Layout((1, 0)), PjRtLayout("{1,0}"), row_major(2), None):
        buffer = client.buffer_from_pyval(host, layout=explicit)
        assert buffer.layout == Layout((1, 0))
        assert memory_of(buffer) == host.tobytes()

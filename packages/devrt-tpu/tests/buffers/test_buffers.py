"""Buffers through a real plugin: every dtype, layout, semantics and way to look at them."""

import gc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from devrt import dtypes
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.layout import Layout, PjRtLayout
from devrt_pjrt.library.since import TYPES

SUPPORTED = [e.name for e in dtypes.ELEMENT_TYPES if TYPES.get(e.code, 0) <= 81]


def values(name, shape=(3, 4), seed=0):
    """Return an array of a dtype with values that the dtype has exactly."""
    dice = np.random.default_rng(seed)
    dtype = dtypes.to_numpy(dtypes.by_name(name).code)
    bits = dtypes.by_name(name).bits
    if dtype.kind == "b":
        return dice.integers(0, 2, shape).astype(bool)
    if bits < 8:
        return dice.integers(0, 2, shape).astype(np.float32).astype(dtype)
    raw = dice.integers(0, 255, (*shape, dtype.itemsize)).astype(np.uint8)
    return raw.view(dtype).reshape(shape)


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if dtypes.from_numpy(a.dtype).bits < 8:
        return (a.astype(np.float32) == b.astype(np.float32)).all()
    return a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", SUPPORTED)
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 3), (1,), (2, 3, 4)])
def test_every_dtype_comes_back_as_it_was(xla_cpu, name, shape):
    array = values(name, shape)
    buffer = xla_cpu.buffer_from_pyval(array)
    assert (buffer.shape, buffer.dtype, buffer.ndim) == (shape, array.dtype, len(shape))
    assert (buffer.size, buffer.nbytes) == (array.size, array.nbytes)
    assert same(np.asarray(buffer), array)


@pytest.mark.parametrize("name", ["float32", "int8", "complex128", "bfloat16", "int4"])
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.T,
        lambda a: a[::2],
        lambda a: a[:, ::-1],
        lambda a: a[::-1, 1:3],
        lambda a: np.broadcast_to(a[0], a.shape),
        lambda a: a[1:2, 1:2],
        lambda a: np.asfortranarray(a),
    ],
)
def test_strides_of_every_kind_are_read(xla_cpu, name, change):
    array = change(values(name, (6, 5)))
    assert same(np.asarray(xla_cpu.buffer_from_pyval(array)), np.ascontiguousarray(array))


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.int16, np.uint8, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    ),
    st.integers(0, 3),
)
def test_what_is_put_is_what_is_read(xla_cpu, array, semantics):
    buffer = xla_cpu.buffer_from_pyval(array, None, False, semantics)
    assert np.array_equal(np.asarray(buffer), array, equal_nan=array.dtype.kind == "f")


def test_big_endian_and_scalars_are_converted(xla_cpu):
    array = np.arange(4, dtype=">f4")
    assert np.asarray(xla_cpu.buffer_from_pyval(array)).tolist() == [0, 1, 2, 3]
    assert xla_cpu.buffer_from_pyval(1.5).dtype == np.float64
    assert np.asarray(xla_cpu.buffer_from_pyval([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "value", [object(), "text", [1, "x"], np.array(["a"]), np.zeros(2, "M8[s]"), [[1], [1, 2]]]
)
def test_what_no_device_can_hold_is_refused(xla_cpu, value):
    with pytest.raises(InvalidTypeError):
        xla_cpu.buffer_from_pyval(value)


def test_a_dtype_that_is_younger_than_the_plugin_is_refused(xla_cpu, monkeypatch):
    # The plugin itself would end the process.
    from devrt_pjrt.buffers import spec

    monkeypatch.setattr(spec, "TYPES", {27: 99})
    xla_cpu._putter._codes.clear()
    with pytest.raises(InvalidTypeError, match=r"does not know float8_e3m4, which came with 0\.99"):
        xla_cpu.buffer_from_pyval(np.zeros(2, ml_dtypes.float8_e3m4))


@pytest.mark.parametrize("semantics", [-1, 4, 99])
def test_semantics_have_four_values(xla_cpu, semantics):
    with pytest.raises(InvalidArgumentError, match="host_buffer_semantics"):
        xla_cpu.buffer_from_pyval(np.zeros(2), None, False, semantics)


def aligned(count):
    raw = np.zeros(count * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * 4].view(np.float32)


def test_a_source_may_change_at_once_unless_it_was_lent(xla_cpu):
    for semantics, is_lent in ((0, False), (2, True), (3, True)):
        array = aligned(100_000)
        array[:] = 1
        buffer = xla_cpu.buffer_from_pyval(array, None, False, semantics)
        is_alias = buffer.unsafe_buffer_pointer() == array.ctypes.data
        assert is_alias is is_lent
        array[:] = 2
        assert np.asarray(buffer)[0] == (2 if is_lent else 1)
    copied = xla_cpu.buffer_from_pyval(array, None, True, 2)
    assert copied.unsafe_buffer_pointer() != array.ctypes.data


def test_a_lent_source_is_kept_as_long_as_its_buffer(xla_cpu):
    before = len(xla_cpu.connection.kept)
    array = aligned(1000)
    buffer = xla_cpu.buffer_from_pyval(array, None, False, 2)
    assert len(xla_cpu.connection.kept) == before + 1
    clone = buffer.clone()
    del buffer, array
    gc.collect()
    assert len(xla_cpu.connection.kept) == before + 1
    assert np.asarray(clone)[0] == 0
    del clone
    assert len(xla_cpu.connection.kept) == before


def test_a_source_that_is_copied_is_not_kept(xla_cpu):
    before = len(xla_cpu.connection.kept)
    made = [xla_cpu.buffer_from_pyval(aligned(1000)[1:], None, False, s) for s in (1, 2, 3)]
    xla_cpu.connection.drain()
    assert len(xla_cpu.connection.kept) == before
    del made


def test_a_buffer_is_deleted_once_and_for_all(xla_cpu):
    buffer = xla_cpu.buffer_from_pyval(np.arange(3))
    other = buffer.clone()
    buffer.delete()
    buffer.delete()
    assert buffer.is_deleted()
    assert not other.is_deleted()
    assert np.asarray(other).tolist() == [0, 1, 2]
    for use in (
        lambda: np.asarray(buffer),
        buffer.block_until_ready,
        buffer.is_ready,
        buffer.clone,
        buffer.on_device_size_in_bytes,
        buffer.unsafe_buffer_pointer,
        lambda: buffer.copy_to_memory(buffer.memory),
    ):
        with pytest.raises(DeletedError, match="was deleted or donated"):
            use()
    assert buffer.shape == (3,)
    assert "deleted" in repr(buffer)
    other.delete()
    assert other.is_deleted()


def test_a_view_is_read_only_for_good_and_outlives_its_buffer(xla_cpu):
    for count in (4, 100_000):
        buffer = xla_cpu.buffer_from_pyval(np.arange(count, dtype=np.float32))
        view = np.asarray(buffer)
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
        buffer.delete()
        del buffer
        gc.collect()
        assert view[-1] == count - 1


def test_asarray_converts_and_copies_on_request(xla_cpu):
    buffer = xla_cpu.buffer_from_pyval(np.arange(3, dtype=np.float32))
    assert np.asarray(buffer, dtype=np.int32).tolist() == [0, 1, 2]
    assert np.array(buffer, copy=True).flags.writeable
    with pytest.raises(ValueError, match="copy=False"):
        buffer.__array__(np.dtype(np.int32), False)


def test_buffers_go_to_every_device_and_memory(xla_cpu):
    array = np.arange(10, dtype=np.float32)
    for device in xla_cpu.devices():
        for memory in device.addressable_memories():
            buffer = xla_cpu.buffer_from_pyval(array, memory)
            assert (buffer.memory, buffer.device) == (memory, device)
            assert memory.addressable_by_devices() == [device]
            assert np.asarray(buffer).tolist() == array.tolist()
    here = xla_cpu.buffer_from_pyval(array)
    for memory in xla_cpu.memories():
        copied = here.copy_to_memory(memory)
        assert copied.memory is memory
        assert np.asarray(copied).tolist() == array.tolist()


def test_a_copy_shares_only_where_it_may(xla_cpu):
    buffer = xla_cpu.buffer_from_pyval(np.arange(10, dtype=np.float32))
    shared = buffer.copy_to_memory(buffer.memory)
    copied = buffer.copy_to_memory(buffer.memory, may_alias=False)
    assert shared.unsafe_buffer_pointer() == buffer.unsafe_buffer_pointer()
    assert copied.unsafe_buffer_pointer() != buffer.unsafe_buffer_pointer()


@pytest.mark.parametrize("target", ["x", 3, object()])
def test_a_target_of_another_kind_is_refused(xla_cpu, target):
    with pytest.raises(InvalidArgumentError, match="is no device and no memory"):
        xla_cpu.buffer_from_pyval(np.zeros(2), target)


def test_the_device_knows_its_memories_and_buffers(xla_cpu):
    device = xla_cpu.devices()[3]
    kinds = [memory.kind for memory in device.addressable_memories()]
    assert kinds[0] == device.default_memory().kind
    assert set(kinds) == {"device", "pinned_host", "unpinned_host"}
    assert device.memory("pinned_host").kind == "pinned_host"
    with pytest.raises(InvalidArgumentError, match="'pinned_host'"):
        device.memory("hbm")
    before = device.memory_stats()["bytes_in_use"]
    buffer = xla_cpu.buffer_from_pyval(np.zeros(1000, np.float32), device)
    assert device.memory_stats()["bytes_in_use"] == before + 4000
    assert device.default_memory().memory_stats()["bytes_in_use"] >= 4000
    assert device.live_buffers()[-1] is buffer
    assert buffer in xla_cpu.live_buffers()
    assert buffer.on_device_size_in_bytes() == 4000
    del buffer
    assert device.memory_stats()["bytes_in_use"] == before


def test_live_buffers_are_the_oldest_first(xla_cpu):
    made = [xla_cpu.buffer_from_pyval(np.zeros(i + 1)) for i in range(50)]
    mine = [buffer for buffer in xla_cpu.live_buffers() if buffer in made]
    assert mine == made


def test_layouts_are_reported(xla_cpu):
    expected = PjRtLayout(Layout((1, 0)))
    assert xla_cpu.get_default_layout(np.dtype(np.float32), (2, 3)) == expected
    assert xla_cpu.buffer_from_pyval(np.zeros((2, 3, 4))).layout == Layout((2, 1, 0))


class TestDlpack:
    def test_numpy_and_back(self, xla_cpu):
        buffer = xla_cpu.buffer_from_pyval(np.arange(1000, dtype=np.float32))
        view = np.from_dlpack(buffer)
        assert view.ctypes.data == buffer.unsafe_buffer_pointer()
        back = xla_cpu.buffer_from_dlpack(view)
        assert back.unsafe_buffer_pointer() == buffer.unsafe_buffer_pointer()
        del buffer, view
        gc.collect()
        assert np.asarray(back)[999] == 999

    def test_a_lent_tensor_is_given_back(self, xla_cpu):
        import sys

        array = aligned(1000)
        count = sys.getrefcount(array)
        buffer = xla_cpu.buffer_from_dlpack(array, copy=False)
        assert sys.getrefcount(array) > count
        array[5] = 7
        assert np.asarray(buffer)[5] == 7
        del buffer
        xla_cpu.connection.drain()
        assert sys.getrefcount(array) == count

    @pytest.mark.parametrize("change", [lambda a: a[1:], lambda a: a.reshape(10, 100).T])
    def test_what_cannot_be_viewed_is_copied_or_refused(self, xla_cpu, change):
        array = change(aligned(1000))
        assert np.asarray(xla_cpu.buffer_from_dlpack(array)).shape == array.shape
        with pytest.raises(InvalidArgumentError, match="cannot be viewed"):
            xla_cpu.buffer_from_dlpack(array, copy=False)

    def test_copy_means_copy(self, xla_cpu):
        array = aligned(1000)
        buffer = xla_cpu.buffer_from_dlpack(array, copy=True)
        array[0] = 9
        assert np.asarray(buffer)[0] == 0
        capsule = buffer.__dlpack__(copy=True)
        assert np.asarray(xla_cpu.buffer_from_dlpack(capsule))[0] == 0

    def test_a_capsule_is_consumed_once(self, xla_cpu):
        capsule = xla_cpu.buffer_from_pyval(np.zeros(3)).__dlpack__()
        xla_cpu.buffer_from_dlpack(capsule)
        with pytest.raises(InvalidTypeError, match="consumed already"):
            xla_cpu.buffer_from_dlpack(capsule)

    def test_what_dlpack_cannot_say_is_refused(self, xla_cpu):
        packed = xla_cpu.buffer_from_pyval(np.zeros(3, ml_dtypes.int4))
        with pytest.raises(BufferError, match="not laid out as DLPack"):
            packed.__dlpack__()
        buffer = xla_cpu.buffer_from_pyval(np.zeros(3))
        with pytest.raises(BufferError, match="Copy it to"):
            buffer.__dlpack__(dl_device=(2, 0))
        with pytest.raises(BufferError, match="no streams"):
            buffer.__dlpack__(stream=1)
        with pytest.raises(InvalidTypeError, match="no __dlpack__"):
            xla_cpu.buffer_from_dlpack([1, 2])


@pytest.mark.parametrize("semantics", range(4))
@pytest.mark.parametrize("offset", [0, 4, 64])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_large_sources_of_every_kind_arrive(xla_cpu, semantics, offset, step):
    storage = np.arange((1 << 20) + 100, dtype=np.float32)
    start = (-storage.ctypes.data % 64 + offset) // 4
    source = storage[start : start + (1 << 20)][::step]
    buffer = xla_cpu.buffer_from_pyval(source, None, False, semantics)
    wanted = source.copy()
    if semantics == 0:
        storage[:] = -1  # free at return
    np.testing.assert_array_equal(np.asarray(buffer), wanted)


def test_a_large_copy_goes_with_its_buffer(xla_cpu):
    source = np.ones(1 << 20, np.float32)
    before = len(xla_cpu.connection.kept)
    kept = [xla_cpu.buffer_from_pyval(source) for _ in range(3)]
    view = np.asarray(kept[0])
    assert len(xla_cpu.connection.kept) == before + 3
    kept.clear()
    gc.collect()
    assert view.sum() == 1 << 20
    del view
    gc.collect()
    xla_cpu.live_buffers()  # looks what has been given back
    assert len(xla_cpu.connection.kept) == before


@pytest.mark.parametrize("change", [lambda a: a[::-1], lambda a: a[::2, ::-3], lambda a: a.T[::-1]])
@pytest.mark.parametrize("copy", [None, True])
def test_a_tensor_with_negative_strides_is_copied(xla_cpu, change, copy):
    array = change(np.arange(60, dtype=np.int32).reshape(6, 10))
    np.testing.assert_array_equal(np.asarray(xla_cpu.buffer_from_dlpack(array, copy=copy)), array)


@pytest.mark.parametrize("count", [16, 1 << 19])
def test_a_program_never_writes_to_read_only_memory(xla_cpu, add_text, count):
    text = add_text.replace("8xf32", f"{count}xf32").replace(
        f"%a: tensor<{count}xf32>", f"%a: tensor<{count}xf32> {{tf.aliasing_output = 0 : i32}}"
    )
    add = xla_cpu.compile_and_load(text)
    other = xla_cpu.buffer_from_pyval(np.ones(count, np.float32))
    storage = np.zeros(4 * count + 64, np.uint8)
    start = -storage.ctypes.data % 64
    source = storage[start : start + 4 * count].view(np.float32)
    for is_writable in (False, True):
        source[:] = 1
        lent = source.view()
        lent.flags.writeable = is_writable
        buffer = xla_cpu.buffer_from_pyval(lent, None, False, 3)
        (result,) = add.execute([buffer, other])
        assert np.asarray(result)[0] == 2
        assert source[0] == (2 if is_writable else 1)


@pytest.mark.parametrize("semantics", [-1, 4, 1.0, 2.5, "2", None, [], 1 << 70, np.array([1, 2])])
@pytest.mark.parametrize("count", [8, 1 << 19])
def test_semantics_that_are_none_are_refused(xla_cpu, semantics, count):
    with pytest.raises(InvalidArgumentError, match="host_buffer_semantics"):
        xla_cpu.buffer_from_pyval(np.zeros(count, np.float32), None, False, semantics)


@pytest.mark.parametrize("target", [3, "cpu", [], {}, object(), np.zeros(3)])
def test_a_target_that_is_none_is_refused(xla_cpu, target):
    for use in (
        lambda: xla_cpu.buffer_from_pyval([1], target),
        lambda: xla_cpu.buffer_from_pyval([1]).copy_to_memory(target),
        lambda: xla_cpu.buffer_from_dlpack(np.zeros(3), target),
    ):
        with pytest.raises(InvalidArgumentError, match="is no device and no memory of"):
            use()


@pytest.mark.parametrize("name", ["device", "memory", "handle", "spec"])
def test_what_a_buffer_is_cannot_be_changed(xla_cpu, name):
    buffer = xla_cpu.buffer_from_pyval(np.arange(8))
    other = xla_cpu.buffer_from_pyval(np.arange(4), xla_cpu.devices()[1])
    with pytest.raises(AttributeError):
        setattr(buffer, name, getattr(other, name))
    assert buffer.shape == np.asarray(buffer).shape

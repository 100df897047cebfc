"""Buffers through a real plugin: every dtype, layout, semantics and way to look at them."""

import gc

import ml_dtypes
import numpy as np
import pytest

from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from support import aligned


def test_scalars_and_lists_are_converted(xla_cpu):
    assert xla_cpu.buffer_from_pyval(1.5).dtype == np.float64
    assert np.asarray(xla_cpu.buffer_from_pyval([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]


def test_a_dtype_that_is_younger_than_the_plugin_is_refused(xla_cpu, monkeypatch):
    # The plugin itself would end the process.
    from devrt_pjrt.buffers import spec

    monkeypatch.setattr(spec, "TYPES", {27: 99})
    xla_cpu._putter._codes.clear()
    with pytest.raises(InvalidTypeError, match=r"does not know float8_e3m4, which came with 0\.99"):
        xla_cpu.buffer_from_pyval(np.zeros(2, ml_dtypes.float8_e3m4))


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


def test_a_copy_shares_only_where_it_may(xla_cpu):
    buffer = xla_cpu.buffer_from_pyval(np.arange(10, dtype=np.float32))
    shared = buffer.copy_to_memory(buffer.memory)
    copied = buffer.copy_to_memory(buffer.memory, may_alias=False)
    assert shared.unsafe_buffer_pointer() == buffer.unsafe_buffer_pointer()
    assert copied.unsafe_buffer_pointer() != buffer.unsafe_buffer_pointer()


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
    source = aligned(count)
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

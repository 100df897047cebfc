"""Zero-copy views: NumPy's array protocol, the buffer protocol and DLPack."""

import ml_dtypes
import numpy as np
import pytest

from devrt import dtypes, errors

STANDARD = [e.name for e in dtypes.ELEMENT_TYPES[:15] if e.name != "bfloat16"]
EXTENDED = [e.name for e in dtypes.ELEMENT_TYPES if e.name not in STANDARD]


@pytest.fixture
def host():
    return np.arange(12, dtype=np.float32).reshape(3, 4)


def test_views_share_the_storage(client, host):
    buffer = client.buffer_from_pyval(host)
    pointer = buffer.unsafe_buffer_pointer()
    for view in (
        np.asarray(buffer),
        buffer.__array__(),
        np.asarray(memoryview(buffer)),
        np.from_dlpack(buffer),
        np.array(buffer, copy=False),
    ):
        assert view.ctypes.data == pointer
        assert not view.flags.writeable
        assert np.array_equal(view, host)


def test_views_outlive_the_buffer(client, host):
    buffer = client.buffer_from_pyval(host)
    views = [buffer.__array__(), np.asarray(buffer), np.from_dlpack(buffer)]
    views.append(np.asarray(memoryview(buffer)))
    buffer.delete()
    del buffer
    while views:
        assert client.devices()[0].memory_stats()["bytes_in_use"] == host.nbytes
        assert np.array_equal(views.pop(), host)
    assert client.devices()[0].memory_stats()["bytes_in_use"] == 0


@pytest.mark.parametrize("name", STANDARD)
def test_memoryview_formats(client, name):
    source = np.ones((2, 3), dtypes.to_numpy(dtypes.by_name(name).code))
    view = memoryview(client.buffer_from_pyval(source))
    assert view.readonly
    assert view.format == memoryview(source).format
    assert (view.shape, view.strides) == (source.shape, source.strides)
    assert view.tobytes() == source.tobytes()


@pytest.mark.parametrize("name", EXTENDED)
def test_memoryview_refuses_what_has_no_format(client, name):
    source = np.ones(3, dtypes.to_numpy(dtypes.by_name(name).code))
    with pytest.raises(BufferError, match="ml_dtypes"):
        memoryview(client.buffer_from_pyval(source))


def test_nothing_writes_through_a_buffer(client, host):
    buffer = client.buffer_from_pyval(host)
    with pytest.raises(TypeError, match="read-only"):
        memoryview(buffer)[0, 0] = 1
    assert not np.frombuffer(buffer, np.float32).flags.writeable


def test_len(client, host):
    assert len(client.buffer_from_pyval(host)) == 3
    with pytest.raises(TypeError, match="dimensions"):
        len(client.buffer_from_pyval(1.0))


def test_dlpack_protocol(client, host):
    buffer = client.buffer_from_pyval(host)
    assert buffer.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(buffer.__dlpack__())
    assert '"dltensor_versioned"' in repr(buffer.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(buffer.__dlpack__(max_version=(0, 8)))
    copied = np.from_dlpack(buffer, copy=True)
    assert copied.ctypes.data != buffer.unsafe_buffer_pointer()
    assert np.array_equal(copied, host)
    with pytest.raises(BufferError, match="stream"):
        buffer.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        buffer.__dlpack__(dl_device=(2, 0))


def test_dlpack_of_small_types(client):
    buffer = client.buffer_from_pyval(np.ones(3, ml_dtypes.int4))
    assert "versioned" in repr(buffer.__dlpack__(max_version=(1, 1)))
    with pytest.raises(BufferError, match="8 bits"):
        buffer.__dlpack__()


class Exporter:
    """An object that offers nothing but DLPack, at the version that is requested or before it."""

    def __init__(self, source, versioned=True, device=1):
        self.source, self.versioned, self.device = source, versioned, device

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("no options in this version")
        return self.source.__dlpack__(**options)


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("semantics", [0, 1, 2])
@pytest.mark.parametrize("size", [6, 1 << 16])
def test_dlpack_import(client, versioned, semantics, size):
    host = np.arange(2 * size, dtype=np.float64).reshape(size, 2)
    for source in (host, host.T, host[::2, ::-1]):
        buffer = client.buffer_from_pyval(Exporter(source, versioned), None, False, semantics)
        assert np.array_equal(np.asarray(buffer), source)


def test_dlpack_import_of_ml_dtypes(client):
    first = client.buffer_from_pyval(np.arange(64, dtype=ml_dtypes.bfloat16))
    second = client.buffer_from_pyval(Exporter(first), None, False, 2)
    assert second.dtype == first.dtype
    assert second.unsafe_buffer_pointer() == first.unsafe_buffer_pointer()
    first.delete()
    assert np.array_equal(np.asarray(second), np.arange(64, dtype=ml_dtypes.bfloat16))


def test_dlpack_import_refuses_other_devices(client):
    with pytest.raises(errors.InvalidArgumentError, match="host"):
        client.buffer_from_pyval(Exporter(np.ones(3), device=2))

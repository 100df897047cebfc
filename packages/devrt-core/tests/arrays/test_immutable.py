"""No reader of an array can change what the next reader sees, whatever its backend hands out."""

import mmap

import ml_dtypes
import numpy as np
import pytest

import devrt
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeBuffer, AcmeClient

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def _read_only_view(data):
    view = data.view()
    view.flags.writeable = False
    return view


# What a backend may return of a buffer's `__array__`.
HANDED_OUT = {
    "a fresh array": np.copy,
    "its own memory": lambda data: data,
    "a view of a fresh array": lambda data: data.copy()[...],
    "a read-only view of its own memory": _read_only_view,
    "a read-only array that owns its data": lambda data: _locked(data.copy()),
    "column-major": lambda data: data.copy(order="F"),
    "with steps": lambda data: np.stack([data, data], axis=-1)[..., 0],
    "a subclass": lambda data: data.copy().view(np.memmap),
    "a locked array over a bytearray": lambda data: _over(bytearray(data.tobytes()), data),
    "a locked array over a writable view": lambda data: _over(
        memoryview(bytearray(data.tobytes())), data
    ),
    "a locked array over a map": lambda data: _over(_mapped(data.tobytes()), data),
    "a read-only view of a bytearray": lambda data: _over(
        memoryview(bytearray(data.tobytes())).toreadonly(), data
    ),
    "read-only bytes": lambda data: np.frombuffer(data.tobytes(), data.dtype).reshape(data.shape),
}


def _over(memory, data):
    return _locked(np.ndarray(data.shape, data.dtype, memory))


def _mapped(data):
    mapped = mmap.mmap(-1, len(data) or 1)
    mapped.write(data)
    return mapped


def _locked(host):
    host.flags.writeable = False
    return host


@pytest.fixture(params=HANDED_OUT)
def devices(request, monkeypatch):
    """Devices of a client whose buffers hand out arrays of one kind."""
    hand_out = HANDED_OUT[request.param]
    monkeypatch.setattr(
        AcmeBuffer, "__array__", lambda self, dtype=None, copy=None: hand_out(self._alive())
    )
    return AcmeClient(2).devices()


def over(devices, *axes):
    return NamedSharding(devrt.make_mesh((2,), ("x",), devices=devices), P(*axes))


READINGS = {
    "numpy.asarray": np.asarray,
    "device_get": devrt.device_get,
    "device_get of a tree": lambda a: devrt.device_get([a])[0],
    "__array__": lambda a: a.__array__(),
    "its own dtype": lambda a: a.__array__(a.dtype),
    "numpy.array": lambda a: np.array(a, copy=None),
    "a shard": lambda a: np.asarray(a.addressable_shards[0].data),
    "__buffer__": lambda a: np.asarray(a.__buffer__(0x11C)),  # FULL_RO
}


@pytest.mark.parametrize("place", ["one device", "replicated", "sharded"])
@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_what_is_read_can_never_be_written_to(devices, read, place):
    target = {
        "one device": devices[0],
        "replicated": over(devices),
        "sharded": over(devices, None, "x"),
    }[place]
    a = devrt.device_put(X, target)
    host = read(a)
    expected = X[: host.shape[0], : host.shape[1]]
    np.testing.assert_array_equal(host, expected)
    assert type(host) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        host[0, 0] = 99
    with pytest.raises(ValueError, match="WRITEABLE"):
        host.setflags(write=True)
    while isinstance(host, np.ndarray):
        assert not host.flags.writeable
        host = host.base
    np.testing.assert_array_equal(np.asarray(a), X)


@pytest.mark.parametrize(
    "value", [np.array(3.0), np.ones((0, 2)), np.ones(3, ml_dtypes.bfloat16)], ids=str
)
def test_scalars_empty_arrays_and_every_dtype(devices, value):
    host = np.asarray(devrt.device_put(value, devices[0]))
    assert (host.dtype, host.shape) == (value.dtype, value.shape)
    np.testing.assert_array_equal(host, value)
    assert not host.flags.writeable


def test_a_copy_that_is_requested_is_the_readers_own(devices):
    a = devrt.device_put(X, devices[0])
    for copied in (np.array(a), a.__array__(copy=True), a.__array__(np.dtype("f8"))):
        copied[0, 0] = 99
        np.testing.assert_array_equal(np.asarray(a), X)


def test_the_elements_are_not_copied_to_protect_them():
    client = AcmeClient(1)
    a = devrt.device_put(X, client.devices()[0])
    assert np.asarray(a).ctypes.data == a.unsafe_buffer_pointer()


def test_an_array_that_is_no_buffers_stays_the_users_own():
    host = X.copy()
    assert devrt.device_get(host) is host
    assert host.flags.writeable

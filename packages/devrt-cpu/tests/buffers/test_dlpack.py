"""DLPack in and out beyond plain arrays: small types, options, and exporters that misbehave."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from devrt import dtypes
from devrt.errors import InvalidTypeError
from devrt_cpu import make_cpu_client

SMALL = [e.name for e in dtypes.ELEMENT_TYPES if e.bits < 8]
READ_ONLY, COPIED, PADDED = 1, 2, 4


class Wrapped:
    """An object that offers nothing but DLPack, so that nothing else can be taken."""

    def __init__(self, source):
        self.source = source

    def __dlpack_device__(self):
        return self.source.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.source.__dlpack__(**options)


class Exporter:
    def __init__(self, capsule, device=(1, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def flags_address(capsule):
    """Return where the flags of a versioned tensor are: after its version and two pointers."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, b"dltensor_versioned")) + 8 + 2 * ctypes.sizeof(ctypes.c_void_p)


def flags_of(capsule):
    return ctypes.c_uint64.from_address(flags_address(capsule))


def test_the_flags_say_what_the_consumer_may_do(client):
    buffer = client.buffer_from_pyval(np.arange(3.0))
    shared = buffer.__dlpack__(max_version=(1, 0))
    assert flags_of(shared).value == READ_ONLY
    copied = buffer.__dlpack__(max_version=(1, 0), copy=True)
    assert flags_of(copied).value == COPIED
    small = client.buffer_from_pyval(np.ones(3, ml_dtypes.int4)).__dlpack__(max_version=(1, 0))
    assert flags_of(small).value == READ_ONLY | PADDED
    assert not np.from_dlpack(buffer).flags.writeable
    assert np.from_dlpack(buffer, copy=True).flags.writeable


@pytest.mark.parametrize("name", SMALL)
def test_types_of_less_than_a_byte_are_padded_to_one(client, name):
    host = np.array([0, 1, 1, 0]).astype(dtypes.to_numpy(dtypes.by_name(name).code))
    buffer = client.buffer_from_pyval(host)
    assert buffer.on_device_size_in_bytes() == buffer.nbytes == 4
    again = client.buffer_from_pyval(Wrapped(buffer))
    assert again.dtype == host.dtype
    assert np.array_equal(np.asarray(again), host)


def test_packed_elements_are_refused(client):
    buffer = client.buffer_from_pyval(np.ones(4, ml_dtypes.int4))
    capsule = buffer.__dlpack__(max_version=(1, 0))
    flags_of(capsule).value &= ~PADDED
    with pytest.raises(InvalidTypeError, match="4 bits"):
        client.buffer_from_pyval(Exporter(capsule))


@pytest.mark.parametrize("name", [e.name for e in dtypes.ELEMENT_TYPES])
def test_every_dtype_goes_through_dlpack(client, name):
    host = np.array([[0, 1], [1, 0]]).astype(dtypes.to_numpy(dtypes.by_name(name).code))
    again = client.buffer_from_pyval(Wrapped(client.buffer_from_pyval(host)))
    assert again.dtype == host.dtype
    assert np.asarray(again).tobytes() == host.tobytes()


def test_exporters_that_break_the_contract_are_refused():
    used = np.zeros(3).__dlpack__()
    assert np.from_dlpack(Exporter(used)).shape == (3,)
    with make_cpu_client() as client:
        for capsule in (None, 5, used):
            with pytest.raises(InvalidTypeError, match="capsule"):
                client.buffer_from_pyval(Exporter(capsule))
        with pytest.raises(TypeError, match="__dlpack_device__"):
            client.buffer_from_pyval(Exporter(None, ("cpu", 0)))


@pytest.mark.parametrize(
    "options",
    [
        {"copy": 2},
        {"max_version": ("1", 0)},
        {"max_version": (1,)},
        {"max_version": "1"},
        {"dl_device": (1, "0")},
        {"dl_device": (1,)},
        {"dl_device": 1},
    ],
    ids=str,
)
def test_options_of_a_wrong_type_are_refused(options):
    with make_cpu_client() as client:
        buffer = client.buffer_from_pyval(np.zeros(3))
        with pytest.raises(TypeError, match=next(iter(options))):
            buffer.__dlpack__(**options)


def test_a_later_version_gets_the_one_there_is(client):
    buffer = client.buffer_from_pyval(np.arange(3.0))
    for version in ((1, 0), (1, 3), (2, 0)):
        assert "versioned" in repr(buffer.__dlpack__(max_version=version, dl_device=(1, 0)))
    assert np.array_equal(np.from_dlpack(buffer, device="cpu"), np.arange(3.0))

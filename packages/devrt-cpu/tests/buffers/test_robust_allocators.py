"""Plugins' allocators that break their contract."""

import ctypes

import numpy as np
import pytest

from devrt.errors import DevrtWarning, InternalError, InvalidArgumentError
from devrt.records import MemoryKind
from devrt_cpu import make_cpu_client, plugin


@pytest.mark.parametrize("returned", [5, None], ids=str)
def test_an_allocator_that_returns_no_capsule_is_refused(returned):
    kind = MemoryKind(platform="cpu", kind="unusual", allocator=lambda: returned)
    with pytest.raises(InvalidArgumentError, match="'unusual'"):
        make_cpu_client(memory_kinds=[kind])


def test_the_plugin_leaves_out_kinds_whose_allocator_fails():
    def fails():
        raise OSError("no such memory")

    for allocator, why in ((fails, "no such memory"), (lambda: 5, "of type int")):
        kind = MemoryKind(platform="cpu", kind="unusual", allocator=allocator)
        with pytest.warns(DevrtWarning, match=f"'unusual'.*{why}"):
            assert list(plugin._usable([kind])) == []


class Table(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("context", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("deallocate", ctypes.c_void_p),
    )


def test_misaligned_memory_of_a_plugin_is_refused_and_given_back():
    live = set()
    block = ctypes.create_string_buffer(8192)

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    def allocate(_context, _size, alignment):
        address = -(-ctypes.addressof(block) // alignment) * alignment + 8
        live.add(address)
        return address

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    def deallocate(_context, address, _size):
        live.remove(address)

    functions = [ctypes.cast(f, ctypes.c_void_p).value for f in (allocate, deallocate)]
    table = Table(ctypes.sizeof(Table), None, *functions)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    capsule = new(ctypes.addressof(table), b"devrt_host_allocator", None)
    kind = MemoryKind(platform="cpu", kind="unusual", allocator=lambda: capsule)
    with make_cpu_client(memory_kinds=[kind]) as client:
        memory = client.devices()[0].memory("unusual")
        with pytest.raises(InternalError, match="aligned"):
            client.buffer_from_pyval(np.arange(100.0), memory)
        assert not live
        assert memory.memory_stats()["bytes_in_use"] == 0

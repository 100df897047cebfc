"""Managed memory on both vendors' simulated devices: the host and every device read it in place."""

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding, PartitionSpec
from gpu_library import simulated_platform

pytestmark = pytest.mark.usefixtures("driver")  # which looks for reports after each test

X = np.arange(24, dtype=np.float32).reshape(4, 6)
INTERFACE = "__cuda_array_interface__"
COPIES = ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2")


@pytest.fixture(scope="module")
def devices(vendor):
    with simulated_platform(vendor.platform) as found:
        yield found


def test_each_device_has_it_after_the_others(devices):
    for device in devices:
        kinds = [memory.kind for memory in device.addressable_memories()]
        assert kinds == ["device", "pinned_host", "unpinned_host", "managed"]
        assert device.memory("managed").is_host_visible


def test_the_host_reads_it_in_place(driver, devices):
    counts = [driver.calls(name) for name in COPIES]
    x = devrt.device_put(X, devices[1].memory("managed"))
    view = np.asarray(x)
    assert (view == X).all()
    assert view.ctypes.data == x.unsafe_buffer_pointer()
    assert [driver.calls(name) for name in COPIES] == counts


@pytest.mark.parametrize("kind", ["device", "pinned_host", "unpinned_host", "managed"])
def test_arrays_go_to_it_and_come_from_it(devices, kind):
    for here, there in ((0, 0), (0, 1), (1, 0)):
        x = devrt.device_put(X, devices[here].memory(kind))
        moved = devrt.device_put(x, devices[there].memory("managed"))
        assert (np.asarray(moved) == X).all()
        back = devrt.device_put(moved, devices[here].memory(kind))
        assert (np.asarray(back) == X).all()


def test_sharded_arrays_go_to_it_and_change_their_shards_there(devices):
    mesh = Mesh(np.array(devices), ("x",))
    rows = NamedSharding(mesh, PartitionSpec("x"), memory_kind="managed")
    columns = NamedSharding(mesh, PartitionSpec(None, "x"))
    x = devrt.device_put(X, rows)
    assert x.sharding.memory_kind == "managed"
    y = devrt.device_put(x, columns)
    z = devrt.device_put(y, columns.with_memory_kind("managed"))
    assert (np.asarray(y) == X).all()
    assert (np.asarray(z) == X).all()
    assert (np.asarray(devrt.device_put(z, rows)) == X).all()


def test_its_statistics_are_its_own(devices):
    memory = devices[0].memory("managed")
    before = memory.memory_stats()["bytes_in_use"]
    x = devrt.device_put(X, memory).block_until_ready()
    assert memory.memory_stats()["bytes_in_use"] >= before + X.nbytes
    x.delete()


def test_others_see_it_as_managed(vendor, devices):
    x = devrt.device_put(X, devices[1].memory("managed"))
    kind, number = x.__dlpack_device__()
    assert (int(kind), number) == ((13, 1) if vendor.platform == "cuda" else (11, 1))


def test_other_libraries_read_it_as_a_device_s(devices):
    x = devrt.device_put(X, devices[1].memory("managed"))
    shown = x.__cuda_array_interface__
    assert shown["shape"] == X.shape
    assert shown["data"] == (x.unsafe_buffer_pointer(), True)
    assert not hasattr(devrt.device_put(X, devices[1].memory("pinned_host")), INTERFACE)


def test_a_kind_that_is_not_there_is_named(devices):
    with pytest.raises(InvalidArgumentError, match="managed"):
        devices[0].memory("unified")

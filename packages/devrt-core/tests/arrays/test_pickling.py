"""Pickles and copies of arrays and shardings: back where they were, or a clear error."""

import copy
import pickle

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError
from devrt.sharding import AxisType, DeviceList, Mesh, NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P

devrt_cpu = pytest.importorskip("devrt_cpu")

X = np.arange(32.0).reshape(8, 4)


@pytest.fixture
def mesh(cpu):
    return Mesh(
        np.array(cpu, dtype=object).reshape(4, 2), ("x", "y"), axis_types=("auto", "manual")
    )


def test_a_sharded_array_goes_back_to_its_devices(mesh):
    a = devrt.device_put(X, NamedSharding(mesh, P("x", "y"), memory_kind="pinned_host"))
    b = pickle.loads(pickle.dumps(a))
    assert b.sharding == a.sharding
    assert b.sharding.mesh.axis_types == (AxisType.Auto, AxisType.Manual)
    assert b.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(np.asarray(b), X)


def test_committed_arrays_keep_their_device_and_others_do_not(cpu):
    assert pickle.loads(pickle.dumps(devrt.device_put(X, cpu[5]))).device is cpu[5]
    with devrt.default_device(cpu[3]):
        text = pickle.dumps(devrt.device_put(X))
    assert pickle.loads(text).device is cpu[0]
    assert not pickle.loads(text).committed


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_shardings_meshes_and_lists_pickle_alone(mesh, cpu, protocol):
    for thing in (
        mesh,
        mesh.abstract_mesh,
        NamedSharding(mesh, P(("x", "y"))),
        SingleDeviceSharding(cpu[2]),
        DeviceList(cpu[::2]),
    ):
        assert pickle.loads(pickle.dumps(thing, protocol)) == thing


def test_devices_that_do_not_exist_here_are_named():
    with devrt_cpu.make_cpu_client(num_devices=64) as client:
        text = pickle.dumps(devrt.device_put(X, client.devices()[63]))
    with pytest.raises(InvalidArgumentError, match=r"cpu:63, and there are 8 cpu devices"):
        pickle.loads(text)


def test_a_platform_that_does_not_exist_here_is_named(as_default, plugins):
    sharding = SingleDeviceSharding(devrt.devices("cpu")[0])
    text = pickle.dumps(sharding).replace(b"\x03cpu", b"\x03xpu")
    with pytest.raises(InvalidArgumentError, match="'xpu' cannot be used here"):
        pickle.loads(text)


def test_deep_copies_have_their_own_memory_and_the_same_devices(mesh):
    with devrt_cpu.make_cpu_client(num_devices=2) as client:
        mine = NamedSharding(Mesh(np.array(client.devices(), dtype=object), ("x",)), P("x"))
        for sharding in (NamedSharding(mesh, P("x")), mine):
            a = devrt.device_put(X, sharding)
            b = copy.deepcopy({"a": a, "s": sharding})
            assert b["s"].mesh is sharding.mesh
            assert b["a"].sharding == sharding
            pointers = [
                {s.data.unsafe_buffer_pointer() for s in x.addressable_shards} for x in (a, b["a"])
            ]
            assert pointers[0].isdisjoint(pointers[1])
            np.testing.assert_array_equal(np.asarray(b["a"]), X)


def test_handles_are_deleted_apart(mesh):
    a = devrt.device_put(X, NamedSharding(mesh, P("x")))
    b = copy.copy(a)
    a.delete()
    np.testing.assert_array_equal(np.asarray(b), X)

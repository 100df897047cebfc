"""The usage examples of the interface documents on devices, memory and placement.

Only the import lines differ from those for jaxlib and JAX: ``from devrt import xla_client`` and
``import devrt as jax``. Those that compute are in `test_document_computing`.
"""

import numpy as np
import pytest

import devrt

pytest.importorskip("devrt_cpu")


def test_device_discovery_and_selection(capsys):
    from devrt import xla_client

    client = xla_client.make_cpu_client()
    devices = client.devices()

    print(f"Available devices: {len(devices)}")
    for device in devices:
        print(f"Device {device.id}: {device.platform} ({device.device_kind})")
        print(f"  Host ID: {device.host_id}")
        print(f"  Process: {device.process_index}")

        default_mem = device.default_memory()
        print(f"  Default memory: {default_mem.kind}")

        addressable_mems = device.addressable_memories()
        print(f"  Addressable memories: {[m.kind for m in addressable_mems]}")

        stats = device.memory_stats()
        if stats:
            print(f"  Memory stats: {stats}")

    printed = capsys.readouterr().out
    assert "Device 0: cpu (cpu)" in printed
    assert "Default memory: device" in printed
    assert "pinned_host" in printed
    assert "bytes_in_use" in printed


def test_memory_management(capsys):
    from devrt import xla_client

    client = xla_client.make_cpu_client()
    device = client.local_devices()[0]

    data = np.array([1.0, 2.0, 3.0], dtype=np.float32)
    buffer = client.buffer_from_pyval(data, device=device)

    print(f"Buffer on device: {buffer}")
    print(f"Live buffers on device: {len(device.live_buffers())}")

    stats = device.memory_stats()
    if stats:
        print(f"Memory usage: {stats}")

    assert "Live buffers on device: 1" in capsys.readouterr().out
    assert stats["bytes_in_use"] >= data.nbytes


def test_device_assignment(capsys):
    from devrt import xla_client

    client = xla_client.make_cpu_client()
    devices = client.local_devices()

    if len(devices) >= 2:
        assignment_array = np.array([[0], [1]], dtype=np.int32)
        device_assignment = xla_client.DeviceAssignment.create(assignment_array)

        print(f"Replica count: {device_assignment.replica_count()}")
        print(f"Computation count: {device_assignment.computation_count()}")

    assert "Replica count: 2" in capsys.readouterr().out


def test_device_topology():
    from devrt import xla_client

    client = xla_client.make_cpu_client()
    devices = client.local_devices()

    topology = xla_client.get_topology_for_devices(devices)
    assert topology.platform == "cpu"
    assert topology.platform_version == client.platform_version

    topology_bytes = topology.serialize()
    assert len(topology_bytes) > 0
    assert len(topology._make_compile_only_devices()) == len(devices)


def test_array_creation_and_batched_waiting():
    from devrt import xla_client

    client = xla_client.make_cpu_client()
    devices = client.local_devices()

    data = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    buffer = client.buffer_from_pyval(data, device=devices[0])
    assert buffer.shape == (2, 2)
    assert buffer.dtype == np.float32
    assert buffer.on_device_size_in_bytes() >= data.nbytes
    buffer.block_until_ready()
    assert buffer.is_ready()

    arrays = [
        client.buffer_from_pyval(np.array([1.0, 2.0]), devices[0]),
        client.buffer_from_pyval(np.array([3.0, 4.0]), devices[0]),
        client.buffer_from_pyval(np.array([5.0, 6.0]), devices[0]),
    ]
    xla_client.batched_block_until_ready(arrays)
    assert all(arr.is_ready() for arr in arrays)


def test_basic_client_setup(capsys):
    from devrt import xla_client

    cpu_client = xla_client.make_cpu_client(asynchronous=True)
    print(f"CPU devices: {cpu_client.local_devices()}")

    try:
        gpu_client = xla_client.make_gpu_client(platform_name="cuda")
        print(f"GPU devices: {gpu_client.local_devices()}")
    except Exception as e:  # noqa: BLE001  the document's own line
        print(f"GPU not available: {e}")

    printed = capsys.readouterr().out
    assert "CPU devices: [CpuDevice(id=0)" in printed
    assert "GPU" in printed


def test_placement(cpu):
    import devrt as jax
    import devrt.numpy as jnp

    all_devices = jax.devices("cpu")
    assert jax.device_count("cpu") == len(all_devices)

    cpu_data = jnp.array([1, 2, 3, 4])
    there = jax.device_put(cpu_data, jax.devices("cpu")[1])
    assert there.device() is cpu[1]

    host_data = jax.device_get(there)
    assert isinstance(host_data, np.ndarray)

    with jax.default_device(jax.devices("cpu")[2]):
        assert jnp.array([1, 2, 3]).device() is cpu[2]


def test_an_absent_gpu_is_one_error_and_never_the_cpu():
    import devrt as jax

    with pytest.raises(RuntimeError, match="gpu"):
        jax.devices("gpu")


def test_sharded_placement():
    import devrt as jax
    from devrt.sharding import NamedSharding
    from devrt.sharding import PartitionSpec as P

    mesh = jax.make_mesh((2, 2), ("data", "model"))
    assert dict(mesh.shape) == {"data": 2, "model": 2}
    assert mesh.size == 4

    data_sharding = NamedSharding(mesh, P("data", None))
    model_sharding = NamedSharding(mesh, P(None, "model"))
    replicated_sharding = NamedSharding(mesh, P())

    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    x_sharded = jax.device_put(x, data_sharding)
    weights_sharded = jax.device_put(x.T.copy(), model_sharding)
    replicated = jax.device_put(x, replicated_sharding)

    assert x_sharded.addressable_shards[0].data.shape == (4, 4)
    assert weights_sharded.addressable_shards[0].data.shape == (4, 4)
    assert replicated.is_fully_replicated
    assert not x_sharded.is_fully_replicated
    assert x_sharded.is_fully_addressable
    assert len(x_sharded.devices()) == 4


def test_array_and_device_properties(cpu):
    array = devrt.device_put(np.ones(3), cpu[1])
    device = array.device()
    assert device in array.devices()
    assert (device.platform, device.id, device.host_id, device.process_index) == ("cpu", 1, 0, 0)
    assert device.device_kind == "cpu"
    assert str(device)
    assert repr(device)


def test_configuration():
    import devrt as jax

    before = jax.config.read("platform_name")
    jax.config.update("jax_platform_name", "cpu")
    assert jax.default_backend() == "cpu"
    jax.config.update("jax_platform_name", before)

    jax.config.update("jax_default_device", jax.devices("cpu")[1])
    assert devrt.device_put(1.0).device is jax.devices("cpu")[1]
    jax.config.update("jax_default_device", None)


def test_clearing_caches_keeps_arrays(cpu):
    import devrt as jax

    array = jax.device_put(np.ones(3), cpu[0])
    jax.clear_caches()
    assert any(x is array for x in jax.live_arrays())
    assert np.asarray(array).tolist() == [1, 1, 1]

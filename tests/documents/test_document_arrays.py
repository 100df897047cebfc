"""The examples of the documents on arrays and placement, and on batched operations, once more.

Those that `test_document_examples` and `test_document_computing` do not have. Only the import lines
differ from those for JAX and jaxlib.
"""

import inspect

import numpy as np
import pytest

import devrt as jax
import devrt.numpy as jnp
from devrt import errors, xla_client
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P

pytest.importorskip("devrt_cpu")

# Every name that the two documents declare and that needs no compilation, with its arguments.
DECLARED = {
    jax: {
        "devices": "backend", "local_devices": "process_index backend", "device_count": "backend",
        "local_device_count": "backend", "host_count": "backend", "host_id": "backend",
        "host_ids": "backend", "process_count": "backend", "process_index": "backend",
        "process_indices": "backend", "default_backend": "", "device_put": "x device src",
        "device_put_sharded": "sharded_values devices indices",
        "device_put_replicated": "x devices", "device_get": "x", "copy_to_host_async": "x",
        "block_until_ready": "x", "make_mesh": "mesh_shape axis_names",
        "make_array_from_callback": "shape sharding data_callback",
        "make_array_from_process_local_data": "sharding local_data",
        "live_arrays": "", "clear_caches": "",
    },
    xla_client: {
        "batched_device_put": "aval sharding shards devices committed force_copy "
        "host_buffer_semantics",
        "array_result_handler": "aval sharding committed _skip_checks",
        "batched_copy_array_to_devices_with_sharding": "arrays devices sharding "
        "array_copy_semantics",
        "reorder_shards": "x dst_sharding array_copy_semantics",
        "batched_block_until_ready": "x",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name"), [(m, n) for m, names in DECLARED.items() for n in names]
)
def test_a_declared_name_takes_the_declared_arguments(module, name):
    parameters = inspect.signature(getattr(module, name)).parameters
    declared = DECLARED[module][name].split()
    assert list(parameters)[: len(declared)] == declared


def test_the_members_of_array_impl():
    # jaxlib has one class for arrays and buffers; the names of the placement are those of arrays.
    of_both = (
        "block_until_ready is_deleted is_ready delete clone on_device_size_in_bytes dtype shape "
        "traceback device"
    ).split()
    of_arrays = "_arrays devices sharding is_fully_replicated is_fully_addressable".split()
    x = jax.device_put(np.arange(4.0), jax.devices()[0])
    (buffer,) = x._arrays
    for held, names in ((x, of_both + of_arrays), (buffer, of_both)):
        assert isinstance(held, xla_client.ArrayImpl)
        assert [n for n in names if not hasattr(held, n)] == []
    named = xla_client.ArrayImpl.__abstractmethods__
    assert named <= set(of_both)


def test_data_parallel_set_up():
    def create_train_setup(num_devices):
        # Create mesh for data parallelism
        mesh = jax.make_mesh((num_devices,), ("batch",))

        # Sharding specifications
        batch_sharding = NamedSharding(mesh, P("batch"))  # Batch dimension sharded
        replicated_sharding = NamedSharding(mesh, P())  # Parameters replicated

        return mesh, batch_sharding, replicated_sharding

    mesh, batch_sharding, replicated_sharding = create_train_setup(8)
    batch = jax.device_put(np.zeros((16, 3)), batch_sharding)
    params = jax.device_put({"w": np.ones((3, 3)), "b": np.zeros(3)}, replicated_sharding)
    assert mesh.shape == {"batch": 8}
    assert batch.addressable_shards[0].data.shape == (2, 3)
    assert params["w"].is_fully_replicated


def test_transfer_guards_and_their_levels():
    # Transfer guards to catch unintentional device transfers
    try:
        jax.config.update("jax_transfer_guard", "allow")  # Default: allow all transfers
        jnp.array([1.0])
        jax.config.update("jax_transfer_guard", "log")  # Log transfers
        jnp.array([1.0])
        jax.config.update("jax_transfer_guard", "disallow")  # Disallow transfers
        with pytest.raises(errors.InvalidArgumentError):
            jnp.array([1.0])
        jax.device_put(1.0)
        jax.config.update("jax_transfer_guard", "log_explicit_device_put")
        jax.device_put(1.0)
    finally:
        jax.config.update("jax_transfer_guard", None)


def test_replicated_and_sharded_data():
    data = np.arange(6, dtype=np.float32)
    replicated_data = jax.device_put_replicated(data, jax.devices("cpu"))
    assert replicated_data.shape == (8, 6)
    sharded = jax.device_put_sharded([data] * 2, jax.devices("cpu")[:2])
    assert sharded.devices() == set(jax.devices("cpu")[:2])


def test_arrays_from_parts():
    mesh = jax.make_mesh((8,), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    x = np.arange(16, dtype=np.float32)
    from_callback = jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])
    local = jax.make_array_from_process_local_data(sharding, x)
    parts = [shard.data for shard in local.addressable_shards]
    made = jax.make_array_from_single_device_arrays(parts, sharding)
    for array in (from_callback, local, made):
        np.testing.assert_array_equal(np.asarray(array), x)


def test_a_copy_to_the_host_is_a_future():
    x = jax.device_put(np.arange(4))
    future = jax.copy_to_host_async(x)
    np.testing.assert_array_equal(future.result(), np.arange(4))

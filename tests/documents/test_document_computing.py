"""The computing examples of the document on devices and memory, on eight CPU devices.

Only the import lines differ from those for JAX: ``import devrt as jax``. What an example leaves to
the reader (a loss, an optimizer, a model, data) is filled in.
"""

import numpy as np
import pytest

import devrt as jax
import devrt.numpy as jnp
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P

pytest.importorskip("devrt_cpu")

pytestmark = pytest.mark.engine


def test_explicit_device_placement_in_computations():
    with jax.default_device(jax.devices("cpu")[0]):
        cpu_result = jnp.sum(jnp.array([1, 2, 3]))

    assert int(cpu_result) == 6
    assert cpu_result.devices() == {jax.devices("cpu")[0]}


def test_sharded_computation():
    # Create 2x2 device mesh
    devices_array = jnp.array(jax.devices()[:4]).reshape(2, 2)
    mesh = jax.make_mesh((2, 2), ("data", "model"))

    # Define sharding specifications
    data_sharding = NamedSharding(mesh, P("data", None))  # Shard first axis across 'data'
    model_sharding = NamedSharding(mesh, P(None, "model"))  # Shard second axis across 'model'
    replicated_sharding = NamedSharding(mesh, P())  # Replicated across all devices

    # Create sharded arrays
    x = jax.random.normal(jax.random.key(0), (8, 4))
    x_sharded = jax.device_put(x, data_sharding)

    weights = jax.random.normal(jax.random.key(1), (4, 8))
    weights_sharded = jax.device_put(weights, model_sharding)

    # Computation with sharded arrays automatically parallelized
    @jax.jit
    def matmul_fn(x, w):
        return x @ w

    result = matmul_fn(x_sharded, weights_sharded)  # Automatically sharded computation
    expected = np.asarray(x) @ np.asarray(weights)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, P("data", "model")), 2)

    # Explicit sharding control
    def single_device_fn(x_shard, w_shard):
        return x_shard @ w_shard

    parallel_fn = jax.shard_map(
        single_device_fn,
        mesh=mesh,
        in_specs=(P("data", None), P(None, "model")),
        out_specs=P("data", "model"),
    )

    result = parallel_fn(x_sharded, weights_sharded)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert (devices_array == mesh.devices).all()
    assert replicated_sharding.is_fully_replicated
    assert jax.smap is jax.shard_map


def test_multi_device_training():
    # Setup for data-parallel training
    def create_train_setup(num_devices):
        # Create mesh for data parallelism
        mesh = jax.make_mesh((num_devices,), ("batch",))

        # Sharding specifications
        batch_sharding = NamedSharding(mesh, P("batch"))  # Batch dimension sharded
        replicated_sharding = NamedSharding(mesh, P())  # Parameters replicated

        return mesh, batch_sharding, replicated_sharding

    _, batch_sharding, replicated_sharding = create_train_setup(8)

    def loss_fn(params, batch):
        x, y = batch
        return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)

    class optimizer:  # noqa: N801  the document's name
        @staticmethod
        def update(grads, state, params):
            return {k: params[k] - 0.1 * grads[k] for k in params}, state + 1

    def distributed_train_step(params, batch, optimizer_state):
        # All arrays should already have appropriate sharding
        grads = jax.grad(loss_fn)(params, batch)

        # Update step automatically uses sharding from inputs
        new_params, new_state = optimizer.update(grads, optimizer_state, params)
        return new_params, new_state

    # JIT compile with sharding
    distributed_train_step = jax.jit(
        distributed_train_step,
        in_shardings=(replicated_sharding, batch_sharding, replicated_sharding),
        out_shardings=(replicated_sharding, replicated_sharding),
    )

    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 3.0], np.float32) + 0.5
    params = {"w": np.zeros(3, np.float32), "b": np.float32(0)}
    state = np.int32(0)
    batch = jax.device_put((x, y), batch_sharding)
    for _ in range(100):
        params, state = distributed_train_step(params, batch, state)

    np.testing.assert_allclose(params["w"], [1, -2, 3], atol=1e-2)
    np.testing.assert_allclose(params["b"], 0.5, atol=1e-2)
    assert int(state) == 100
    assert params["w"].sharding.is_equivalent_to(replicated_sharding, 1)


def test_model_parallelism():
    # 2D mesh: batch x model dimensions
    def create_model_parallel_setup():
        mesh = jax.make_mesh((2, 4), ("batch", "model"))

        # Different sharding strategies
        input_sharding = NamedSharding(mesh, P("batch", None))
        weight_sharding = NamedSharding(mesh, P(None, "model"))
        output_sharding = NamedSharding(mesh, P("batch", "model"))

        return mesh, input_sharding, weight_sharding, output_sharding

    def model_parallel_layer(x, weights):
        # Matrix multiply with different sharding patterns
        return x @ weights  # JAX handles the communication automatically

    _, input_sharding, weight_sharding, output_sharding = create_model_parallel_setup()

    # Shard arrays according to strategy
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    weights = np.arange(48, dtype=np.float32).reshape(6, 8)
    x_sharded = jax.device_put(x, input_sharding)
    weights_sharded = jax.device_put(weights, weight_sharding)

    assert x_sharded.addressable_shards[0].data.shape == (2, 6)
    assert weights_sharded.addressable_shards[0].data.shape == (6, 2)

    # Computation
    result = model_parallel_layer(x_sharded, weights_sharded)  # Result has output_sharding
    np.testing.assert_array_equal(result, x @ weights)
    assert result.sharding.is_equivalent_to(output_sharding, 2)


def test_memory_efficient_inference():
    def memory_efficient_inference(model_fn, large_input):
        # Process in chunks to manage memory
        chunk_size = 1000
        chunks = [large_input[i : i + chunk_size] for i in range(0, len(large_input), chunk_size)]

        results = []
        for chunk in chunks:
            # Move to device, compute, move back to host
            device_chunk = jax.device_put(chunk)
            device_result = model_fn(device_chunk)
            host_result = jax.device_get(device_result)
            results.append(host_result)

            # Optional: clear caches to free memory
            jax.clear_caches()

        return jnp.concatenate(results)

    large_input = np.arange(2500, dtype=np.float32)
    for source in (large_input, jax.device_put(large_input)):
        result = memory_efficient_inference(jax.jit(lambda x: x * 2), source)
        np.testing.assert_array_equal(result, large_input * 2)


def test_cross_device_communication():
    data = np.arange(3, dtype=np.float32)

    # Collective operations using pmap
    @jax.pmap
    def allreduce_example(x):
        # Sum across all devices
        return jax.lax.psum(x, axis_name="batch")

    @jax.pmap
    def allgather_example(x):
        # Gather from all devices
        return jax.lax.all_gather(x, axis_name="batch")

    # Use with replicated data
    replicated_data = jax.device_put_replicated(data, jax.devices())
    summed_result = allreduce_example(replicated_data)
    gathered_result = allgather_example(replicated_data)

    np.testing.assert_array_equal(summed_result, np.stack([data * 8] * 8))
    np.testing.assert_array_equal(gathered_result, np.stack([np.stack([data] * 8)] * 8))


def test_sharding_constraints():
    mesh = jax.make_mesh((2, 2), ("data", "model"))
    sharding = NamedSharding(mesh, P("data"))
    x = np.ones((8, 4), np.float32)
    np.testing.assert_array_equal(jax.with_sharding_constraint(x, sharding), x)
    inside = jax.jit(lambda x: jax.with_sharding_constraint(x=x + 1, sharding=sharding))(x)
    assert inside.sharding.is_equivalent_to(sharding, 2)
    for given in ({}, {"sharding": sharding, "shardings": sharding}):
        with pytest.raises(TypeError, match=r"its sharding .* once"):
            jax.with_sharding_constraint(x, **given)


def test_a_map_whose_arguments_are_named_as_in_the_document():
    mesh = jax.make_mesh((2, 2), ("data", "model"))
    x = np.ones((8, 4), np.float32)
    double = jax.shard_map(
        f=lambda x: x * 2, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_rep=False
    )
    np.testing.assert_array_equal(double(x), x * 2)

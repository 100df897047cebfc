"""Donation of buffers that devrt allocated: outputs take their memory, unless somebody sees it."""

import gc

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError
from support import aligned

pytestmark = pytest.mark.engine

ADD = """func.func @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32},
                         %b: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.add %a, %b : tensor<1024xf32>
  return %0 : tensor<1024xf32> }"""

READ = """func.func @main(%a: tensor<1024xf32>) -> tensor<f32> {
  %m = stablehlo.reshape %a : (tensor<1024xf32>) -> tensor<32x32xf32>
  %0 = stablehlo.dot %m, %m : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<32x32xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32> }"""


def ones(client, device=None):
    return client.buffer_from_pyval(np.ones(1024, np.float32), device)


def in_use(client):
    return sum(device.memory_stats()["bytes_in_use"] for device in client.local_devices())


def test_an_output_takes_the_memory_of_a_put_buffer(client):
    add = client.compile_and_load(ADD)
    before = in_use(client)
    x, y = ones(client), ones(client)
    address = x.unsafe_buffer_pointer()
    (result,) = add.execute([x, y])
    assert x.is_deleted()
    assert result.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(np.asarray(result), np.full(1024, 2))
    y.delete()
    gc.collect()
    assert in_use(client) - before == 4096
    result.delete()
    gc.collect()
    assert in_use(client) == before


def test_a_chain_of_donations_stays_in_one_place_and_is_counted_once(client):
    add = client.compile_and_load(ADD)
    y = ones(client)
    before = in_use(client)
    x = ones(client)
    address = x.unsafe_buffer_pointer()
    for _ in range(20):
        (x,) = add.execute([x, y])
    assert x.unsafe_buffer_pointer() == address
    assert in_use(client) - before == 4096
    np.testing.assert_array_equal(np.asarray(x), np.full(1024, 21))
    view = np.asarray(x)
    x.delete()
    del x
    gc.collect()
    assert in_use(client) - before == 4096  # the view shows it
    assert view[5] == 21
    del view
    gc.collect()
    assert in_use(client) == before


def test_a_buffer_that_programs_have_read_is_donated_in_place(client):
    add, read = client.compile_and_load(ADD), client.compile_and_load(READ)
    x, y = ones(client), ones(client)
    address = x.unsafe_buffer_pointer()
    read.execute([x])[0].block_until_ready()
    for _ in range(200):  # a plugin's thread may still be about to release it
        (result,) = add.execute([x, y])
        if result.unsafe_buffer_pointer() == address:
            break
        x = ones(client)
        address = x.unsafe_buffer_pointer()
        read.execute([x])[0].block_until_ready()
    assert result.unsafe_buffer_pointer() == address


def test_programs_that_still_read_are_not_written_under(client):
    add, read = client.compile_and_load(ADD), client.compile_and_load(READ)
    y = ones(client)
    expected = float((np.ones((32, 32)) @ np.ones((32, 32))).sum())
    for _ in range(50):
        x = ones(client)
        readers = [read.execute([x])[0] for _ in range(4)]
        (result,) = add.execute([x, y])
        assert [float(np.asarray(r)) for r in readers] == [expected] * 4
        assert np.asarray(result)[0] == 2


@pytest.mark.parametrize("steps", [0, 1], ids=["a put buffer", "a result"])
def test_what_a_memoryview_shows_is_not_written_to(client, steps):
    add = client.compile_and_load(ADD)
    x = ones(client)
    for _ in range(steps):
        (x,) = add.execute([x, ones(client)])
    shared = memoryview(x.block_until_ready())
    (result,) = add.execute([x, ones(client)])
    assert x.is_deleted()
    assert np.asarray(result)[7] == 2 + steps
    assert np.asarray(shared)[7] == 1 + steps


@pytest.mark.parametrize("semantics", [2, 3])
def test_memory_that_was_lent_is_not_taken(client, semantics):
    add = client.compile_and_load(ADD)
    source = aligned(1024)
    source[:] = 1
    x = client.buffer_from_pyval(source, host_buffer_semantics=semantics)
    (result,) = add.execute([x, ones(client)])
    assert np.asarray(result)[0] == 2
    assert source[0] == 1


def test_a_refused_call_gives_the_buffer_back(client):
    add = client.compile_and_load(ADD)
    x = ones(client)
    with pytest.raises(InvalidArgumentError, match=r"argument 0 .* is donated, and given again"):
        add.execute([x, x])
    assert not x.is_deleted()
    np.testing.assert_array_equal(np.asarray(x), np.ones(1024))
    (result,) = add.execute([x, ones(client)])
    assert np.asarray(result)[0] == 2


def test_outputs_outlive_the_client_that_donated(client):
    from devrt_cpu import make_cpu_client

    with make_cpu_client() as other:
        add = other.compile_and_load(ADD)
        (result,) = add.execute([ones(other), ones(other)])
        view = np.asarray(result)
        del result, add
    del other
    gc.collect()
    np.testing.assert_array_equal(view, np.full(1024, 2))

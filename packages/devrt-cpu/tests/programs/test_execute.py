"""Calls of compiled programs: one memory, donation, lifetimes, order, and what is refused."""

import gc
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt_cpu import make_cpu_client
from support import aligned, double, square

pytestmark = pytest.mark.engine

DOUBLE = double()

SLOW = square()  # runs in the engine's threads, after the call has returned

DONATE = """func.func @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32},
                            %b: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.add %a, %b : tensor<1024xf32>
  return %0 : tensor<1024xf32> }"""

TOTAL = """
module @total attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> tensor<f32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]
      : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
"""


def ones(client, size=1024, device=None):
    return client.buffer_from_pyval(np.ones(size, np.float32), device)


def in_use(client):
    return sum(device.memory_stats()["bytes_in_use"] for device in client.local_devices())


# One memory.


def test_nothing_is_copied_between_device_buffers(client):
    executable = client.compile_and_load(SLOW)
    x = client.buffer_from_pyval(np.eye(256, dtype=np.float32))
    for _ in range(5):
        (x,) = executable.execute([x])
    np.testing.assert_array_equal(np.asarray(x), np.eye(256))
    stats = client.engine_stats()
    assert stats == {"executions": 5, "views": 1, "copies": 0, "bytes_copied": 0}


def test_a_view_is_kept_with_the_buffer(client):
    executable = client.compile_and_load(DOUBLE)
    x = ones(client, 8)
    for _ in range(10):
        executable.execute([x])
    assert client.engine_stats()["views"] == 1
    executable.execute([x.clone()])
    assert client.engine_stats()["views"] == 2


def test_outputs_are_counted_as_memory_in_use(client):
    executable = client.compile_and_load(DONATE)
    before = in_use(client)
    (result,) = executable.execute([ones(client), ones(client)])
    result.block_until_ready()
    gc.collect()
    assert in_use(client) - before == 4096
    view = np.asarray(result)
    result.delete()
    assert in_use(client) - before == 4096  # the view shows it
    del view
    assert in_use(client) == before


def test_packed_types_are_copied_and_counted(client):
    executable = client.compile_and_load(double("5xi4"))
    values = np.array([1, 2, 3, -1, -4], ml_dtypes.int4)
    (result,) = executable.execute([client.buffer_from_pyval(values)])
    np.testing.assert_array_equal(np.asarray(result), (values + values).astype(ml_dtypes.int4))
    (again,) = executable.execute([result])
    np.testing.assert_array_equal(np.asarray(again), np.array([4, -8, -4, -4, 0], ml_dtypes.int4))
    assert client.engine_stats()["copies"] == 3  # one in, two out
    assert client.engine_stats()["bytes_copied"] == 15


def test_empty_arrays_go_in_and_out(client):
    executable = client.compile_and_load(double("0x3xf32"))
    (result,) = executable.execute([client.buffer_from_pyval(np.zeros((0, 3), np.float32))])
    assert np.asarray(result).shape == (0, 3)


@pytest.mark.parametrize("kind", ["device", "pinned_host", "unpinned_host"])
def test_arguments_may_lie_on_any_memory_of_the_device(client, kind):
    executable = client.compile_and_load(DOUBLE)
    memory = client.local_devices()[0].memory(kind)
    (result,) = executable.execute([ones(client, 8, memory)])
    np.testing.assert_array_equal(np.asarray(result), np.full(8, 2))


# Lifetimes.


def test_a_zero_copy_source_lives_as_long_as_the_engine_reads_it(client):
    class Source(np.ndarray):
        pass

    gone = threading.Event()
    source = aligned(256 * 256).reshape(256, 256).view(Source)
    source[:] = 1
    weakref.finalize(source, gone.set)
    buffer = client.buffer_from_pyval(source, host_buffer_semantics=2)
    executable = client.compile_and_load(SLOW)
    results = [executable.execute([buffer])[0] for _ in range(4)]
    buffer.delete()
    del source
    for result in results:
        assert np.asarray(result)[0, 0] == 256.0 * 256.0
    del results, result
    for _ in range(200):
        gc.collect()
        client.local_device_count()
        ones(client, 8)
        if gone.wait(0.05):
            break
    assert gone.is_set()


def test_arguments_and_executables_may_go_while_they_are_used(client):
    executable = client.compile_and_load(SLOW)
    results = []
    for i in range(8):
        x = client.buffer_from_pyval(np.full((256, 256), float(i), np.float32))
        results += executable.execute([x])
        x.delete()
        client.buffer_from_pyval(np.full((256, 256), np.nan, np.float32)).delete()
    executable.delete()
    for i, result in enumerate(results):
        assert np.asarray(result)[3, 3] == 256.0 * 256.0 * float(i) ** 3


def test_views_of_outputs_outlive_buffer_executable_and_client():
    client = make_cpu_client()
    executable = client.compile_and_load(SLOW)
    (result,) = executable.execute([client.buffer_from_pyval(np.ones((256, 256), np.float32))])
    view = np.asarray(result)
    del result, executable
    client.close()
    del client
    gc.collect()
    assert view.sum() == 256.0**4


def test_a_pending_output_may_be_deleted(client):
    executable = client.compile_and_load(SLOW)
    x = client.buffer_from_pyval(np.ones((256, 256), np.float32))
    before = in_use(client)
    for _ in range(8):
        executable.execute([x])[0].delete()
    client.close()
    assert in_use(client) <= before


# Donation.


def test_donated_arguments_are_deleted(client):
    executable = client.compile_and_load(DONATE)
    assert executable.donated_parameters == [0]
    a, b = ones(client), ones(client)
    (result,) = executable.execute([a, b])
    assert (a.is_deleted(), b.is_deleted()) == (True, False)
    assert np.asarray(result)[0] == 2
    words = "argument 0 of program 'main' was deleted or donated"
    with pytest.raises(DeletedError, match=words):
        executable.execute([a, b])


def test_chains_of_donation_need_no_waiting(client):
    text = SLOW.replace(
        "%a: tensor<256x256xf32>)", "%a: tensor<256x256xf32> {tf.aliasing_output = 0 : i32})"
    )
    executable = client.compile_and_load(text)
    (x,) = executable.execute([client.buffer_from_pyval(np.eye(256, dtype=np.float32))])
    for _ in range(20):
        (x,) = executable.execute([x])
    np.testing.assert_array_equal(np.asarray(x), np.eye(256))
    gc.collect()
    assert in_use(client) == 256 * 256 * 4


# What is refused before the engine sees it.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda c: [], "takes 1 argument, and 0 were given"),
        (lambda c: [ones(c, 8)] * 2, "takes 1 argument, and 2 were given"),
        (lambda c: [ones(c, 7)], r"is float32\[7\] and must be float32\[8\]"),
        (lambda c: [c.buffer_from_pyval(np.ones(8, np.int32))], r"is int32\[8\] and must be"),
        (lambda c: [c.buffer_from_pyval(np.ones((2, 4), np.float32))], r"is float32\[2,4\]"),
        (lambda c: [ones(c, 8, c.devices()[1])], "lies on cpu:1, and must lie on cpu:0"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(client, make, message):
    executable = client.compile_and_load(DOUBLE)
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        executable.execute(make(client))
    if "argument 0" in str(caught.value):
        assert caught.value.data["device"] == "cpu:0"


@pytest.mark.parametrize("wrong", [3, None, [3], ["x"], [None]])
def test_what_is_no_list_of_buffers_is_refused(client, wrong):
    executable = client.compile_and_load(DOUBLE)
    with pytest.raises(InvalidTypeError, match="execute failed"):
        executable.execute(wrong)


def test_a_wrong_shard_is_refused_and_the_next_call_runs(client):
    """XLA's clients hang in the next call after one on several devices failed."""
    executable = client.compile_and_load(TOTAL)
    assert executable.is_collective
    first, second = client.devices()
    good = [ones(client, 8, first), ones(client, 8, second)]
    gone = ones(client, 8, second)
    gone.delete()
    for bad in (
        [good[0], ones(client, 7, second)],
        [good[0], good[0]],
        [good[1], good[0]],
        [good[0]],
        [*good, good[0]],
        [good[0], client.buffer_from_pyval(np.ones(8, np.int32), second)],
    ):
        with pytest.raises(InvalidArgumentError):
            executable.execute_sharded([bad])
    with pytest.raises(DeletedError):
        executable.execute_sharded([[good[0], gone]])
    with pytest.raises(InvalidArgumentError, match="Call execute_sharded"):
        executable.execute(good[:1])
    (totals,) = executable.execute_sharded([good])
    assert [float(np.asarray(total)) for total in totals] == [16, 16]

"""Temporary memory of programs: counted while they run, and known before they do."""

import gzip
import pickle
import threading

import numpy as np
import pytest

from devrt import errors
from devrt_cpu import make_cpu_client
from support import together

pytestmark = pytest.mark.engine

MIB = 1 << 20

# Takes two matrices of 1 MiB as temporary memory, and runs in the engine's threads.
SLOW = """func.func @main(%a: tensor<512x512xf32>) -> tensor<f32> {
  %0 = stablehlo.dot %a, %a : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = stablehlo.dot %0, %a : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<512x512xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32> }"""
TAKEN = 2 * MIB

ALL = """module attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(
      %a: tensor<4096x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %b: tensor<512x512xf32>) -> tensor<f32> {
    %0 = stablehlo.dot %a, %b : (tensor<4096x512xf32>, tensor<512x512xf32>) -> tensor<4096x512xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<4096x512xf32>, tensor<f32>) -> tensor<f32>
    return %1 : tensor<f32> } }"""


def compiled(client, text, devices=None):
    # What newer compilers fuse with YNNPACK has temporary memory that they do not count.
    flags = {"xla_cpu_experimental_ynn_fusion_type": ""}
    return client.compile_and_load(text, devices, env_option_overrides=flags)


def ones(client, device=None):
    return client.buffer_from_pyval(np.ones((512, 512), np.float32), device)


def stats(client):
    return client.devices()[0].memory_stats()


def test_it_counts_while_the_program_runs():
    with make_cpu_client() as client:
        program, x = compiled(client, SLOW), ones(client)
        assert program.get_compiled_memory_stats()["temp_size_in_bytes"] == TAKEN
        before = stats(client)["bytes_in_use"]
        result = program.execute([x])[0]
        result.block_until_ready()
        assert stats(client)["bytes_in_use"] == before + 4
        assert stats(client)["peak_bytes_in_use"] >= before + TAKEN
        assert stats(client)["largest_alloc_size"] == TAKEN
        again = client.deserialize_executable(program.serialize())
        peak = stats(client)["num_allocs"]
        again.execute([x])[0].block_until_ready()
        assert stats(client)["num_allocs"] == peak + 2  # the result's, and this


def test_the_profile_has_it_while_the_program_runs():
    started, go_on = threading.Event(), threading.Event()

    def wait(a):
        started.set()
        go_on.wait(60)
        return a

    text = SLOW.replace(
        "%2 = stablehlo.reduce(%1 ",
        "%h = stablehlo.custom_call @test_temp_wait(%1) {api_version = 4 : i32, has_side_effect "
        "= true} : (tensor<512x512xf32>) -> tensor<512x512xf32>\n  %2 = stablehlo.reduce(%h ",
    )
    with make_cpu_client() as client:
        client.register_custom_call("test_temp_wait", wait)
        program, x = compiled(client, text), ones(client)
        taken = program.get_compiled_memory_stats()["temp_size_in_bytes"]
        result = program.execute([x])[0]
        started.wait(60)
        try:
            assert b"temporaries of program 'main'" in gzip.decompress(client.heap_profile())
            assert stats(client)["bytes_in_use"] == x.nbytes + taken + 4
        finally:
            go_on.set()
        result.block_until_ready()
        assert b"temporaries" not in gzip.decompress(client.heap_profile())


def test_results_are_no_lent_memory():
    with make_cpu_client(memory_limit_bytes=8 * MIB) as client:
        (result,) = compiled(client, SLOW).execute([ones(client)])
        result.block_until_ready()
        with pytest.raises(errors.OutOfMemoryError, match="4 bytes in 1 of float32") as caught:
            client.buffer_from_pyval(np.zeros(16 * MIB, np.uint8))
        assert "lent" not in str(caught.value)


def test_a_call_that_cannot_fit_is_refused_before_it_runs():
    with make_cpu_client(memory_limit_bytes=3 * MIB) as client:
        program, x = compiled(client, SLOW), ones(client)
        before = stats(client)
        with pytest.raises(errors.OutOfMemoryError) as caught:
            program.execute([x])
        error = caught.value
        assert (error.requested, error.limit) == (TAKEN + 4, 3 * MIB)
        assert (error.operation, error.device, error.memory_kind) == ("execute", "cpu:0", "device")
        assert error.program == {
            "name": "main",
            "devices": 1,
            "argument_size_in_bytes": MIB,
            "output_size_in_bytes": 4,
            "temp_size_in_bytes": TAKEN,
        }
        assert error.largest[0]["bytes"] == MIB
        assert f"4 bytes of outputs and {TAKEN} of temporaries for program 'main'" in str(error)
        assert pickle.loads(pickle.dumps(error)).program == error.program
        assert client.engine_stats()["executions"] == 0
        assert stats(client)["num_allocs"] == before["num_allocs"]
        assert not x.is_deleted()


def test_a_call_that_fits_alone_waits_for_those_that_run():
    with make_cpu_client(memory_limit_bytes=MIB + TAKEN + 100) as client:
        program, x = compiled(client, SLOW), ones(client)
        results = [program.execute([x])[0] for _ in range(10)]
        assert {float(np.asarray(result)) for result in results} == {512.0**4}
        assert stats(client)["peak_bytes_in_use"] <= MIB + TAKEN + 100


def test_a_buffer_waits_for_a_program_that_runs():
    with make_cpu_client(memory_limit_bytes=MIB + TAKEN + 100) as client:
        program, x = compiled(client, SLOW), ones(client)
        for _ in range(5):
            result = program.execute([x])[0]
            y = ones(client)
            assert np.asarray(y)[0, 0] == 1
            del y
            assert float(np.asarray(result)) == 512.0**4


def test_threads_alternate_under_a_limit():
    with make_cpu_client(num_devices=2, memory_limit_bytes=2 * MIB + TAKEN + 4096) as client:
        pairs = [
            (compiled(client, SLOW, [device]), ones(client, device)) for device in client.devices()
        ]

        def work(number):
            program, x = pairs[number % 2]
            for _ in range(10):
                assert float(np.asarray(program.execute([x])[0])) == 512.0**4

        together(work, range(16))
        assert stats(client)["peak_bytes_in_use"] <= 2 * MIB + TAKEN + 4096


def test_the_devices_of_a_call_reserve_together():
    rows = np.ones((512, 512), np.float32)
    with make_cpu_client(num_devices=8, memory_limit_bytes=25 * MIB) as client:
        program = compiled(client, ALL)
        each = program.get_compiled_memory_stats()["temp_size_in_bytes"]
        assert each >= MIB
        shards = [[client.buffer_from_pyval(rows, d) for d in client.devices()] for _ in range(2)]
        results = [program.execute_sharded(shards)[0] for _ in range(3)]
        for row in results:
            assert {float(np.asarray(result)) for result in row} == {4096 * 512.0**2}
        filler = client.buffer_from_pyval(np.zeros(4 * MIB, np.uint8))
        with pytest.raises(errors.OutOfMemoryError, match="on 8 devices together") as caught:
            program.execute_sharded(shards)
        assert caught.value.program["temp_size_in_bytes"] == 8 * each
        assert caught.value.program["argument_size_in_bytes"] == 16 * MIB
        filler.delete()
        (row,) = program.execute_sharded(shards)
        assert float(np.asarray(row[7])) == 4096 * 512.0**2


def test_a_failure_in_the_middle_gives_everything_back():
    def fail(a):
        raise ValueError("in the middle")

    text = SLOW.replace(
        "%2 = stablehlo.reduce(%1 ",
        "%h = stablehlo.custom_call @test_temp_fail(%1) {api_version = 4 : i32, has_side_effect "
        "= true} : (tensor<512x512xf32>) -> tensor<512x512xf32>\n  %2 = stablehlo.reduce(%h ",
    )
    with make_cpu_client(memory_limit_bytes=8 * MIB) as client:
        client.register_custom_call("test_temp_fail", fail)
        program, x = compiled(client, text), ones(client)
        for _ in range(20):
            with pytest.raises(errors.InvalidArgumentError, match="in the middle"):
                program.execute([x])[0].block_until_ready()
        assert stats(client)["bytes_in_use"] == MIB
        assert stats(client)["largest_free_block_bytes"] == 7 * MIB

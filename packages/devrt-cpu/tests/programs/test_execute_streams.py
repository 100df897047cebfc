"""Calls of compiled programs on execution streams: one id is ordered, another overtakes it.

No clock decides anything: a program of the same stream begins when what came before it on the
device has ended, so that by the time a call returns, all results before its own are there.
"""

import threading

import numpy as np
import pytest

from devrt.xla_client import execution_stream_id
from devrt_cpu import make_cpu_client
from support import double, square, together

pytestmark = pytest.mark.engine

# Runs in the engine's threads, after the call has returned, for some milliseconds.
SLOW = square(512)

SHORT = double("2xf32")


@pytest.fixture
def calls(client):
    """Two programs on each of two devices, as functions without arguments."""
    made = {}
    for device in client.devices():
        for name, text, size in (("slow", SLOW, (512, 512)), ("short", SHORT, (2,))):
            executable = client.compile_and_load(text, [device])
            argument = client.buffer_from_pyval(np.ones(size, np.float32), device)
            made[name, device.id] = lambda e=executable, a=argument: e.execute([a])[0]
    return made


def test_what_came_before_on_the_stream_has_ended_when_a_call_returns(calls):
    with execution_stream_id(7):
        results = [calls["slow", 0]() for _ in range(4)]
        assert [result.is_ready() for result in results[:3]] == [True] * 3
        calls["short", 0]()
        assert results[3].is_ready()


def test_without_an_id_a_call_waits_for_nothing(calls):
    results = [calls["slow", 0]() for _ in range(8)]
    assert not all(result.is_ready() for result in results[:-1])
    for result in results:
        result.block_until_ready()


def test_another_device_and_another_stream_are_not_waited_for(calls):
    with execution_stream_id(7):
        first = calls["slow", 0]()
        calls["slow", 1]()
    with execution_stream_id(8):
        calls["short", 0]()
    with execution_stream_id(7):
        calls["short", 0]()
        assert first.is_ready()


def test_threads_that_share_a_stream_alternate(calls):
    lock = threading.Lock()
    in_order = []
    failures = []

    def work(_):
        with execution_stream_id(3):
            for _ in range(5):
                with lock:  # so that the test knows the order of the calls
                    in_order.append(calls["slow", 0]())
                    failures.extend(r for r in in_order[:-1] if not r.is_ready())

    together(work)
    assert len(in_order) == 20
    assert failures == []


def test_a_failed_call_does_not_stop_the_stream(client):
    bad = client.compile_and_load(
        "func.func @main(%a: tensor<2x2xf64>) -> tensor<2x2xf64> {"
        " %0 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {api_version = 4 : i32,"
        " backend_config = {}} : (tensor<2x2xf64>) -> tensor<2x2xf64>"
        " return %0 : tensor<2x2xf64> }"
    )
    good = client.compile_and_load(SHORT)
    with execution_stream_id(5):
        with pytest.raises(ValueError, match="lapack_dpotrf_ffi"):
            bad.execute([client.buffer_from_pyval(np.eye(2))])[0].block_until_ready()
        argument = client.buffer_from_pyval(np.ones(2, np.float32))
        assert np.asarray(good.execute([argument])[0]).tolist() == [2, 2]


def test_streams_in_turn_over_several_devices_do_not_wait_in_a_circle():
    program = """
    module attributes {mhlo.num_partitions = 2 : i32} {
      sdy.mesh @mesh = <["x"=2]>
      func.func public @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
          -> tensor<4xf32> {
        %0 = stablehlo.add %a, %a : tensor<4xf32>
        return %0 : tensor<4xf32> } }"""
    with make_cpu_client(num_devices=2) as client:
        devices = client.devices()
        pairs = [client.compile_and_load(program, order) for order in (devices, devices[::-1])]

        def work(executable):
            shards = [
                client.buffer_from_pyval(np.ones(2, np.float32), device)
                for device in executable.local_devices()
            ]
            with execution_stream_id(9):
                for _ in range(200):
                    (shards,) = executable.execute_sharded([shards])

        together(work, pairs * 2, timeout=60)

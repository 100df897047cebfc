"""Tokens of executions, live executables, and results whose address nobody asks for."""

import gc

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError
from support import double, square

pytestmark = pytest.mark.engine

SLOW = square(256, 1)

NOTHING = "func.func @main(%a: tensor<2xf32>) { return }"

FAILS = """func.func @main(%a: tensor<64x64xf64>) -> tensor<64x64xf64> {
  %0 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {api_version = 4 : i32, backend_config = {}}
    : (tensor<64x64xf64>) -> tensor<64x64xf64>
  return %0 : tensor<64x64xf64> }"""

ON_TWO = """
module attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32> } }"""


def test_a_token_is_ready_when_the_results_are(client):
    executable = client.compile_and_load(SLOW)
    x = client.buffer_from_pyval(np.ones((256, 256), np.float32))
    (result,), token = executable.execute_with_token([x])
    token.block_until_ready()
    assert token.is_ready()
    assert result.is_ready()
    assert np.asarray(result)[0, 0] == 256


def test_a_program_without_results_has_a_token(client):
    executable = client.compile_and_load(NOTHING)
    results, token = executable.execute_with_token(
        [client.buffer_from_pyval(np.ones(2, np.float32))]
    )
    token.block_until_ready()
    assert results == []
    assert token.is_ready()


def test_each_device_has_a_token(client):
    executable = client.compile_and_load(ON_TWO)
    shards = [client.buffer_from_pyval(np.ones(2, np.float32), d) for d in client.devices()]
    (results,), tokens = executable.execute_sharded([shards], with_tokens=True)
    assert len(tokens) == 2
    for token, result in zip(tokens, results, strict=True):
        token.block_until_ready()
        assert np.asarray(result).tolist() == [2, 2]


def test_a_token_raises_what_the_program_failed_with(client):
    pytest.importorskip("scipy", reason="needs SciPy")
    executable = client.compile_and_load(FAILS)

    def run():
        _, token = executable.execute_with_token([client.buffer_from_pyval(np.eye(64))])
        token.block_until_ready()

    with pytest.raises(InvalidArgumentError, match="lapack_dpotrf_ffi"):
        run()


def test_a_token_outlives_everything_else(client):
    executable = client.compile_and_load(SLOW)
    x = client.buffer_from_pyval(np.ones((256, 256), np.float32))
    _, token = executable.execute_with_token([x])
    executable.delete()
    x.delete()
    del executable, x, _
    gc.collect()
    token.block_until_ready()


def test_live_executables_come_oldest_first(client):
    texts = [f"module @m{i} {{ {NOTHING} }}" for i in range(4)]
    made = [client.compile_and_load(text) for text in texts]
    assert [e.name for e in client.live_executables()] == [e.name for e in made]
    made.pop(1).delete()
    assert [e.name for e in client.live_executables()] == [e.name for e in made]
    del made
    gc.collect()
    assert client.live_executables() == []


def test_a_result_that_is_only_passed_on_keeps_its_place_and_its_values(client):
    program = client.compile_and_load(double(alias=" {tf.aliasing_output = 0 : i32}"))
    (x,) = program.execute([client.buffer_from_pyval(np.ones(8, np.float32))])
    for _ in range(6):  # donated in place; nobody has looked where they are
        (x,) = program.execute([x])
    address = x.unsafe_buffer_pointer()
    (x,) = program.execute([x])
    assert x.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(np.asarray(x), np.full(8, 2.0**8))

"""Programs whose shards talk to each other: found wherever the talk is, and never left to wait."""

import numpy as np
import pytest

from devrt.errors import DevrtError, OutOfMemoryError
from support import double, python

pytestmark = pytest.mark.engine

REDUCE = """"stablehlo.all_reduce"(%X) <{
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
  ^bb0(%s: tensor<f64>, %t: tensor<f64>):
    %u = stablehlo.add %s, %t : tensor<f64>
    stablehlo.return %u : tensor<f64>
  }) : (tensor<64x64xf64>) -> tensor<64x64xf64>"""

FUNCTION = f"""func.func private @f(%x: tensor<64x64xf64>) -> tensor<64x64xf64> {{
  %y = {REDUCE.replace("%X", "%x")}
  return %y : tensor<64x64xf64> }}"""

PLAIN = f"%r = {REDUCE.replace('%X', '%b')}"
CALL = "%r = func.call @f(%b) : (tensor<64x64xf64>) -> tensor<64x64xf64>"
COMPOSITE = """%r = stablehlo.composite "some.op" %b {decomposition = @f}
  : (tensor<64x64xf64>) -> tensor<64x64xf64>"""
LOOP = """%zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %m = %b) : tensor<i32>, tensor<64x64xf64>
    cond {
      %p = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %q = func.call @f(%m) : (tensor<64x64xf64>) -> tensor<64x64xf64>
      stablehlo.return %j, %q : tensor<i32>, tensor<64x64xf64>
    }
  %r = stablehlo.negate %w#1 : tensor<64x64xf64>"""
BRANCH = """%s0 = stablehlo.slice %b [0:1, 0:1] : (tensor<64x64xf64>) -> tensor<1x1xf64>
  %s1 = stablehlo.reshape %s0 : (tensor<1x1xf64>) -> tensor<f64>
  %i = stablehlo.convert %s1 : (tensor<f64>) -> tensor<i32>
  %r = "stablehlo.case"(%i) ({ stablehlo.return %b : tensor<64x64xf64> }, {
      %q = func.call @f(%b) : (tensor<64x64xf64>) -> tensor<64x64xf64>
      stablehlo.return %q : tensor<64x64xf64>
    }) : (tensor<i32>) -> tensor<64x64xf64>"""
NONE = """%p = stablehlo.partition_id : tensor<ui32>
  %r = stablehlo.add %b, %b : tensor<64x64xf64>"""

# A loop that ends with a call of LAPACK which cannot work, so that the failure comes late.
FAILS = """func.func @main(%a: tensor<64x64xf64>) -> tensor<64x64xf64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %many = stablehlo.constant dense<2000> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %m = %a) : tensor<i32>, tensor<64x64xf64>
    cond {
      %p = stablehlo.compare LT, %i, %many : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.dot %m, %m : (tensor<64x64xf64>, tensor<64x64xf64>) -> tensor<64x64xf64>
      stablehlo.return %j, %n : tensor<i32>, tensor<64x64xf64>
    }
  %0 = stablehlo.custom_call @lapack_dpotrf_ffi(%w#1) {api_version = 4 : i32, backend_config = {}}
    : (tensor<64x64xf64>) -> tensor<64x64xf64>
  return %0 : tensor<64x64xf64> }"""
LACKS = FAILS.replace("lapack_dpotrf_ffi", "devrt_test_lacks")


def over_two(body):
    return f"""module attributes {{mhlo.num_partitions = 2 : i32}} {{
      sdy.mesh @mesh = <["x"=2]>
      {FUNCTION}
      func.func @main(
          %a: tensor<128x64xf64> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
          -> (tensor<128x64xf64> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
        %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
            out_shardings=[<@mesh, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%b: tensor<64x64xf64>) {{
          {body}
          sdy.return %r : tensor<64x64xf64>
        }} : (tensor<128x64xf64>) -> tensor<128x64xf64>
        return %0 : tensor<128x64xf64> }} }}"""


def shards(client, value=1.0):
    return [client.buffer_from_pyval(np.full((64, 64), value), d) for d in client.devices()]


@pytest.mark.parametrize(
    ("body", "factor"),
    [(PLAIN, 2), (CALL, 2), (COMPOSITE, 2), (LOOP, -2), (BRANCH, 2)],
    ids=["plain", "call", "composite", "loop", "branch"],
)
def test_what_talks_is_never_called_shard_by_shard(client, body, factor):
    executable = client.compile_and_load(over_two(body))
    assert executable.is_collective
    for result in executable.execute_sharded([shards(client)])[0]:
        assert (np.asarray(result) == factor).all()


def test_what_does_not_talk_is(client):
    executable = client.compile_and_load(over_two(NONE))
    assert not executable.is_collective
    for result in executable.execute_sharded([shards(client)])[0]:
        assert (np.asarray(result) == 2).all()


def test_a_shard_whose_argument_fails_stops_nobody(client):
    """Without a check the other shards wait for it until the compiler's runtime gives up."""
    pytest.importorskip("scipy", reason="needs SciPy")
    fails = client.compile_and_load(FAILS)
    reduce = client.compile_and_load(over_two(PLAIN))
    good = shards(client)
    (bad,) = fails.execute([client.buffer_from_pyval(np.eye(64), client.devices()[0])])
    with pytest.raises(DevrtError, match=r"argument 0 .* could not be made: .*lapack_dpotrf_ffi"):
        reduce.execute_sharded([[bad, good[1]]])
    for result in reduce.execute_sharded([good])[0]:
        assert (np.asarray(result) == 2).all()


def test_an_argument_that_found_no_memory_is_no_lack_of_the_call_s_own(client):
    def lacks(a):
        raise MemoryError("the function's own")

    client.register_custom_call("devrt_test_lacks", lacks)
    program, reduce = client.compile_and_load(LACKS), client.compile_and_load(over_two(PLAIN))
    good = shards(client)
    (bad,) = program.execute([good[0]])
    with pytest.raises(OutOfMemoryError, match=r"argument 0 .* could not be made: ") as caught:
        reduce.execute_sharded([[bad, good[1]]])
    assert "cannot allocate" not in str(caught.value)


MANY = f"""
import numpy as np, devrt_cpu
client = devrt_cpu.make_cpu_client(num_devices=2)
reduce = client.compile_and_load({over_two(PLAIN)!r})
shards = [client.buffer_from_pyval(np.ones((64, 64)), d) for d in client.devices()]
results = [reduce.execute_sharded([shards])[0] for _ in range(300)]
print({{float(np.asarray(shard)[3, 3]) for result in results for shard in result}})
"""


def test_hundreds_may_be_in_flight():
    """More than the compiler's runtime takes, where its threads wait for each other."""
    assert python(MANY, timeout=100).stdout == "{2.0}\n"


def test_too_little_memory_within_a_program_is_reported_as_such(client):
    huge = 4_000_000  # squared, and four bytes each: more than any address space has
    sort = client.compile_and_load(
        f"""func.func @main(%a: tensor<{huge}xf32>) -> tensor<f32> {{
          %z = stablehlo.constant dense<0.0> : tensor<f32>
          %0 = stablehlo.dot_general %a, %a, contracting_dims = [] x []
            : (tensor<{huge}xf32>, tensor<{huge}xf32>) -> tensor<{huge}x{huge}xf32>
          %1 = "stablehlo.sort"(%0) ({{
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
              %p = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
              stablehlo.return %p : tensor<i1>
          }}) {{dimension = 1 : i64}} : (tensor<{huge}x{huge}xf32>) -> tensor<{huge}x{huge}xf32>
          %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1]
            : (tensor<{huge}x{huge}xf32>, tensor<f32>) -> tensor<f32>
          return %2 : tensor<f32> }}"""
    )
    x = client.buffer_from_pyval(np.zeros(huge, np.float32))

    def run():
        sort.execute([x])[0].block_until_ready()

    with pytest.raises(OutOfMemoryError, match="Out of memory allocating"):
        run()
    assert not x.is_deleted()


def test_a_limit_of_memory_holds_for_results_too():
    from devrt_cpu import make_cpu_client

    client = make_cpu_client(memory_limit_bytes=100_000)
    program = client.compile_and_load(double("64x64xf64"))
    x = client.buffer_from_pyval(np.ones((64, 64)))
    kept = [program.execute([x])[0] for _ in range(2)]
    with pytest.raises(
        MemoryError, match=r"32768 bytes of outputs.* of the 100000 bytes"
    ) as raised:
        program.execute([x])
    assert isinstance(raised.value, DevrtError)
    assert (np.asarray(kept[0]) == 2).all()
    kept.pop()
    assert (np.asarray(program.execute([x])[0]) == 2).all()

"""Functions of Python and of C that the CPU client's programs call."""

import itertools

import numpy as np
import pytest

import devrt
import devrt.native
from devrt import errors, xla_client
from devrt_cpu import make_cpu_client
from support import double

pytestmark = pytest.mark.engine

_numbers = itertools.count()

X = np.arange(8, dtype=np.float32)


@pytest.fixture
def name():
    """Return a name that nothing is registered under: XLA forgets none."""
    return f"cpu_test_call_{next(_numbers)}"


def run(client, text, value):
    executable = client.compile_and_load(text)
    return [np.asarray(out) for out in executable.execute([client.buffer_from_pyval(value)])]


def test_the_names_that_it_brings_are_taken(client):
    with pytest.raises(errors.PluginError, match="cannot forget"):
        client.register_custom_call("lapack_spotrf_ffi", print)


def test_a_closed_client_registers_nothing(name):
    client = make_cpu_client()
    client.close()
    with pytest.raises(errors.ClosedError):
        client.register_custom_call(name, print)


MEETING = """module attributes {{mhlo.num_partitions = 4 : i32}} {{
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
      -> tensor<8xf32> {{
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}]>]
        out_shardings=[<@mesh, [{{}}]>] manual_axes={{"x"}} (%b: tensor<2xf32>) {{
      %1 = stablehlo.custom_call @{name}(%b) {{api_version = 4 : i32, has_side_effect = true}}
        : (tensor<2xf32>) -> tensor<2xf32>
      %2 = "stablehlo.all_gather"(%1) <{{all_gather_dim = 0 : i64,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}}>
        : (tensor<2xf32>) -> tensor<8xf32>
      sdy.return %2 : tensor<8xf32>
    }} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}"""


def meet(client, name, value):
    executable = client.compile_and_load(MEETING.format(name=name))
    assert executable.is_collective
    shards = [
        client.buffer_from_pyval(value[2 * i : 2 * i + 2], d)
        for i, d in enumerate(client.devices())
    ]
    return executable.execute_sharded([shards])[0]


@pytest.mark.parametrize("form", ["python", "native"])
def test_a_shard_that_fails_fails_its_call_and_not_the_process(name, thrice, form):
    """The others wait to meet it; XLA would end the process after a minute of that."""

    def call(a):
        if (a < 0).any():
            raise OverflowError("it is negative")
        return a * 3

    with make_cpu_client(num_devices=4) as client:
        client.register_custom_call(name, call if form == "python" else thrice)
        for _ in range(3):
            value = X.copy()
            for result in meet(client, name, value):
                np.testing.assert_array_equal(np.asarray(result), value * 3)
            value[6:] = -1
            failed = meet(client, name, value)
            for result in failed:
                with pytest.raises(errors.DevrtError, match="it is negative"):
                    result.block_until_ready()


def test_a_failed_result_poisons_what_is_made_of_it(name):
    def call(a):
        raise ValueError("no")

    with make_cpu_client(num_devices=4) as client:
        client.register_custom_call(name, call)
        failed = meet(client, name, X)
        with pytest.raises(errors.InvalidArgumentError, match="no"):
            np.asarray(client.compile_and_load(double()).execute([failed[0]])[0])


def test_jaxlibs_name_registers_with_the_default_runtimes_client(name, call_program):
    register = xla_client.register_custom_call_target
    register(name, {"execute": lambda a: a + 5}, platform="cpu")
    (made,) = run(devrt.get_backend("cpu"), call_program(name), X)
    np.testing.assert_array_equal(made, X + 5)
    with pytest.raises(errors.UnimplementedError, match="api_version 0"):
        register(name, print, api_version=0)
    with pytest.raises(errors.UnimplementedError, match="stages prepare"):
        register(name, {"prepare": print, "execute": print})
    with pytest.raises(errors.InvalidTypeError, match="a callable"):
        register(name, {})

"""What the executables of the CPU client and of the loader tell, and their tokens: one suite."""

import numpy as np
import pytest

from devrt.compiling.options import CompileOptions
from devrt.errors import DeletedError, InvalidArgumentError
from devrt.layout import Layout

pytestmark = pytest.mark.engine

TRANSPOSE = """
module @turned {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<8xi32>)
      -> (tensor<3x2xf32>, tensor<8xi32>) {
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %0, %b : tensor<3x2xf32>, tensor<8xi32>
  }
}
"""
DOUBLE = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8xf32>
  return %0 : tensor<8xf32> }"""
EXCHANGE = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> }"""
X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module", params=["cpu", "loader"])
def client(request):
    if request.param == "cpu":
        make = pytest.importorskip("devrt_cpu").make_cpu_client
        with_four = make(num_devices=4)
    else:
        pjrt = pytest.importorskip("devrt_pjrt")
        from devrt_cpu._library import choose

        library = pjrt.library_for("xla_cpu_executables", choose().path)
        with_four = pjrt.make_client(library, "loaded", {"cpu_device_count": 4})
    yield with_four
    with_four.close()


@pytest.fixture
def executable(client):
    return client.compile_and_load(TRANSPOSE)


def spread(client, devices):
    return [client.buffer_from_pyval(X, device) for device in devices]


def test_the_compilers_program_has_one_form(executable):
    form, data = executable.optimized_program()
    assert form == "hlo_with_config"
    (module,) = executable.hlo_modules()
    assert module.name == executable.name == "turned"
    assert module.to_string() == executable.get_hlo_text()
    assert module.to_string().startswith("HloModule turned")
    assert module.as_serialized_hlo_module_proto() in data
    assert [each.shape for each in module.results] == [(3, 2), (8,)]


def test_layouts_are_the_compilers_own(executable):
    taken, given = executable.get_parameter_layouts(), executable.get_output_layouts()
    assert [each._xla_layout() for each in taken] == [Layout((1, 0)), Layout((0,))]
    assert [each._xla_layout() for each in given] == [Layout((1, 0)), Layout((0,))]


def test_memory_kinds_are_the_devices_where_the_compiler_names_none(executable):
    assert executable.get_parameter_memory_kinds() == ["device"] * 2
    assert executable.get_output_memory_kinds() == ["device"] * 2


def test_the_options_are_those_that_it_was_compiled_with(client):
    flags = {"xla_cpu_enable_fast_math": True}
    made = client.compile_and_load(DOUBLE, num_replicas=2, env_option_overrides=flags)
    for each in (made, client.deserialize_executable(made.serialize())):
        options = each.compile_options()
        assert isinstance(options, CompileOptions)
        assert (options.num_replicas, options.num_partitions) == (2, 1)
        assert options.env_option_overrides.items() >= flags.items()
        assert options.assignment().ids == ((0,), (1,))


def test_devices_come_by_replica_and_partition(client):
    made = client.compile_and_load(DOUBLE, client.devices()[1:3], num_replicas=2)
    assert [[d.id for d in row] for row in made.device_assignment()] == [[1], [2]]
    made = client.compile_and_load(DOUBLE, client.devices()[1:3])
    assert [[d.id for d in row] for row in made.device_assignment()] == [[1, 2]]


def test_devices_are_chosen_where_none_are_named(client):
    rows = client.get_default_device_assignment(2, 2)
    assert [[d.id for d in row] for row in rows] == [[0, 1], [2, 3]]
    assert rows[1][1] is client.devices()[3]
    assert len(client.get_default_device_assignment(4)) == 4
    for counts in ((0, 1), (1, 0), (5, 1), (-1, -1)):
        with pytest.raises(InvalidArgumentError, match="cannot be assigned"):
            client.get_default_device_assignment(*counts)


def test_live_executables_are_those_that_were_made(client):
    made, other = client.compile_and_load(DOUBLE), client.compile_and_load(DOUBLE)
    live = [each for each in client.live_executables() if each == made]
    assert len(live) == 1
    assert len({made, *live}) == 1
    assert made != other
    assert made != "another kind"
    made.delete()
    assert made not in client.live_executables()
    assert other in client.live_executables()


@pytest.mark.parametrize("program", [DOUBLE, EXCHANGE])
def test_each_device_has_a_token(client, program):
    devices = client.devices()[1:3]
    made = client.compile_and_load(program, devices, num_replicas=2)
    for _ in range(3):
        (results,), tokens = made.execute_sharded([spread(client, devices)], with_tokens=True)
        assert len(tokens) == 2
        for token, result in zip(tokens, results, strict=True):
            token.block_until_ready()
            assert token.is_ready()
            assert np.asarray(result).tolist() == (2 * X).tolist()
    (results,) = made.execute_sharded([spread(client, devices)])
    assert np.asarray(results[1])[7] == 14


def test_a_token_outlives_everything_else(client):
    made = client.compile_and_load(DOUBLE)
    x = client.buffer_from_pyval(X)
    _, token = made.execute_with_token([x])
    made.delete()
    x.delete()
    del made, x, _
    token.block_until_ready()


def test_a_deleted_executable_tells_nothing_and_runs_no_more(client):
    made = client.compile_and_load(DOUBLE)
    made.delete()
    with pytest.raises(DeletedError):
        made.execute_with_token([client.buffer_from_pyval(X)])


def test_devices_say_what_their_platform_says_of_them(client):
    assert dict(client.devices()[0].attributes) == {}


def test_buffers_begin_no_transfer_where_the_host_sees_them(client):
    buffer = client.buffer_from_pyval(X)
    assert buffer.copy_to_host_async() is None
    assert np.asarray(buffer).tolist() == X.tolist()

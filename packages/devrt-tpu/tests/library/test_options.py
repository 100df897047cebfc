"""Options of compilations and of clients reach the plugin, or are refused before it."""

import numpy as np
import pytest

import devrt_pjrt
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.topology import get_topology_for_devices
from devrt_pjrt.library.values import NamedValues


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_partitions": 0}, "num_partitions"),
        ({"device_assignment": [[0]], "num_partitions": 2}, "device_assignment"),
        ({"env_option_overrides": {"xla_dump": object()}}, "xla_dump"),
        ({"partitions": 2}, "no compile option 'partitions'"),
    ],
)
def test_options_that_are_not_valid(xla_cpu, options, message, add_text):
    with pytest.raises(DevrtError, match=message):
        xla_cpu.compile_and_load(add_text, **options)


def test_flags_reach_the_compiler(xla_cpu, add_text):
    flags = {"xla_cpu_enable_fast_math": True, "xla_llvm_disable_expensive_passes": True}
    assert xla_cpu.compile_and_load(add_text, env_option_overrides=flags).name == "add"
    with pytest.raises(Exception, match="xla_nobody_knows"):
        xla_cpu.compile_and_load(add_text, env_option_overrides={"xla_nobody_knows": "1"})


@pytest.mark.parametrize("options", [{"cpu_device_count": "4"}, {"cpu_device_count": True}])
def test_client_options_of_a_wrong_type_would_end_the_process(xla_cpu_library, options):
    library = devrt_pjrt.library_for("options", xla_cpu_library)
    with pytest.raises(InvalidArgumentError, match="would end the process"):
        devrt_pjrt.make_client(library, "options", options)
    with pytest.raises(InvalidTypeError, match="must be"):
        NamedValues({"anything": object()})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu_device_cout": 4}, "has no option 'cpu_device_cout'; it has: cpu_device_count"),
        ({"cpu_device_count": 0}, "from 1 to 1024"),
        ({"cpu_device_count": -1}, "from 1 to 1024"),
        ({"cpu_device_count": 1 << 40}, "from 1 to 1024"),
        ({"": 1}, "has no option ''"),
        ({3: 4}, "has no option 3"),
        (5, "a dictionary"),
        (["ab", "c"], "a dictionary"),
    ],
)
def test_client_options_that_the_plugin_would_ignore_are_refused(xla_cpu_library, options, message):
    library = devrt_pjrt.library_for("options", xla_cpu_library)
    with pytest.raises(InvalidArgumentError, match=message):
        devrt_pjrt.make_client(library, "options", options)


@pytest.mark.parametrize(
    "options",
    [{3: 1}, {b"x": 1}, {"half \udc80": 1}, {"x": "half \udc80"}, {"x": None}, {"x": b""}],
)
def test_names_and_values_are_text_that_can_be_written(options):
    with pytest.raises(InvalidTypeError):
        NamedValues(options)


@pytest.mark.parametrize("program", ["half \udc80 func", None, 3, ["func"]])
def test_a_program_that_is_no_text_is_refused(xla_cpu, program):
    with pytest.raises(InvalidTypeError):
        xla_cpu.compile_and_load(program)


@pytest.mark.parametrize("devices", [3, object(), "ab", [None], []])
def test_devices_that_are_none_are_refused(xla_cpu, add_text, devices):
    with pytest.raises(InvalidArgumentError, match="compile_and_load failed"):
        xla_cpu.compile_and_load(add_text, devices)


@pytest.mark.parametrize("arguments", [None, 3, "ab", object(), {0: 1}, [3], [None, None]])
def test_arguments_that_are_no_buffers_are_refused(xla_cpu, add_text, arguments):
    devices = xla_cpu.local_devices()[:2]
    portable = xla_cpu.compile_and_load(add_text, compile_portable_executable=True)
    for run in (
        xla_cpu.compile_and_load(add_text).execute,
        portable.execute,
        xla_cpu.compile_and_load(add_text, devices).execute_sharded,
        lambda made: xla_cpu.compile_and_load(add_text, devices).execute_sharded([made, made]),
    ):
        with pytest.raises(InvalidArgumentError, match="execute"):
            run(arguments)


@pytest.mark.parametrize("timeout", ["x", float("nan"), object(), [1]])
def test_a_timeout_is_a_number_of_seconds(xla_cpu, timeout):
    buffer = xla_cpu.buffer_from_pyval([1.0])
    with xla_cpu.create_buffers_for_async_host_to_device([((1,), "int8")]) as sent:
        event = sent.transfer_data(0, b"x")
        for wait in (buffer.block_until_ready, lambda timeout: event.wait("transfer", timeout)):
            with pytest.raises(InvalidArgumentError, match="a number of seconds"):
                wait(timeout)
            wait(float("inf"))
            wait(-1)


def test_an_executable_is_loaded_from_any_bytes(xla_cpu, add):
    data = add.serialize()
    for given in (bytearray(data), memoryview(data), memoryview(data + data)[: len(data)]):
        assert xla_cpu.deserialize_executable(given).name == "add"
    with pytest.raises(DevrtError):
        xla_cpu.deserialize_executable(memoryview(data)[::2])


def test_an_executable_is_loaded_on_the_devices_that_are_named(xla_cpu, add):
    data = xla_cpu.serialize_executable(add)
    second = xla_cpu.devices()[1]
    loaded = xla_cpu.deserialize_executable(data, [second])
    assert loaded.local_devices() == [second]
    x = [xla_cpu.buffer_from_pyval(np.ones(*p), second) for p in loaded.parameters]
    (total,) = loaded.execute(x)
    assert total.device is second
    assert (np.asarray(total) == len(x)).all()
    for devices in ([], [second, second], second, [None]):
        with pytest.raises(DevrtError, match=r"devices must|each device once|is empty"):
            xla_cpu.deserialize_executable(data, devices)
    with pytest.raises(InvalidArgumentError, match="num_partitions is 1 since it was compiled"):
        xla_cpu.deserialize_executable(data, [second], num_partitions=2, num_replicas=1)


@pytest.mark.parametrize("name", [None, 3, b"x", "half \udc80"])
def test_a_topologys_name_is_text(xla_cpu_library, name):
    library = devrt_pjrt.library_for("options", xla_cpu_library)
    with pytest.raises(InvalidTypeError, match="its name"):
        devrt_pjrt.make_topology(library, "options", name)


def test_errors_of_loading_name_what_is_wrong(xla_cpu, add_text):
    data = xla_cpu.compile_and_load(add_text).serialize()
    for devices, match in (([], "devices is empty"), (None, "there are no bytes")):
        with pytest.raises(InvalidArgumentError, match=match) as caught:
            xla_cpu.deserialize_executable(b"" if devices is None else data, devices)
        assert str(caught.value).startswith("deserialize_executable failed: ")
        assert caught.value.operation == "deserialize_executable"
    with pytest.raises(InvalidTypeError, match="executable is bytes, not of type str"):
        xla_cpu.deserialize_executable("text")


FED = """func.func @main(%a: tensor<f32>) {
  %t = stablehlo.create_token : !stablehlo.token
  "stablehlo.outfeed"(%a, %t) : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
  return }"""


def test_an_executable_that_waits_for_the_host_is_not_loaded(xla_cpu, monkeypatch):
    monkeypatch.setattr("devrt_pjrt.programs.compile.check", lambda *_: None)
    data = xla_cpu.compile_and_load(FED).serialize()
    with pytest.raises(UnimplementedError, match=r"exchanges data with the host.*outfeed"):
        xla_cpu.deserialize_executable(data)


def test_what_the_hosts_compiler_does_not_survive_is_refused_for_a_topology(xla_cpu):
    program = """func.func @main(%a: tensor<i8>) -> tensor<8xi1> {
      %0 = stablehlo.bitcast_convert %a : (tensor<i8>) -> tensor<8xi1>
      return %0 : tensor<8xi1> }"""
    with pytest.raises(UnimplementedError, match="booleans"):
        xla_cpu.topology().compile(program)


def test_the_topology_of_all_devices_is_the_clients_own(xla_cpu):
    devices = xla_cpu.devices()
    assert isinstance(get_topology_for_devices(devices), devrt_pjrt.PjrtTopology)
    assert len(get_topology_for_devices(devices[:2])._make_compile_only_devices()) == 2


def test_what_was_settled_by_compiling_is_not_requested_again(xla_cpu, add):
    with pytest.raises(InvalidArgumentError, match="settled when it is compiled"):
        xla_cpu.deserialize_executable(add.serialize(), parameter_is_tupled_arguments=True)


@pytest.mark.parametrize("given", [None, "nope", 99, np.zeros(3), [], object()])
def test_what_is_looked_up_may_be_anything(xla_cpu, given):
    with pytest.raises(InvalidArgumentError, match="it has"):
        xla_cpu.devices()[0].memory(given)
    with pytest.raises(InvalidArgumentError, match="it has"):
        xla_cpu.device_from_local_hardware_id(given)

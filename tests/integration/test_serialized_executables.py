"""Executables that are serialised, loaded, and serialised again, by both clients."""

import pytest

from support import python, xla_cpu_library

HEAD = """
import os, pathlib, sys
import numpy as np
PROGRAM = '''
module @m {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
        : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %2 = stablehlo.tanh %a : tensor<8xf32>
    %3 = stablehlo.add %1, %2 : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}'''
def new_client():
    if os.environ["CLIENT"] == "cpu":
        from devrt_cpu import make_cpu_client
        return make_cpu_client(num_devices=2)
    import devrt_pjrt as pjrt
    library = pjrt.library_for("loaded", os.environ["LIBRARY"])
    return pjrt.make_client(library, "loaded", {"cpu_device_count": 2})
def outcome(executable):
    device = executable.local_devices()[0]
    values = np.arange(8, dtype="f4"), np.full(8, 2, "f4")
    given = [executable.client.buffer_from_pyval(value, device) for value in values]
    found = np.asarray(executable.execute(given)[0])
    expected = np.float32(values[0] @ values[1]) + np.tanh(values[0])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    return device.id
FILE = pathlib.Path(os.environ["FILE"])
"""


@pytest.fixture(params=["cpu", "loader"])
def run(request, tmp_path, cpu_library):
    """Return a function that runs code in a process of its own, and returns what it prints."""
    pytest.importorskip("devrt_cpu" if request.param == "cpu" else "devrt_tpu")
    library = xla_cpu_library()
    environ = {
        "CLIENT": request.param,
        "LIBRARY": library,
        "FILE": tmp_path / "executable",
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"loaded:{library}",
        "DEVRT_COMPILATION_CACHE_DIR": tmp_path / "cache",
        "DEVRT_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 0,
    }

    def call(code):
        return python(HEAD + code, timeout=120, **environ).stdout.split()

    return call


def test_a_round_trip_of_any_depth_runs(run):
    found = run("""
client = new_client()
data = client.serialize_executable(client.compile_and_load(PROGRAM))
for _ in range(3):
    loaded = client.deserialize_executable(data)
    print(outcome(loaded))
    again = loaded.serialize()
    assert again == data
    data = bytes(bytearray(again))
""")
    assert found == ["0"] * 3


def test_a_deleted_executable_is_not_serialised_and_keeps_no_bytes(run):
    found = run("""
from devrt.errors import DeletedError
client = new_client()
compiled = client.compile_and_load(PROGRAM)
loaded = client.deserialize_executable(compiled.serialize())
for each in (compiled, loaded):
    each.delete()
    for ask in (each.serialize, lambda: client.serialize_executable(each)):
        try:
            ask()
        except DeletedError as error:
            print(error.operation)
    print(getattr(getattr(each, "executable", None), "_source", None))
""")
    assert found == ["serialize", "serialize", "None"] * 2


def test_what_comes_from_the_disk_cache_can_be_serialised(run):
    code = """
from devrt import runtime
client = runtime.get_backend("cpu" if os.environ["CLIENT"] == "cpu" else "loaded")
made = client.compile_and_load(PROGRAM)
print(len(list(pathlib.Path(os.environ["DEVRT_COMPILATION_CACHE_DIR"]).rglob("*"))) > 0)
print(outcome(client.deserialize_executable(made.serialize())))
FILE.write_bytes(made.serialize())
"""
    assert run(code) == run(code) == ["True", "0"]
    assert run("print(outcome(new_client().deserialize_executable(FILE.read_bytes())))") == ["0"]


def test_the_bytes_of_a_loaded_one_run_in_another_process(run):
    run("""
client = new_client()
data = client.compile_and_load(PROGRAM).serialize()
FILE.write_bytes(client.deserialize_executable(data).serialize())
""")
    load = """
loaded = new_client().deserialize_executable(FILE.read_bytes())
print(outcome(loaded))
FILE.write_bytes(loaded.serialize())
"""
    assert run(load) == run(load) == ["0"]


def test_they_run_once_the_executables_that_they_are_of_are_deleted(run):
    found = run("""
client = new_client()
made = client.compile_and_load(PROGRAM)
loaded = client.deserialize_executable(made.serialize())
made.delete()
data = loaded.serialize()
loaded.delete()
del made, loaded
print(outcome(client.deserialize_executable(data)))
client.close()
print(outcome(new_client().deserialize_executable(data)))
""")
    assert found == ["0", "0"]


def test_devices_that_it_was_loaded_on_are_kept(run):
    found = run("""
client = new_client()
data = client.compile_and_load(PROGRAM).serialize()
moved = client.deserialize_executable(data, device_assignment=[[1]]).serialize()
for _ in range(2):
    loaded = client.deserialize_executable(moved)
    print(outcome(loaded))
    moved = loaded.serialize()
back = client.deserialize_executable(moved, device_assignment=[[0]])
print(outcome(back), outcome(client.deserialize_executable(back.serialize())))
""")
    assert found == ["1", "1", "0", "0"]


def test_the_bytes_are_kept_once(run):
    found = run("""
client = new_client()
data = client.compile_and_load(PROGRAM).serialize()
loaded = client.deserialize_executable(data)
if os.environ["CLIENT"] == "loader":
    assert loaded.serialize() is data
print(len(loaded.serialize()) == len(data))
""")
    assert found == ["True"]


def test_an_option_leaves_replicas_partitions_and_devices_as_compiled(run):
    found = run("""
client = new_client()
for counts in ({"num_replicas": 2}, {"num_partitions": 2}):
    rows = [[1], [0]] if "num_replicas" in counts else [[1, 0]]
    data = client.compile_and_load(PROGRAM, **counts, device_assignment=rows).serialize()
    moved = [[0], [1]] if "num_replicas" in counts else [[0, 1]]
    for options in ({"exec_time_optimization_effort": 0.5}, counts, {"device_assignment": moved}):
        loaded = client.deserialize_executable(data, **options)
        again = client.deserialize_executable(loaded.serialize(), memory_fitting_effort=0.5)
        for each in (loaded, again):
            ids = "".join(str(device.id) for device in each.local_devices())
            print(f"{each.num_replicas}x{each.num_partitions}:{ids}")
""")
    by_replica, by_partition = ["2x1:10"] * 4 + ["2x1:01"] * 2, ["1x2:10"] * 4 + ["1x2:01"] * 2
    assert found == by_replica + by_partition


REFUSED = """
from devrt.errors import DevrtError
client = new_client()
data = client.compile_and_load(PROGRAM).serialize()
def refuse(match, given=data, devices=None, **options):
    try:
        client.deserialize_executable(given, devices, **options)
    except DevrtError as error:
        assert error.operation == "deserialize_executable", error.operation
        assert match in str(error), error
        assert str(error).startswith("deserialize_executable failed: "), error
        print("refused")
"""


def test_what_was_settled_by_compiling_is_not_requested_anew(run):
    found = run(f"""{REFUSED}
refuse("settled when it is compiled", parameter_is_tupled_arguments=True)
refuse("num_replicas is 1 since it was compiled", num_replicas=2)
refuse("num_partitions is 1 since it was compiled", num_partitions=2)
refuse("needs 1 devices", devices=client.devices()[:2])
""")
    assert found == ["refused"] * 4


def test_what_is_no_serialised_executable_is_refused(run):
    found = run(f"""{REFUSED}
refuse("bytes, not of type int", 7)
refuse("there are no bytes", b"")
refuse("damaged or cut", data[:-1] + bytes([data[-1] ^ 1]))
""")
    assert found == ["refused"] * 3

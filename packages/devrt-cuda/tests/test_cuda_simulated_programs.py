"""Programs on simulated devices: compiled for the CPU, run in the order of the devices' streams.

Nothing here depends on how long something takes: gates hold work back until the host opens them.
"""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import devrt
import gpu_library
from devrt.compiling.library_hash import hash_of_library
from devrt.native import gpu_engine
from devrt.records import ClientContext
from devrt_cuda._platform import PLATFORM
from gpu_library import Gated, Stream, allocate, simulated_platform
from support import xla_cpu_library

pytestmark = pytest.mark.engine

COUNT = 1 << 16
UNIT = np.uint32(0x01010101).view(np.float32)  # what the other library's stream writes


@pytest.fixture(scope="module")
def devices():
    xla_cpu_library()
    with simulated_platform(DEVRT_ENABLE_COMPILATION_CACHE="false") as found:
        yield found


def put(value, device):
    return devrt.device_put(np.full(COUNT, value, np.float32), device).block_until_ready()


def test_the_device_and_the_version_say_that_programs_are_simulated(devices):
    assert all("(simulated)" in device.device_kind for device in devices)
    assert "programs simulated on the CPU by " in devices[0].client.platform_version
    assert devices[0].client.capabilities.donation
    described = PLATFORM.describe({"cuda_mock": "2"})
    assert devices[0].client.platform_version.endswith(described)
    jax = {"cuda_mock": "", "use_mock_gpu_client": True, "mock_num_gpus": 2}
    assert PLATFORM.describe(jax) == described
    assert "simulated" not in PLATFORM.describe(jax | {"use_mock_gpu_client": False})


def test_a_program_waits_for_its_arguments_and_the_host_for_nothing(driver, devices):
    units = Gated(driver, COUNT, "<f4")
    x = devrt.device_put(units, may_alias=True)
    y = x + x
    z = y * 2
    assert not y.is_ready()
    assert not z.is_ready()
    units.gate.set()
    assert set(np.asarray(z)) == {4 * UNIT}


def test_what_a_program_reads_without_an_order_is_reported(driver, devices):
    units = Gated(driver, COUNT, "<f4", shows_stream=False)
    y = devrt.device_put(units, may_alias=True) + 1
    y.block_until_ready()
    units.gate.set()
    units.stream.synchronize()
    assert any("race" in report and "Execute" in report for report in driver.reports())


def test_what_a_program_writes_without_an_order_is_reported(driver, devices):
    stream = Stream(driver)
    y = put(1, devices[0]) + 1
    to = allocate(driver, 4 * COUNT)
    gate = stream.gate()
    stream.copy(to, y.unsafe_buffer_pointer(), 4 * COUNT)  # waits for nobody, and nobody for it
    z = devrt.jit(lambda a: a * 3, donate_argnums=0)(y)
    z.block_until_ready()
    gate.set()
    stream.synchronize()
    assert any("race" in report and "Execute" in report for report in driver.reports())


def test_a_donated_argument_gives_its_memory(driver, devices):
    x = put(2, devices[1])
    address = x.unsafe_buffer_pointer()
    y = devrt.jit(lambda a: a + 1, donate_argnums=0)(x).block_until_ready()
    assert x.is_deleted()
    assert y.unsafe_buffer_pointer() == address
    assert set(np.asarray(y)) == {3}


def collective(devices):
    """Return a sum over devices, and what it is called with."""
    mesh = devrt.make_mesh((len(devices),), ("x",), devices=devices)
    sharding = devrt.NamedSharding(mesh, devrt.P("x"))
    value = devrt.device_put(np.arange(8 * len(devices), dtype=np.float32), sharding)
    total = devrt.shard_map(
        lambda a: devrt.lax.psum(a, "x"), mesh=mesh, in_specs=devrt.P("x"), out_specs=devrt.P()
    )
    return devrt.jit(total), value


def test_devices_add_up_with_each_other(driver, devices):
    total, value = collective(devices)
    expected = np.arange(16, dtype=np.float32).reshape(2, 8).sum(0)
    assert np.array_equal(np.asarray(total(value)), expected)


def sum_of_parts(total, sharding, parts):
    """Return the sum over devices, on the first, of what each has."""
    whole = devrt.make_array_from_single_device_arrays((2 * COUNT,), sharding, parts)
    return total(whole).addressable_shards[0].data


def test_a_stage_over_several_devices_begins_behind_another_without_the_host(driver, devices):
    total, value = collective(devices)
    ones = put(1, devices[1])

    def stages(part):
        first = sum_of_parts(total, value.sharding, [part, ones])
        moved = devrt.device_put(first, devices[1])
        return sum_of_parts(total, value.sharding, [first, moved]) * 2

    assert set(np.asarray(stages(put(1, devices[0])))) == {8}  # compiled
    units = Gated(driver, COUNT, "<f4")
    result = stages(devrt.device_put(units, may_alias=True))
    assert not result.is_ready()
    units.gate.set()
    assert set(np.asarray(result)) == {4 * (UNIT + 1)}
    assert driver.reports() == []


def test_what_is_made_of_what_a_function_of_the_host_failed_has_its_error(driver, devices):
    def root(a):
        if a[0] == UNIT:
            raise ValueError("no root")
        return np.asarray(a)

    spec = devrt.ShapeDtypeStruct((COUNT,), np.float32)
    called = devrt.jit(lambda x: devrt.pure_callback(root, spec, x))
    twice = devrt.jit(lambda x: x + x)
    assert set(np.asarray(twice(called(put(1, devices[0]))))) == {2}  # compiled
    units = Gated(driver, COUNT, "<f4")
    found = called(devrt.device_put(units, may_alias=True))
    moved = devrt.device_put(found, devices[1])
    again = devrt.device_put(moved, devices[0])
    doubled = devrt.device_put(twice(found), devices[0], may_alias=False)
    made = (doubled, again, moved, found)
    assert not any(array.is_ready() for array in made)
    units.gate.set()
    for array in made:
        for read in (np.asarray, devrt.Array.__dlpack__, lambda x: np.asarray(x * 2)):
            with pytest.raises(devrt.errors.DevrtError, match="no root") as caught:
                read(array)
            assert caught.value.operation == "execute"
    assert driver.reports() == []


def test_programs_that_several_threads_start_on_the_same_devices_all_end(driver, devices):
    calls = [collective(devices), collective(devices[::-1])]
    expected = [np.asarray(total(value)) for total, value in calls]
    found = [[], []]

    def run(number):
        total, value = calls[number]
        found[number] = [np.asarray(total(value)) for _ in range(20)]

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(2):
        assert len(found[number]) == 20, "a program waits for ever"
        assert all(np.array_equal(each, expected[number]) for each in found[number])


def test_values_below_a_byte_are_arguments(driver, devices):
    import ml_dtypes

    x = devrt.device_put(np.array([-8, 0, 7], ml_dtypes.int4), devices[0])
    assert np.asarray(x.astype(np.int8)).tolist() == [-8, 0, 7]


def test_the_hash_of_the_simulator_counts_the_compiler(devices, monkeypatch):
    library = gpu_engine._simulator(PLATFORM)
    own = hash_of_library(library.path)
    monkeypatch.setattr("devrt.compiling.library_hash._counted", {library.path: __file__})
    assert hash_of_library(library.path) != own


def test_compiled_programs_are_kept_on_disk_by_the_kind_of_device(devices, tmp_path, monkeypatch):
    options = {"mock": True, "mock_num_gpus": 1, "compilation_cache_dir": str(tmp_path)}
    text = "func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"

    def compiled():
        client = PLATFORM.make_client(ClientContext(options=options))
        try:
            client.compile_and_load(text)
        finally:
            client.close()
        return {path.name for path in tmp_path.glob("*.devrtx")}

    first = compiled()
    assert len(first) == 1
    assert compiled() == first
    monkeypatch.setattr(gpu_engine.GpuEngine, "machine", lambda self, client: ["another"])
    assert len(compiled()) == 2


ORDER = """
import devrt
import numpy as np

devices = devrt.devices("cuda")
client = devices[0].client
one = devrt.jit(lambda a: a + 1)
for device in devices:
    result = one(devrt.device_put(np.arange(3), device))
    print(result.device.id, np.asarray(result).tolist())
text = "func.func @main(%a: tensor<i32>) -> tensor<i32> { return %a : tensor<i32> }"
program = client.deserialize_executable(client.compile_and_load(text, devices[2:]).serialize())
print([device.id for device in program.local_devices()])
mesh = devrt.make_mesh((3,), ("x",), devices=[devices[1], devices[2], devices[0]])
ranks = devrt.shard_map(
    lambda: devrt.lax.axis_index("x").reshape(1), mesh=mesh, in_specs=(), out_specs=devrt.P("x")
)
made = devrt.jit(ranks)()
print([(shard.device.id, shard.data.tolist()) for shard in made.addressable_shards])
"""


def on_devices_that_are(listed):
    environ = os.environ | {
        "DEVRT_CUDA_MOCK": "3",
        "DEVRT_GPU_SIMULATOR": f"plugin_devices={listed}",
        "DEVRT_ENABLE_COMPILATION_CACHE": "false",
    }
    command = [sys.executable, "-W", "ignore", "-c", ORDER]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_devices_are_found_where_the_plugin_lists_them_in_another_order(devices):
    ran = on_devices_that_are("reversed")
    assert ran.stdout.splitlines() == [
        *(f"{device} [1, 2, 3]" for device in range(3)),
        "[2]",
        "[(1, [0]), (2, [1]), (0, [2])]",
    ], ran.stderr


def test_a_plugin_with_devices_of_other_numbers_is_refused(devices):
    ran = on_devices_that_are("others")
    assert "devices are the driver's 1048576, 1048577, 1048578, and must be 0, 1, 2." in ran.stderr
    assert ran.returncode == 1


FAILURE = """
import os
import devrt
import numpy as np

devices = devrt.devices("cuda")
x = devrt.device_put(np.ones(1024, np.float32), devices[0]).block_until_ready()
program = devices[0].client.compile_and_load(
    "func.func @main(%a: tensor<1024xf32>) -> tensor<1024xf32> {"
    "%r = stablehlo.add %a, %a : tensor<1024xf32> return %r : tensor<1024xf32> }"
)
try:
    program.execute([x._buffers[0]])[0].block_until_ready()
except devrt.errors.DevrtError as error:
    print(type(error).__name__, error.code.name)
there = devrt.device_put(np.ones(4, np.float32), devices[1])
print(np.asarray(there).tolist(), flush=True)
os._exit(0)  # a device that is lost ends in no order
"""


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            "fail=PJRT_Buffer:1:out_of_memory fail=PJRT_Buffer:2:out_of_memory",
            "OutOfMemoryError RESOURCE_EXHAUSTED",
        ),
        ("fail=PJRT_LoadedExecutable_Execute:1:device_lost", "DevrtError UNAVAILABLE"),
    ],
)
def test_what_fails_in_a_program_is_an_error_and_other_devices_go_on(devices, settings, error):
    environ = os.environ | {
        "DEVRT_GPU_SIMULATOR": settings,
        "PYTHONPATH": os.path.dirname(gpu_library.__file__),
    }
    command = [sys.executable, "-W", "ignore", "-c", FAILURE]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == [error, "[1.0, 1.0, 1.0, 1.0]"], ran.stderr


BROKEN_OFF = """
import os, time
import devrt
import numpy as np

began, ended = [], []

def slow(x):
    began.append(1)
    time.sleep(0.05)
    ended.append(1)
    return x

@devrt.jit
def called(x):
    return devrt.pure_callback(slow, devrt.ShapeDtypeStruct(x.shape, x.dtype), x)

x = devrt.device_put(np.ones(8, np.float32), devrt.devices("cuda")[0]).block_until_ready()
called(x).block_until_ready()
for _ in range(40):
    try:
        called(x)
    except devrt.errors.DevrtError as error:
        print(len(began) - len(ended), error.code.name)
print(np.asarray(called(x)).tolist(), flush=True)
"""


def test_a_call_that_fails_after_its_program_began_waits_for_what_uses_it(devices):
    failures = [f"fail=PJRT_LoadedExecutable_Execute:{2 * i + 4}:unknown" for i in range(40)]
    environ = os.environ | {"DEVRT_GPU_SIMULATOR": " ".join(["delay=0", *failures])}
    command = [sys.executable, "-W", "ignore", "-c", BROKEN_OFF]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["0 INTERNAL"] * 40 + [str([1.0] * 8)], ran.stderr

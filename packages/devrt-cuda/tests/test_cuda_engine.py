"""Programs on simulated devices, by a fake plugin that has streams of its own.

Gates hold the work before a program back until the host opens them: a call that waited on the host
would not return. The simulator reports what nothing orders; the plugin's faults show that it does.
"""

import ctypes
import os
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

import devrt
import gpu_library
from devrt.errors import InvalidArgumentError, OutOfMemoryError, UnimplementedError
from devrt.native import gpu_engine
from devrt.records import ClientContext
from devrt.runtime import default_runtime
from devrt.xla_client import GpuAllocatorConfig
from devrt_cuda._platform import PLATFORM
from fake_gpu import COUNT, UNIT, build, pending, put, simulated_devices, text
from gpu_library import Stream, Tensor, allocate

pytestmark = pytest.mark.engine

KEEPS_ALL = 2**64 - 1


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def devices(plugin, tmp_path_factory):
    with simulated_devices(plugin, tmp_path_factory.mktemp("modules")) as found:
        yield found


def options_of(plugin):
    """Return the options that the plugin's last client was made with."""
    options = ctypes.CDLL(str(plugin[0])).fake_gpu_options
    options.restype = ctypes.c_char_p
    return options().decode()


def call(name, devices, *arguments):
    program = devices[0].client.compile_and_load(text(name), [devices[0]])
    results = program.execute([argument._buffers[0] for argument in arguments])
    return [devrt.Array((result,)) for result in results]


def test_programs_are_ordered_by_streams_and_the_host_waits_for_nothing(driver, devices, faults):
    x, gate = pending(driver, devices[0])
    (y,) = call("add", devices, x, x)
    (z,) = call("add", devices, y, x)
    there = devrt.device_put(z, devices[1])
    consumer = Stream(driver)
    tensor = Tensor(z.__dlpack__(stream=consumer))
    consumer.copy(allocate(driver, 4 * COUNT), tensor.address, 4 * COUNT)
    assert not any(array.is_ready() for array in (x, y, z, there))
    gate.set()
    consumer.synchronize()
    tensor.release()
    assert set(np.asarray(there)) == {UNIT + UNIT + UNIT}
    assert set(np.asarray(z)) == {UNIT + UNIT + UNIT}


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_wait_that_is_missing_is_reported(driver, devices, faults, fault):
    faults(fault)
    x, gate = pending(driver, devices[0])
    (y,) = call("add", devices, x, x)
    there = devrt.device_put(y, devices[1])
    gate.set()
    there.block_until_ready()
    y.block_until_ready()
    assert driver.reports() != []


def test_arguments_live_until_the_program_has_ended(driver, devices, faults):
    faults("early")
    x, gate = pending(driver, devices[0])
    (y,) = call("add", devices, x, x)
    x.delete()
    later = [put(value, devices[0]) for value in range(3)]
    gate.set()
    assert set(np.asarray(y)) == {UNIT + UNIT}
    assert [np.asarray(each)[0] for each in later] == [0, 1, 2]


LOST = """
import sys
import devrt
import numpy as np
from gpu_library import Driver, Stream

device = devrt.devices("cuda")[0]
x = devrt.device_put(np.ones(1 << 20, np.float32), device).block_until_ready()
program = device.client.compile_and_load(sys.argv[1], [device])
for _ in range(20):
    y = x.copy().block_until_ready()
    (result,) = program.execute([y._buffers[0], y._buffers[0]])
    y.delete()
    try:
        devrt.device_put(np.zeros(1 << 20, np.float32), device).block_until_ready()
    except devrt.errors.DevrtError:
        break
print(len(Driver().reports()), flush=True)
import os
os._exit(0)  # a device that is lost ends in no order
"""


@pytest.mark.parametrize("fault", ["", "early", "early done"])
def test_memory_that_goes_before_the_program_has_ended_is_reported(devices, faults, fault):
    environ = os.environ | {
        "FAKE_GPU_FAULTS": fault,
        "DEVRT_GPU_SIMULATOR": "delay=2000",
        "PYTHONPATH": os.path.dirname(gpu_library.__file__),
    }
    command = [sys.executable, "-W", "ignore", "-c", LOST, text("add")]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    # The plugin ends the process where the driver refuses what it does.
    is_found = ran.returncode != 0 or int(ran.stdout) > 0
    assert is_found == ("done" in fault), ran.stderr


def test_a_lack_of_memory_that_comes_later_has_what_one_at_once_has(driver, devices, faults):
    faults("full")
    x, gate = pending(driver, devices[0])
    (y,) = call("add", devices, x, x)
    gate.set()
    with pytest.raises(OutOfMemoryError) as caught:
        y.block_until_ready()
    error, bytes_ = caught.value, 4 * COUNT
    assert "Out of memory allocating 7 bytes" in str(error)
    assert "ended for lack of memory" in str(error)
    assert (error.device, error.memory_kind, error.requested) == ("cuda:0", "device", bytes_)
    assert (error.operation, error.program["output_size_in_bytes"]) == ("execute", bytes_)
    assert error.limit > 0
    assert error.largest
    assert set(np.asarray(x)) == {UNIT}  # the device goes on
    y.delete()  # the error's traceback has it


def test_the_results_of_a_program_are_several(driver, devices, faults):
    total, first = call("two", devices, put(2, devices[0]), put(3, devices[0]))
    assert (np.asarray(total)[0], np.asarray(first)[0]) == (5, 2)


def test_a_donated_argument_gives_its_memory(driver, devices, faults):
    x = put(2, devices[0])
    address = x.unsafe_buffer_pointer()
    (y,) = call("same", devices, x)
    assert x.is_deleted()
    assert y.unsafe_buffer_pointer() == address
    (z,) = call("same", devices, y)  # of the plugin's own memory now
    assert y.is_deleted()
    assert z.block_until_ready().unsafe_buffer_pointer() == address


@pytest.mark.parametrize("seized", [False, True])
def test_a_donated_argument_that_is_shared_is_withheld(driver, devices, faults, seized):
    x = put(2, devices[0])
    shared = x.clone()
    faults(*(["seize"] if seized else []))
    gate_of = devrt.device_put(shared, devices[1])  # reads while the program runs
    (y,) = call("same", devices, x)
    assert y.block_until_ready().unsafe_buffer_pointer() != shared.unsafe_buffer_pointer() or seized
    is_whole = np.asarray(shared)[0] == 2
    gate_of.block_until_ready()
    reports = driver.reports()
    assert (is_whole and reports == []) == (not seized)


def test_one_that_must_be_taken_is_copied_where_it_is_shared(driver, devices, faults):
    x = put(2, devices[0])
    shared = x.clone()
    (y,) = call("same_must", devices, x)
    assert np.asarray(y)[0] == 0  # the plugin wrote to what it was given
    assert np.asarray(shared)[0] == 2


def test_a_copy_of_it_that_does_not_fit_is_refused(devices):
    given = {"mock": True, "memory_fraction": 6 * COUNT / (1 << 30)}  # one and a half arrays
    with default_runtime().make_client(devices[0].platform, given) as limited:
        x = put(2, limited.local_devices()[0])
        shared = x.clone()
        with pytest.raises(OutOfMemoryError, match=r"could not be copied: .* allows"):
            call("same_must", limited.local_devices(), x)
        assert np.asarray(shared)[0] == 2


def test_a_copy_that_does_not_fit_beside_the_program_s_own_results_is_refused(devices):
    given = {"mock": True, "memory_fraction": 14 * COUNT / (1 << 30)}  # three and a half arrays
    with default_runtime().make_client(devices[0].platform, given) as limited:
        x, y = (put(value, limited.local_devices()[0]) for value in (2, 3))
        shared = x.clone()
        with pytest.raises(OutOfMemoryError, match="memory_fraction allows"):
            call("same_two_must", limited.local_devices(), x, y)
        assert (np.asarray(shared)[0], np.asarray(y)[0]) == (2, 3)
        del shared
        assert len(call("same_two_must", limited.local_devices(), x, y)) == 2


def test_a_program_on_two_devices_waits_for_nothing_on_the_host(driver, devices, faults):
    given = [pending(driver, device) for device in devices]
    program = devices[0].client.compile_and_load(text("add_all"), devices, num_replicas=2)
    shards = [x._buffers[0] for x, _ in given]
    (sums,) = program.execute_sharded([shards, shards])
    assert not any(each.is_ready() for each in sums)
    for _, gate in given:
        gate.set()
    assert [np.asarray(each)[0] for each in sums] == [UNIT + UNIT] * 2
    assert [each.device for each in sums] == devices


def test_traced_functions_run(driver, devices, faults):
    def add(a, b):
        return a + b

    x = put(2, devices[0])
    assert np.asarray(devrt.jit(add)(x, x))[0] == 4


def test_the_plugin_shares_the_pool_which_keeps_what_is_freed(driver, devices, faults):
    call("add", devices, put(1, devices[0]), put(1, devices[0]))
    for number in range(2):
        pool, threshold = ctypes.c_void_p(), ctypes.c_uint64()
        driver("cuDeviceGetDefaultMemPool", ctypes.byref(pool), ctypes.c_int(number))
        driver("cuMemPoolGetAttribute", pool, ctypes.c_int(4), ctypes.byref(threshold))
        assert threshold.value == KEEPS_ALL


@pytest.mark.parametrize(
    ("options", "came"),
    [
        ({}, "cuda_async as needed"),
        ({"allocator": "bfc"}, "bfc as needed"),
        ({"allocator": "bfc", "memory_fraction": 0.25}, "bfc as needed fraction 0.250000"),
        ({"allocator": "platform"}, "platform as needed"),
        ({"allocator": "cuda_async", "preallocate": True}, "cuda_async as needed"),
    ],
)
def test_the_plugin_has_the_client_s_kind_of_allocator(devices, plugin, options, came):
    given = {"mock": True, "mock_num_gpus": 2} | options
    client = PLATFORM.make_client(ClientContext(options=given))
    try:
        client.compile_and_load(text("add"))
        assert options_of(plugin) == came
    finally:
        client.close()


COLLECTIVES = "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB"


@pytest.mark.parametrize(
    ("options", "environ", "came"),
    [
        ({}, {}, ""),
        ({"collective_memory_size": 3 << 30}, {COLLECTIVES: "5"}, f" collectives {3 << 30}"),
        ({"allocator": GpuAllocatorConfig(collective_memory_size=7)}, {}, " collectives 7"),
        ({}, {COLLECTIVES: "5"}, f" collectives {5 << 20}"),
    ],
)
def test_the_plugin_is_given_the_memory_of_collectives(
    devices, plugin, monkeypatch, options, environ, came
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    given = {"mock": True, "mock_num_gpus": 2} | options
    client = PLATFORM.make_client(ClientContext(options=given))
    try:
        client.compile_and_load(text("add"))
        assert options_of(plugin) == f"cuda_async as needed{came}"
    finally:
        client.close()


def test_a_plugin_that_is_too_old_is_refused(devices, plugin, monkeypatch, tmp_path):
    old = tmp_path / "old.so"
    old.write_bytes(plugin[0].read_bytes())
    monkeypatch.setenv("FAKE_GPU_MINOR", "114")
    monkeypatch.setenv("DEVRT_CUDA_ENGINE", str(old))
    client = PLATFORM.make_client(ClientContext(options={"mock_num_gpus": 2, "mock": True}))
    try:
        with pytest.raises(InvalidArgumentError, match=r"0\.114.*0\.115.*jax-cuda13-pjrt"):
            client.compile_and_load(text("add"))
    finally:
        client.close()


def test_without_a_plugin_the_errors_name_what_to_install(devices, monkeypatch):
    monkeypatch.delenv("DEVRT_CUDA_ENGINE")
    monkeypatch.setattr(metadata, "distribution", _absent)
    for found in (gpu_engine._installed, gpu_engine._simulator):
        found.cache_clear()
    x = devrt.device_put(np.arange(3), devices[0])
    assert not x.device.client.capabilities.donation
    assert x.device.client.capabilities.formats == x.device.client.program_formats == ()
    with pytest.raises(UnimplementedError, match=r"simulated cuda devices.*devrt-cpu\[xla\]"):
        x.device.client.compile_and_load(text("add"))
    with pytest.raises(UnimplementedError, match=r"jax-cuda13-pjrt.*devrt-cuda\[xla\]"):
        gpu_engine.find(PLATFORM)
    assert np.asarray(devrt.device_put(x, devices[1])).tolist() == [0, 1, 2]


def _absent(name):
    raise metadata.PackageNotFoundError(name)

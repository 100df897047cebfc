"""Kernels of one's own in programs on simulated devices, by a fake plugin.

Gates hold back what a program waits for until the host opens them; the simulator reports what
nothing orders.
"""

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError
from devrt.records import ClientContext
from devrt_cuda._platform import PLATFORM
from fake_gpu import COUNT, UNIT, build, pending, put, simulated_devices, text

pytestmark = pytest.mark.engine

OUT = devrt.ShapeDtypeStruct((COUNT,), np.float32)
SIZES = {"grid": COUNT >> 10, "block": 1 << 10}


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    plugin = build(tmp_path_factory.mktemp("built"))
    with simulated_devices(plugin, tmp_path_factory.mktemp("modules")) as found:
        yield found


def kernel_of(client, image, devices=None, end=b""):
    return client.compile(image.read_bytes() + end, devices, format="cubin")["axpy"]


def test_a_traced_function_calls_a_kernel_on_the_program_s_stream(driver, devices, faults, image):
    kernels = [kernel_of(devices[0].client, image)]

    def axpy(x, y):
        return kernels[0](x, y, OUT, np.float32(3), **SIZES)[0]

    traced = devrt.jit(axpy)
    x, gate = pending(driver, devices[0])
    y = put(2, devices[0])
    traced(x, y)
    kernels.clear()  # nothing but the client keeps the module now
    launches = driver.calls("cuLaunchKernel")
    results = [traced(x, y) for _ in range(2)]
    assert not any(each.is_ready() for each in results)
    assert driver.calls("cuLaunchKernel") == launches + 2
    gate.set()
    for each in results:
        assert set(np.asarray(each)) == {np.float32(3) * UNIT + np.float32(2)}


def test_a_kernel_that_waits_for_nothing_is_reported(driver, devices, faults, image):
    faults("before")
    kernel = kernel_of(devices[0].client, image)

    def axpy(x, y):
        return kernel(x, y, OUT, np.float32(3), **SIZES)[0]

    x, gate = pending(driver, devices[0])
    z = devrt.jit(axpy)(x, x)
    gate.set()
    z.block_until_ready()
    assert any("launch" in line or "kernel" in line.lower() for line in driver.reports())


def run(name, config, devices, arrays):
    program = devices[0].client.compile_and_load(text(name, config), devices)
    return devrt.Array(tuple(program.execute([each._buffers[0] for each in arrays])))


def test_a_program_of_another_s_calls_a_kernel(driver, devices, faults, image):
    x = put(2, devices[1])
    call = kernel_of(devices[1].client, image).custom_call(x, x, OUT, np.float32(4), **SIZES)
    assert call.target == "devrt_kernel"
    assert call.attributes["parameters"].tolist() == [-1, -1, -2, 4]
    x = put(2, devices[0])
    assert set(np.asarray(run("axpy", call.backend_config, devices[:1], [x, x]))) == {10}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel = ": "kernel = absent_"}, "not loaded on the device"),
        ({"grid = array<i64: 1024>": "grid = array<i64: 0>"}, "'grid' must have sizes from 1"),
        ({"block = array<i64: 1024>": "block = array<i64: 2048>"}, "block.x is 2048.*at most 1024"),
        ({"-2, 4": "-2, 3"}, "each operand, result and byte"),
        ({"-2, 4": "-2, 17"}, "17, which is no number of bytes"),
        ({"-1, -1, -2": "-1, -2"}, "each operand, result and byte"),
        ({"-1, -1, -2": "-1, -1, -1, -2"}, "no buffer as argument 2"),
        ({"-1, -1, -2, 4": "-1, -1, -2, 2, 2"}, "takes 4 parameters, and 5 are given"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(driver, devices, faults, image, changes, words):
    x = put(2, devices[0])
    call = kernel_of(devices[0].client, image).custom_call(x, x, OUT, np.float32(4), **SIZES)
    config = call.backend_config.replace('kernel = "', "kernel = ")
    for old, new in changes.items():
        assert old in config
        config = config.replace(old, new)
    config = config.replace("kernel = ", 'kernel = "')
    launches = driver.calls("cuLaunchKernel")
    with pytest.raises(devrt.errors.DevrtError, match=words):
        run("axpy", config, devices[:1], [x, x]).block_until_ready()
    assert driver.calls("cuLaunchKernel") == launches


def test_a_kernel_that_is_not_loaded_where_the_program_runs_is_refused(devices, faults, image):
    kernel = kernel_of(devices[0].client, image, devices[1:], end=b"other")

    def axpy(x, y):
        return kernel(x, y, OUT, np.float32(3), **SIZES)[0]

    with pytest.raises(devrt.errors.DevrtError, match="not loaded on the device"):
        devrt.jit(axpy)(put(1, devices[0]), put(1, devices[0])).block_until_ready()


def test_results_of_a_call_that_failed_are_filled_on_the_stream(driver, devices, faults, image):
    shards = [put(1, device)._buffers[0] for device in devices]
    config = '{kernel = "absent", grid = array<i64: 1>, block = array<i64: 1>}'
    program = devices[0].client.compile_and_load(text("axpy_all", config), devices, num_replicas=2)
    fills = driver.calls("cuMemsetD8Async")
    (results,) = program.execute_sharded([shards, shards])
    with pytest.raises(devrt.errors.DevrtError, match="not loaded on the device"):
        devrt.Array(tuple(results[:1])).block_until_ready()
    assert driver.calls("cuMemsetD8Async") == fills + 2


def test_a_launch_that_the_device_cannot_make_is_refused_in_the_trace(devices, faults, image):
    kernel = kernel_of(devices[0].client, image)
    x = put(1, devices[0])
    for arguments, sizes, words in (
        ((x, x, OUT, np.int64(3)), SIZES, "argument 3 has 8 bytes, .* parameter 4"),
        ((x, x, OUT, np.float32(3)), SIZES | {"block": 2048}, "block.x is 2048"),
        ((x, x, OUT, np.float32(3)), SIZES | {"shared_bytes": -1}, "shared_bytes is -1"),
    ):
        traced = devrt.jit(lambda a, b, rest=arguments[2:], how=sizes: kernel(a, b, *rest, **how))
        with pytest.raises(InvalidArgumentError, match=words):
            traced(x, x)


def test_what_programs_call_is_unloaded_with_the_client(driver, devices, faults, image):
    before = driver.modules()
    client = PLATFORM.make_client(ClientContext(options={"mock_num_gpus": 2, "mock": True}))
    kernel = kernel_of(client, image)
    kernel.custom_call(np.ones(1), np.ones(1), OUT, np.float32(1), **SIZES)
    del kernel
    assert driver.modules() == before + 2
    client.close()
    assert driver.modules() == before


def test_functions_of_python_get_copies_and_those_of_devices_the_stream(driver, devices, faults):
    client, seen = devices[0].client, []

    def halved(a, b, by):
        seen.append(a.copy())
        return (a + b) / np.float32(by)

    client.register_custom_call("halved", halved)
    client.register_custom_call("watched", seen.append, kind="device")
    x, gate = pending(driver, devices[0])
    gate.set()
    code = text("axpy", "{by = 4 : i64}").replace("devrt_kernel", "halved")
    program = client.compile_and_load(code, devices[:1])
    (result,) = program.execute([each._buffers[0] for each in (x, x)])
    assert set(np.asarray(result)) == {(UNIT + UNIT) / np.float32(4)}
    assert set(seen.pop()) == {UNIT}
    code = code.replace("halved", "watched")
    client.compile_and_load(code, devices[:1]).execute([x._buffers[0]] * 2)
    (call,) = seen
    assert call.stream != 0
    assert [each.address for each in call.arguments] == [x.unsafe_buffer_pointer()] * 2


def test_an_error_of_a_function_of_python_is_the_program_s(driver, devices, faults):
    def failing(a, b):
        raise ValueError("no such thing")

    devices[0].client.register_custom_call("failing", failing)
    code = text("axpy").replace("devrt_kernel", "failing")
    x = put(1, devices[0])
    with pytest.raises(devrt.errors.DevrtError, match="no such thing"):
        devices[0].client.compile_and_load(code, devices[:1]).execute([x._buffers[0]] * 2)

"""What was read from the source of XLA's plugin for GPUs, seen on a GPU."""

import ctypes

import numpy as np
import pytest

COUNT = 1 << 22
THRESHOLD = 4  # an attribute of the driver's pools
TYPE = f"tensor<{COUNT}xf32>"
NEGATE = (
    "module @negate {{ func.func @main(%a: {type}{donated}) -> {type} {{\n"
    "%0 = stablehlo.negate %a : {type}\nreturn %0 : {type} }} }}"
)


def negate(device, *, donates):
    donated = " {tf.aliasing_output = 0 : i32}" if donates else ""
    return device.client.compile_and_load(NEGATE.format(type=TYPE, donated=donated), [device])


def put(device, value=1):
    return device.client.buffer_from_pyval(np.full(COUNT, value, np.float32), device)


def test_results_are_right_whatever_is_still_on_its_way(device):
    program = negate(device, donates=False)
    for value in range(20):
        (result,) = program.execute([put(device, value)])
        (again,) = program.execute([result])
        copied = again.copy_to_memory(device.default_memory(), may_alias=False)
        assert set(np.asarray(copied)) == {value}


def test_donated_memory_is_taken_over(device):
    x = put(device).block_until_ready()
    address = x.unsafe_buffer_pointer()
    (y,) = negate(device, donates=True).execute([x])
    assert x.is_deleted()
    assert y.block_until_ready().unsafe_buffer_pointer() == address


def test_donated_memory_that_is_shared_is_left_as_it_is(device):
    x = put(device).block_until_ready()
    shared = x.clone()
    (y,) = negate(device, donates=True).execute([x])
    assert set(np.asarray(y)) == {-1}
    assert set(np.asarray(shared)) == {1}


def test_the_pool_is_shared_and_keeps_what_is_freed(device):
    if device.platform != "cuda":
        pytest.skip("the plugin for rocm has an arena of its own")
    driver = ctypes.CDLL("libcuda.so.1")
    pool, threshold = ctypes.c_void_p(), ctypes.c_uint64()
    number = ctypes.c_int(device.local_hardware_id)
    (result,) = negate(device, donates=False).execute([put(device)])
    result.block_until_ready()
    assert driver.cuDeviceGetDefaultMemPool(ctypes.byref(pool), number) == 0
    assert driver.cuMemPoolGetAttribute(pool, THRESHOLD, ctypes.byref(threshold)) == 0
    assert threshold.value == 2**64 - 1
    used = ctypes.c_uint64()
    assert driver.cuMemPoolGetAttribute(pool, 7, ctypes.byref(used)) == 0
    assert used.value >= 2 * 4 * COUNT  # the argument, which is deleted next, and the result

"""What was read from the source of XLA's plugin for GPUs, seen on a GPU: it is looked at first."""

import ctypes

import numpy as np
import pytest

from gpu_machine import ROUNDS

COUNT = 1 << 22
THRESHOLD, RESERVED, USED = 4, 5, 7  # attributes of the driver's pools
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


def is_full_of(value, array):
    return bool((np.asarray(array) == value).all())


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
    assert is_full_of(-1, y)
    assert is_full_of(1, shared)


def test_results_are_right_whatever_is_still_on_its_way(device):
    program = negate(device, donates=False)
    for value in range(ROUNDS):
        (result,) = program.execute([put(device, value)])
        (again,) = program.execute([result])
        copied = again.copy_to_memory(device.default_memory(), may_alias=False)
        assert is_full_of(value, copied)


def test_the_pool_is_shared_and_keeps_what_is_freed(device):
    if device.platform != "cuda":
        pytest.skip("the plugin for rocm has an arena of its own")
    driver, pool = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    number = ctypes.c_int(device.local_hardware_id)

    def of_pool(attribute):
        value = ctypes.c_uint64()
        assert driver.cuMemPoolGetAttribute(pool, attribute, ctypes.byref(value)) == 0
        return value.value

    x = put(device)
    (result,) = negate(device, donates=False).execute([x])
    result.block_until_ready()
    assert driver.cuDeviceGetDefaultMemPool(ctypes.byref(pool), number) == 0
    assert of_pool(THRESHOLD) == 2**64 - 1
    both = x.nbytes + result.nbytes
    assert of_pool(USED) >= both
    x.delete()
    result.delete()
    put(device).block_until_ready()  # behind the frees
    assert of_pool(RESERVED) >= both

"""devrt's own client on a GPU: memory, transfers and kernels, against what else is there."""

import json

import numpy as np
import pytest

import devrt
from gpu_machine import COUNT, IS_SIMULATED, ROUNDS, kernels
from support import python

LARGE = 1 << (26 if IS_SIMULATED else 30)
SEVERAL = 1 << (26 if IS_SIMULATED else 32)  # a device has some 16 to 40 of them
ADD = """extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}"""
SIMULATED_ADD = """#include "gpu_simulator/kernel.h"
void add(const devrt_simulator_launch* launch, void* const* parameters) {
  const size_t bytes = launch->block[0] * sizeof(float), at = launch->block_index[0] * bytes;
  const float* x = launch->read(launch->context, *(const uint64_t*)parameters[0] + at, bytes);
  const float* y = launch->read(launch->context, *(const uint64_t*)parameters[1] + at, bytes);
  float* z = launch->write(launch->context, *(const uint64_t*)parameters[2] + at, bytes);
  for (unsigned i = 0; i < launch->block[0]; ++i) z[i] = x[i] + y[i];
}
const unsigned add_parameters[] = {8, 8, 8, 4, 0};
"""
BESIDE_A_BARE_CONTEXT = 64 << 20
FULL = """
import sys
import numpy as np
import devrt
from devrt.errors import OutOfMemoryError
from devrt.runtime import default_runtime

device = default_runtime().get_backend(sys.argv[1]).local_devices()[0]
value, held = np.empty(int(sys.argv[2]), np.uint8), []
try:
    for _ in range(device.memory_stats()["bytes_limit"] // value.nbytes + 1):
        held.append(device.client.buffer_from_pyval(value, device))
except OutOfMemoryError as error:
    print(error)
held.clear()
assert float(np.asarray(devrt.device_put(np.float32(3), device))) == 3
"""
CLOSED = """
import ctypes, gc, json, sys
import numpy as np
import devrt
from devrt.runtime import default_runtime

driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0

def free():
    left, whole = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(whole)) == 0
    return left.value

before = free()
client = default_runtime().get_backend("cuda@devrt-cuda")
x = client.buffer_from_pyval(np.ones(int(sys.argv[1]), np.uint8), client.local_devices()[0])
y = x.block_until_ready().copy_to_memory(x.memory, may_alias=False).block_until_ready()
used = before - free()
if sys.argv[2] == "dropped":
    del x, y
    gc.collect()
client.close()
print(json.dumps([used, before - free()]))
"""
COMPUTED = """
import hashlib, json, sys
import numpy as np
import devrt

def step(x, w):
    y = devrt.numpy.tanh(x @ w)
    return y, devrt.numpy.sort(y, axis=1), y.sum(), devrt.numpy.exp(y) / 3

random = np.random.default_rng(0)
x, w = (random.standard_normal((512, 512), np.float32) for _ in range(2))
results = devrt.jit(step)(devrt.device_put(x), devrt.device_put(w))
print(json.dumps([hashlib.sha256(np.asarray(r).tobytes()).hexdigest() for r in results]))
"""


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (COUNT,), (3, 4 * COUNT)])
@pytest.mark.parametrize("kind", ["device", "pinned_host"])
def test_what_is_put_comes_back(device, shape, kind):
    value = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    there = device.client.buffer_from_pyval(value, device.memory(kind))
    back = there.copy_to_memory(device.default_memory())
    assert np.array_equal(np.asarray(back), value)


def test_many_puts_and_fetches_at_once(device):
    values = [np.full(COUNT + i, i, np.float32) for i in range(32)]
    arrays = [devrt.device_put(value, device) for value in values]
    for value, found in zip(values, arrays, strict=True):
        assert np.array_equal(np.asarray(found), value)


def test_memory_that_is_not_there_is_an_error_and_the_device_goes_on(device):
    # In a child: what the driver's pool keeps, other libraries do not get.
    name = f"{device.platform}@devrt-{device.platform}"
    ran = python(FULL, name, SEVERAL, options=("-W", "ignore"))
    assert "out of memory" in ran.stdout


def test_kernels_run(device, tmp_path):
    module = kernels(device.client, ADD, SIMULATED_ADD, tmp_path)
    x, y = (devrt.device_put(np.arange(COUNT, dtype=np.float32) + i, device) for i in range(2))
    out = devrt.ShapeDtypeStruct((COUNT,), np.float32)
    for _ in range(ROUNDS):
        (x,) = module["add"](x, y, out, np.int32(COUNT), grid=COUNT >> 8, block=256)
    expected = np.arange(COUNT, dtype=np.float32)
    for _ in range(ROUNDS):
        expected = expected + (np.arange(COUNT, dtype=np.float32) + 1)
    assert np.array_equal(np.asarray(x), expected)


@pytest.mark.parametrize("arrays", ["dropped", "alive"])
def test_closing_gives_the_memory_back(device, arrays):
    if device.platform != "cuda":
        pytest.skip("CUDA's driver reports it")
    ran = python(CLOSED, LARGE, arrays, options=("-W", "ignore"))
    used, left = json.loads(ran.stdout)
    assert used >= 2 * LARGE
    assert left <= BESIDE_A_BARE_CONTEXT


def computed(client):
    return python(COMPUTED, options=("-W", "ignore"), DEVRT_PLATFORMS=client).stdout


def test_programs_give_what_xlas_own_client_gives(device):
    if device.platform != "cuda":
        pytest.skip("the other client is of CUDA's wheel")
    ours = computed("cuda@devrt-cuda")
    if IS_SIMULATED:
        pytest.skip("XLA has no client for simulated devices")
    assert ours == computed("cuda@jax-cuda13-pjrt")

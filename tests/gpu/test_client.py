"""devrt's own client on a GPU: memory, transfers and kernels, against what else is there."""

import json

import numpy as np
import pytest

import devrt
from devrt.errors import OutOfMemoryError
from support import python

COUNT = 1 << 22
ADD = """extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}"""
BESIDE_A_BARE_CONTEXT = 64 << 20
CLOSED = """
import ctypes, gc, json
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
x = client.buffer_from_pyval(np.ones(1 << 28, np.float32), client.local_devices()[0])
y = x.block_until_ready().copy_to_memory(x.memory(), may_alias=False).block_until_ready()
used = before - free()
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


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (COUNT,), (3, 1 << 24)])
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
    value, held = np.empty(1 << 32, np.uint8), []
    more = device.memory_stats()["bytes_limit"] // value.nbytes + 1

    def fill():
        held.extend(device.client.buffer_from_pyval(value, device) for _ in range(more))

    with pytest.raises(OutOfMemoryError, match="out of memory"):
        fill()
    held.clear()
    assert float(np.asarray(devrt.device_put(np.float32(3), device))) == 3


def test_kernels_run(device):
    if device.platform != "cuda":
        pytest.skip("the source is CUDA C++")
    module = device.client.compile(ADD, format="cuda")
    x, y = (devrt.device_put(np.arange(COUNT, dtype=np.float32) + i, device) for i in range(2))
    out = devrt.ShapeDtypeStruct((COUNT,), np.float32)
    for _ in range(20):
        (x,) = module["add"](x, y, out, np.int32(COUNT), grid=COUNT >> 8, block=256)
    expected = np.arange(COUNT, dtype=np.float32)
    for _ in range(20):
        expected = expected + (np.arange(COUNT, dtype=np.float32) + 1)
    assert np.array_equal(np.asarray(x), expected)


def test_closing_gives_the_memory_back(device):
    if device.platform != "cuda":
        pytest.skip("CUDA's driver reports it")
    used, left = json.loads(python(CLOSED, options=("-W", "ignore")).stdout)
    assert used >= 2 << 30
    assert left <= BESIDE_A_BARE_CONTEXT


def test_programs_give_what_xlas_own_client_gives(device):
    given = "cuda@devrt-cuda", "cuda@jax-cuda13-pjrt"
    if device.platform != "cuda":
        pytest.skip("the other client is of CUDA's wheel")
    ours, theirs = (
        python(COMPUTED, options=("-W", "ignore"), DEVRT_PLATFORMS=name).stdout for name in given
    )
    assert ours == theirs

"""Calls whose outputs cannot be taken over, for a lack of memory, when the program is under way."""

import subprocess
import sys

import pytest

from support import xla_cpu_library

pytestmark = pytest.mark.engine

# The first program is none that the engine runs within its call, and it waits. The second waits for
# it, so its call returns before it runs. The engine packs its output, of four bits an element, for
# which the client makes memory of its own.
PROGRAM = """
import threading
import numpy as np, devrt
from devrt_cpu import make_cpu_client
COUNT = 16 << 20
ONES = np.ones((256, 256), np.float32)
client = make_cpu_client(num_devices=1, memory_limit_bytes=7 << 20)
opened, called = threading.Event(), threading.Semaphore(0)
def wait(a):
    opened.wait()
    return a
def fails(a):
    called.release()
    raise ValueError("no good")
client.register_custom_call("waits", wait)
client.register_custom_call("fails", fails)
def call(name, source, result):
    return (f"%{result} = stablehlo.custom_call @{name}(%{source}) {{api_version = 4 : i32}}"
            ": (tensor<4xf32>) -> tensor<4xf32>")
first = client.compile_and_load(f'''func.func @main(%m: tensor<256x256xf32>) -> tensor<4xf32> {{
  %p = stablehlo.dot %m, %m : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %s = stablehlo.slice %p [0:1, 0:4] : (tensor<256x256xf32>) -> tensor<1x4xf32>
  %a = stablehlo.reshape %s : (tensor<1x4xf32>) -> tensor<4xf32>
  {call("waits", "a", "r")}
  return %r : tensor<4xf32> }}''')
second = client.compile_and_load(f'''func.func @main(%a: tensor<4xf32>) -> tensor<{COUNT}xi4> {{
  {call("fails", "a", "b")}
  %c = stablehlo.slice %b [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  %d = stablehlo.convert %c : (tensor<1xf32>) -> tensor<1xi4>
  %r = stablehlo.broadcast_in_dim %d, dims = [0] : (tensor<1xi4>) -> tensor<{COUNT}xi4>
  return %r : tensor<{COUNT}xi4> }}''')
for _ in range(20):
    opened.clear()
    (x,) = first.execute([client.buffer_from_pyval(ONES)])
    try:
        second.execute([x])
    except devrt.errors.OutOfMemoryError as error:
        assert not x.is_ready()
    opened.set()
    assert called.acquire(timeout=30)
    assert np.asarray(x).tolist() == [256] * 4
client.close()
print("closed")
"""


def test_the_program_goes_on_with_all_that_it_uses():
    xla_cpu_library()
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr

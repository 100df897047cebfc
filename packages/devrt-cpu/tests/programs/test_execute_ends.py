"""Calls of compiled programs from many threads, and processes that end in the middle of them."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from devrt.errors import ClosedError, DevrtError
from devrt_cpu import make_cpu_client
from support import double, python, square

pytestmark = pytest.mark.engine

DOUBLE = double()

SLOW = square()


def run(code):
    """Run code in a process of its own; it must end well and say nothing."""
    result = python(code)
    # A slow machine says meanwhile what the exit waits for.
    output = [line for line in result.stderr.splitlines() if "devrt: waiting for" not in line]
    assert output == []
    return result.stdout


def test_sixteen_threads_compile_run_and_delete():
    def work(number):
        for i in range(6):
            executable = client.compile_and_load(DOUBLE.replace("add", "multiply"))
            x = client.buffer_from_pyval(np.full(8, float(number), np.float32))
            for _ in range(20):
                (y,) = executable.execute([x])
            if i % 2:
                executable.delete()
            assert np.asarray(y)[0] == float(number) ** 2
        return number

    with make_cpu_client(num_devices=2) as client, ThreadPoolExecutor(16) as pool:
        assert sorted(pool.map(work, range(16))) == list(range(16))
        gc.collect()
        assert client.live_executables() == []


def test_a_client_may_close_while_threads_call_it():
    client = make_cpu_client()
    executable = client.compile_and_load(SLOW)
    x = client.buffer_from_pyval(np.ones((256, 256), np.float32))
    started = threading.Barrier(5)

    def work():
        started.wait()
        for _ in range(200):
            try:
                executable.execute([x])
            except RuntimeError as error:
                return str(error)
        return "ran"

    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(work) for _ in range(4)]
        started.wait()
        client.close()
        for result in results:
            assert "closed" in result.result() or "deleted" in result.result()


STEP = """module @step attributes {mhlo.num_partitions = 2 : i32} {
 func.func public @main(%a: tensor<131072xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
   -> (tensor<131072xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
  %r = stablehlo.add %a, %a : tensor<131072xf32>
  return %r : tensor<131072xf32> }}"""


def test_a_loop_whose_client_another_thread_closes_says_that_it_is_closed():
    for _ in range(8):
        client = make_cpu_client(num_devices=2)
        devices = client.devices()
        step = client.compile_and_load(STEP, devices)
        begun = threading.Barrier(4)

        def loop(client=client, devices=devices, step=step, begun=begun):
            x = [client.buffer_from_pyval(np.zeros(65536, np.float32), d) for d in devices]
            begun.wait()
            try:
                while True:
                    (x,) = step.execute_sharded([x])
            except DevrtError as error:
                return error

        with ThreadPoolExecutor(3) as pool:
            loops = [pool.submit(loop) for _ in range(3)]
            begun.wait()
            time.sleep(0.1)
            client.close()
            errors = [done.result() for done in loops]
        assert [type(e) for e in errors] == [ClosedError] * 3, errors


PRELUDE = f"""
import sys, threading, numpy as np, devrt_cpu
client = devrt_cpu.make_cpu_client(num_devices=2)
slow = client.compile_and_load('''{SLOW}''')
x = client.buffer_from_pyval(np.ones((256, 256), np.float32))
"""


@pytest.mark.parametrize(
    "end",
    [
        "results = [slow.execute([x]) for _ in range(50)]; del client, slow, x",
        "for _ in range(50): slow.execute([x])[0].delete()\nclient.close()",
    ],
)
def test_a_process_may_end_with_work_in_flight(end):
    run(PRELUDE + end)


def test_a_process_may_end_during_the_first_product_of_matrices():
    """Then the compiler's runtime makes what it takes apart at exit, before all that is older."""
    loop = """func.func @main(%a: tensor<200x200xf32>) -> tensor<200x200xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %many = stablehlo.constant dense<300> : tensor<i32>
      %w:2 = stablehlo.while(%i = %zero, %m = %a) : tensor<i32>, tensor<200x200xf32>
        cond {
          %p = stablehlo.compare LT, %i, %many : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %j = stablehlo.add %i, %one : tensor<i32>
          %n = stablehlo.dot %m, %m
            : (tensor<200x200xf32>, tensor<200x200xf32>) -> tensor<200x200xf32>
          stablehlo.return %j, %n : tensor<i32>, tensor<200x200xf32>
        }
      return %w#1 : tensor<200x200xf32> }"""
    for _ in range(3):  # two of three die without a wait
        run(
            "import sys, numpy as np, devrt_cpu\n"
            "client = devrt_cpu.make_cpu_client(num_devices=8)\n"
            f"loop = client.compile_and_load({loop!r})\n"
            "x = client.buffer_from_pyval(np.eye(200, dtype=np.float32))\n"
            "results = [loop.execute([x]) for _ in range(6)]\n"
        )


def test_a_process_may_end_while_daemon_threads_call():
    run(
        PRELUDE
        + """
def work():
    while True:
        slow.execute([x])[0].block_until_ready()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
slow.execute([x])[0].block_until_ready()
"""
    )


def test_a_forked_child_is_reported(tmp_path):
    out = run(
        PRELUDE
        + """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
if child == 0:
    try:
        slow.execute([x])
    except RuntimeError as error:
        print("forked" in str(error), flush=True)
    del slow, x
    try:
        devrt_cpu.make_cpu_client().compile_and_load("func.func @main() { return }")
    except RuntimeError as error:
        print("before this process was forked" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(float(np.asarray(slow.execute([x])[0])[0, 0]))
"""
    )
    assert out.split() == ["True", "True", str(256.0 * 256.0)]

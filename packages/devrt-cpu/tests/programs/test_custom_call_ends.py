"""Processes that end, fork or run out of names while programs call functions of Python."""

import subprocess
import sys

import pytest

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")

PROGRAM = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @cpu_test_call(%a) {api_version = 4 : i32, has_side_effect = true}
    : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> }"""

HEAD = """
import os, sys, threading, time
import numpy as np
from devrt import errors
from devrt_cpu import make_cpu_client
client = make_cpu_client(num_devices=2)
X = client.buffer_from_pyval(np.zeros(8, np.float32))
"""


def child(code):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", HEAD + code, PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines(), done.stderr


def test_the_interpreter_ends_while_a_function_runs():
    output, _ = child(
        """
started = threading.Event()
def call(a):
    started.set(); time.sleep(0.3); return a
client.register_custom_call("cpu_test_call", call)
program = client.compile_and_load(sys.argv[1])
def forever():
    try:
        while True: program.execute([X])
    except errors.DevrtError: pass
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
started.wait(30)
print("end", flush=True)
""",
    )
    assert output == ["end"]


def test_an_interrupt_ends_a_process_whose_function_never_returns():
    output, complaint = child(
        """
import atexit, signal
started = threading.Event()
def call(a):
    started.set()
    time.sleep(1000)
client.register_custom_call("cpu_test_call", call)
program = client.compile_and_load(sys.argv[1])
threading.Thread(target=lambda: program.execute([X])[0].block_until_ready(), daemon=True).start()
started.wait(30)
signal.signal(signal.SIGALRM, signal.default_int_handler)
atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.5)  # runs before the wait for functions
print("end", flush=True)
""",
    )
    assert output == ["end"]
    assert "KeyboardInterrupt" in complaint


def test_what_a_function_holds_ends_with_the_interpreter():
    output, complaint = child(
        """
class Held:
    def __del__(self, write=os.write): write(1, b"gone")
held = Held()
client.register_custom_call("cpu_test_call", lambda a, held=held: a if client else held)
client.compile_and_load(sys.argv[1]).execute([X])[0].block_until_ready()
del held
""",
    )
    assert (output, complaint) == (["gone"], "")


def test_a_fork_while_a_function_runs_leaves_the_child_well():
    output, _ = child(
        """
import warnings; warnings.simplefilter("ignore")
started, go_on = threading.Event(), threading.Event()
def call(a):
    started.set(); go_on.wait(30); return a
client.register_custom_call("cpu_test_call", call)
program = client.compile_and_load(sys.argv[1])
thread = threading.Thread(target=lambda: program.execute([X])[0].block_until_ready())
thread.start()
started.wait(30)
pid = os.fork()
if pid == 0:
    try: program.execute([X])
    except errors.ForkedError: sys.exit(7)
    sys.exit(8)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
go_on.set()
thread.join()
""",
    )
    assert output == ["7"]


def test_there_is_an_end_of_names():
    output, _ = child(
        """
count = 0
try:
    while True:
        client.register_custom_call(f"call_{count}", lambda a: a); count += 1
except errors.UnimplementedError as error:
    print(count, "which is the most" in str(error))
""",
    )
    assert output == ["256 True"]

"""Processes that end, fork or run out of names while programs call functions of Python."""

import pytest

from support import make_client, python

PROGRAM = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @the_call(%a) {api_version = 4 : i32, has_side_effect = true}
    : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> }"""
HEAD = """
import os, sys, threading, time
import numpy as np
from devrt import errors
from support import make_client
client = make_client(sys.argv[1], 2)
X = client.buffer_from_pyval(np.zeros(8, np.float32))
started = threading.Event()
def register(call): client.register_custom_call("the_call", call)
def compiled(): return client.compile_and_load(sys.argv[2])
"""
both = pytest.mark.parametrize("client", ["cpu", "loader"])


def child(client, code):
    make_client(client).close()  # skips the test where it cannot be had
    options = ("-X", "faulthandler", "-W", "error")
    done = python(HEAD + code, client, PROGRAM, options=options)
    return done.stdout.splitlines(), done.stderr


@both
def test_the_interpreter_ends_while_a_function_runs(client):
    code = """
def call(a):
    started.set(); time.sleep(0.3); return a
register(call)
program = compiled()
def forever():
    try:
        while True: program.execute([X])
    except errors.DevrtError: pass
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
started.wait(30)
print("end", flush=True)
"""
    assert child(client, code)[0] == ["end"]


def test_an_interrupt_ends_a_process_whose_function_never_returns():
    code = """
import atexit, signal
def call(a):
    started.set()
    time.sleep(1000)
register(call)
program = compiled()
threading.Thread(target=lambda: program.execute([X])[0].block_until_ready(), daemon=True).start()
started.wait(30)
signal.signal(signal.SIGALRM, signal.default_int_handler)
atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.5)  # runs before the wait for functions
print("end", flush=True)
"""
    output, complaint = child("cpu", code)
    assert output == ["end"]
    assert "KeyboardInterrupt" in complaint


@both
def test_what_a_function_holds_ends_with_the_interpreter(client):
    pytest.importorskip("devrt_cpu")  # whose module tells of objects that outlive it
    code = """
import devrt
class Held:
    def __del__(self, write=os.write): write(1, b"gone")
held, cpu = Held(), devrt.get_backend("cpu")
register(lambda a, held=held: a if cpu and client else held)
compiled().execute([X])[0].block_until_ready()
del held
"""
    assert child(client, code) == (["gone"], "")


def test_a_fork_while_a_function_runs_leaves_the_child_well():
    code = """
import warnings; warnings.simplefilter("ignore")
go_on = threading.Event()
def call(a):
    started.set(); go_on.wait(30); return a
register(call)
program = compiled()
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
"""
    assert child("cpu", code)[0] == ["7"]


@both
def test_there_is_an_end_of_names(client):
    code = """
count = 0
try:
    while True:
        client.register_custom_call(f"call_{count}", lambda a: a); count += 1
except errors.UnimplementedError as error:
    print(count, "which is the most" in str(error))
"""
    assert child(client, code)[0] == ["256 True"]

"""Calls that wait for a slot in flight: they say so when nothing ends, and signals reach them."""

import pytest

from support import python

pytestmark = pytest.mark.engine

PROGRAM = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @cpu_test_call(%a) {api_version = 4 : i32, has_side_effect = true}
    : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> }"""

# Long enough for calls on its result to be made before it is there: they run in threads of the
# engine then, and not in the caller's.
# Powers of two: every order of sums gives the same.
SQUARE = "tensor<1024x1024xf32>"
PRODUCTS = "\n".join(
    f"%m{i + 1} = stablehlo.dot %m{i}, %m{i} : ({SQUARE}, {SQUARE}) -> {SQUARE}" for i in range(6)
)
LONG = f"""func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
  %n = stablehlo.constant dense<0.0009765625> : {SQUARE}
  %s = stablehlo.slice %a [0:1] : (tensor<8xf32>) -> tensor<1xf32>
  %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<1xf32>) -> {SQUARE}
  %m0 = stablehlo.multiply %b, %n : {SQUARE}
  {PRODUCTS}
  %r = stablehlo.slice %m6 [0:1, 0:8] : ({SQUARE}) -> tensor<1x8xf32>
  %f = stablehlo.reshape %r : (tensor<1x8xf32>) -> tensor<8xf32>
  %k = stablehlo.constant dense<1024.0> : tensor<8xf32>
  %o = stablehlo.multiply %f, %k : tensor<8xf32>
  return %o : tensor<8xf32> }}"""

HEAD = """
import faulthandler, signal, sys, threading
import numpy as np
from devrt import errors
from devrt_cpu import make_cpu_client
faulthandler.dump_traceback_later(60, exit=True)
gate = threading.Event()
def call(a):
    gate.wait()
    return a
client = make_cpu_client(num_devices=2, execution_timeout=TIMEOUT)
client.register_custom_call("cpu_test_call", call)
program, long = (client.compile_and_load(p, client.devices()[1:]) for p in sys.argv[1:])
x = client.buffer_from_pyval(np.ones(8, np.float32), client.devices()[1])
(x,) = long.execute([x])
results = []
def fill():
    for _ in range(40): results.extend(program.execute([x]))
def finish():
    print(len(results) in (23, 24))  # with the long one, or without
    gate.set()
    print({round(float(np.asarray(r)[7]), 2) for r in results})
"""


def child(code, timeout):
    head = HEAD.replace("TIMEOUT", str(timeout))
    done = python(head + code, PROGRAM, LONG)
    return done.stdout.splitlines()


def test_a_signal_reaches_a_call_that_waits_for_a_slot():
    output = child(
        """
def ring(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 1)
try: fill()
except KeyboardInterrupt: print("interrupted")
finish()
fill()
print(len(results) in (63, 64))
""",
        600,
    )
    assert output == ["interrupted", "True", "{1.0}", "True"]


def test_a_call_says_what_it_waits_for_when_nothing_ends():
    output = child(
        """
try: fill()
except errors.DeadlineExceededError as error: print(error)
finish()
""",
        0.5,
    )
    assert output[0].startswith(
        "execute failed: program 'main' waited for a slot on cpu:1, where 24 executions are in "
        "flight, and none has ended for"
    )
    assert "cpu_execution_timeout" in output[0]
    assert output[1:] == ["True", "{1.0}"]


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), "1", True, None])
def test_a_timeout_is_a_number_of_seconds(wrong):
    from devrt.errors import InvalidArgumentError, InvalidTypeError
    from devrt_cpu import make_cpu_client

    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="execution_timeout must be"):
        make_cpu_client(execution_timeout=wrong)  # type: ignore[arg-type]

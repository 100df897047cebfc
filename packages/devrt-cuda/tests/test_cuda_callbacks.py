"""Functions that programs of simulated devices call, and that use devices themselves.

In processes of their own: where a wait is not refused it has no end, that of the process included.
"""

import os
import subprocess
import sys

import pytest

from support import xla_cpu_library

pytestmark = pytest.mark.engine

BEGIN = """
import threading, warnings
warnings.simplefilter("ignore")
import numpy as np, devrt
from devrt.errors import DevrtError
SPEC = devrt.ShapeDtypeStruct((4,), np.float32)
first, second = devrt.devices("cuda")
x = devrt.device_put(np.ones(4, np.float32), first)
def calling(function):
    return devrt.jit(lambda a: devrt.pure_callback(function, SPEC, a))
def shown(call):
    try:
        print(np.asarray(call()).tolist())
    except DevrtError as error:
        print(type(error).__name__, error.operation, error.device, error)
"""

REFUSED = """
shown(lambda: calling(lambda v: np.asarray(x + 1))(x))
shown(lambda: x + 1)  # the device goes on
"""

LATER = """
later, started = [], threading.Event()
def wait(v):
    started.wait()
    return np.asarray(later[0])
y = calling(wait)(x)
later.append(x + 1)
started.set()
shown(lambda: y)
"""

MADE_OF_OWN = """
copied, started = [], threading.Event()
def wait(v):
    started.wait()
    return np.asarray(copied[0])
for place in (first, second):
    started.clear()
    y = calling(wait)(x)
    copied[:] = [devrt.device_put(y, place, may_alias=False)]
    started.set()
    shown(lambda: y)
"""

QUEUED = """
ready = devrt.device_put(np.ones(4, np.float32), first).block_until_ready()
there = devrt.device_put(np.ones(4, np.float32), second).block_until_ready()
twice = devrt.jit(lambda a: a + a)
twice(there).block_until_ready()
copy = lambda a: devrt.device_put(a, second, may_alias=False)
uses = [lambda v: v + np.asarray(copy(ready)), lambda v: v + np.asarray(twice(there))]
for use in uses:
    started = threading.Event()
    wait = calling(lambda v: started.wait() and v)
    moved = copy(calling(use)(wait(x)))  # on the link that the function uses
    started.set()
    shown(lambda: twice(moved))
"""

EARLIER = """
earlier = []
reads = calling(lambda v: np.asarray(earlier[-1]) + v)
negative = calling(lambda v: -v)
results = set()
for _ in range(300):  # some ends of the first are reported late
    earlier.append(negative(x) + x)
    earlier.append(negative(x))
    results.add(float(np.asarray(reads(x))[0]))
print(results)
"""

TOGETHER = """
import devrt.lax as lax
def refused(v):
    if v[0] == 1: raise ValueError("no root")
    return v
mesh = devrt.make_mesh((2,), ("i",), devices=[first, second])
rows = devrt.NamedSharding(mesh, devrt.P("i"))
def summed(a): return lax.psum(a, "i")
total = devrt.jit(devrt.shard_map(summed, mesh, in_specs=devrt.P("i"), out_specs=devrt.P()))
ones = devrt.device_put(np.ones(4, np.float32), second)
def start(part):
    parts = [calling(refused)(part), ones]
    return total(devrt.make_array_from_single_device_arrays((8,), rows, parts))
shown(lambda: start(x + 1))
try:
    start(x)
except DevrtError as error:
    print("no root" in str(error), error.operation)
"""

OWN = """
deleted = devrt.device_put(np.ones(4, np.float32), second)
deleted.delete()
shown(lambda: calling(lambda v: np.asarray(deleted))(x))
"""

OTHERS = """
there = devrt.device_put(np.ones(4, np.float32), second)
shown(lambda: calling(lambda v: np.asarray(there + v))(x))
shown(lambda: calling(lambda v: np.asarray(devrt.device_put(np.asarray(v) + 2, first)))(x))
"""

ENDS = "calling(lambda v: np.asarray(x + 1))(x)"


OF_CPU_FIRST = """
y = devrt.device_put(np.ones(4, np.float32), devrt.devices("cpu")[0])
shown(lambda: calling(lambda v: v + 1)(y))
"""


def printed(program):
    xla_cpu_library()
    environ = {"DEVRT_CUDA_MOCK": "2", "DEVRT_PLATFORMS": "cuda,cpu"}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_program_on_the_device_that_calls_is_refused():
    refusal, result = printed(REFUSED)
    assert refusal.startswith(
        "DevrtError execute cuda:0 custom call 'devrt_host_call.devrt_cuda' (<string>:"
    )
    assert refusal.count("raised") == refusal.count("execute failed") == 1
    assert "cuda:0 calls" in refusal
    assert "Compute with NumPy" in refusal
    assert result == str([2.0] * 4)


def test_it_is_refused_where_programs_of_the_cpu_have_called_before():
    first, refusal, result = printed(OF_CPU_FIRST + REFUSED)
    assert "Compute with NumPy" in refusal
    assert first == result == str([2.0] * 4)


def test_a_result_of_a_later_program_is_not_waited_for():
    (refusal,) = printed(LATER)
    assert "block_until_ready failed" in refusal
    assert "cuda:0" in refusal


def test_a_copy_of_a_result_of_the_program_itself_is_not_waited_for():
    for refusal in printed(MADE_OF_OWN):
        assert "block_until_ready failed" in refusal
        assert "a result of that program" in refusal


def test_a_function_uses_a_device_with_work_that_waits_for_it():
    assert printed(QUEUED) == [str([4.0] * 4), str([6.0] * 4)]


def test_what_earlier_programs_made_may_be_read():
    assert printed(EARLIER) == ["{0.0}"]


def test_a_program_over_devices_does_not_begin_with_what_a_function_of_the_host_failed():
    assert printed(TOGETHER) == [str([3.0] * 4), "True execute"]


def test_an_error_of_devrt_in_a_function_has_its_class():
    (error,) = printed(OWN)
    assert error.startswith("DeletedError execute cuda:0 custom call")


def test_another_device_and_copies_may_be_used():
    assert printed(OTHERS) == [str([2.0] * 4), str([3.0] * 4)]


def test_a_process_ends_after_it():
    assert printed(ENDS) == []

"""Ctrl-C while an array is read: it ends the reading, also where NumPy drops errors."""

import pytest

pytest.importorskip("devrt_cpu")

# Ctrl-C comes while the first reading waits for its device.
CHILD = """
import hashlib, signal
import devrt_cpu._ext  # lends the buffer protocol to Python 3.11
import devrt, numpy as np
import devrt.numpy as jnp
from devrt_acme.client import AcmeBuffer, AcmeClient

waits = []

def wait(self, dtype=None, copy=None):
    waits.append(1)
    if len(waits) == 1:
        signal.raise_signal(signal.SIGINT)
    return self._alive()

AcmeBuffer.__array__ = wait
devices = AcmeClient(2).devices()
place = {place}
a = devrt.device_put(np.arange(2.0), place)

def read(a):
    return {read}

try:
    read(a)
except KeyboardInterrupt:
    print("interrupted", len(waits))
print(a.__array__().tolist(), np.asarray(read(a)).size > 0)
"""
READINGS = {
    "numpy.asarray": "np.asarray(a)",
    "numpy.array": "np.array(a)",
    "a list": "np.array([a, a])",
    "a tree": "devrt.device_get({1: [a]})[1]",
    "memoryview": "memoryview(a)",
    "bytes": "np.frombuffer(bytes(a))",
    "a hash": "hashlib.sha256(a).hexdigest()",
    "device_get": "devrt.device_get([a])",
    "__array__": "a.__array__()",
    "full": "jnp.full(2, a)",
}
PLACES = {
    "one device": "devices[0]",
    "sharded": "devrt.sharding.NamedSharding("
    "devrt.make_mesh((2,), ('x',), devices=devices), devrt.sharding.PartitionSpec('x'))",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_an_interrupt_ends_what_reads(run_python, read, place):
    done = run_python("-c", CHILD.format(read=read, place=place), DEVRT_PLATFORMS="cpu")
    assert done.stdout.splitlines() == ["interrupted 1", "[0.0, 1.0] True"], done.stderr


@pytest.mark.parametrize("error", ["TimeoutError('alarm')", "SystemExit(3)"])
def test_so_does_an_exception_of_another_signals_handler(run_python, error):
    code = CHILD.replace("signal.raise_signal(signal.SIGINT)", f"raise {error}")
    code = code.replace("except KeyboardInterrupt", "except BaseException")
    done = run_python("-c", code.format(read="np.asarray(a)", place="devices[0]"))
    assert done.stdout.splitlines()[0] == "interrupted 1", done.stderr


AGAIN = """
def again(a):
    for attempt in range(2):
        try:
            read(a)
        except KeyboardInterrupt:
            # Not within the call that was broken off, so that this is read.
            print(a.__array__().tolist())

waits.clear()
again(devrt.device_put(np.arange(2.0), place))
"""


def test_an_interrupt_is_raised_once(run_python):
    code = CHILD.format(read="memoryview(a)", place=PLACES["one device"]) + AGAIN
    done = run_python("-c", code)
    assert done.stdout.splitlines()[-1] == "[0.0, 1.0]", done.stderr
    assert done.returncode == 0

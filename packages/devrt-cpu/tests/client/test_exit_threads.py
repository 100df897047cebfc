"""A process ends while daemon threads are inside native code that calls Python."""

import pytest

from support import python

_SETUP = """
import sys, threading
import numpy as np
from devrt.errors import DevrtError
from devrt_cpu import make_cpu_client
client = make_cpu_client(num_devices=2, traceback_in_buffers="all")
buffer = client.buffer_from_pyval(np.zeros((10, 10)))

def fail():
    try:
        client.device_from_local_hardware_id(99)
    except DevrtError:
        pass

calls = 0
def work(call):
    global calls
    while True:
        call()
        calls += 1

def go(call):
    for _ in range(3):
        threading.Thread(target=work, args=(call,), daemon=True).start()
    while calls < 50:
        pass
"""


@pytest.mark.parametrize(
    "call",
    [
        "buffer.layout",
        "buffer.pjrt_layout",
        "str(buffer.traceback)",
        "repr(buffer)",
        "client.heap_profile()",
        "client.topology()",
        "client.get_default_layout(np.dtype('float32'), (2, 3))",
        "client.buffer_from_pyval(np.zeros((2, 2)), layout='{0,1}')",
        "fail()",
    ],
)
def test_a_process_ends_while_daemon_threads_call_back_into_python(call):
    program = _SETUP + f"go(lambda: {call})\n"
    for _ in range(4):
        assert python(program).stderr == ""


_HOLDING = """
import threading, time
import numpy as np
from devrt_cpu import make_cpu_client
client = make_cpu_client(num_devices=2)
entered = threading.Event()

class Offset:
    def __len__(self):
        entered.set()
        while True:
            time.sleep(0.0001)
    def __del__(self):
        print("release")

class Offsets:
    def __len__(self):
        return 2
    def __getitem__(self, i):
        if i > 1:
            raise IndexError
        return Offset()

def put():
    client.batched_buffer_from_pyval(np.zeros(4), client.devices(), Offsets(), (2,))

threading.Thread(target=put, daemon=True).start()
assert entered.wait(60)
"""


def test_a_thread_that_ends_in_a_native_call_lets_go_of_nothing():
    # The call holds the only share of the second Offset, which Python code ends.
    done = python(_HOLDING)
    assert (done.stdout, done.stderr) == ("", "")

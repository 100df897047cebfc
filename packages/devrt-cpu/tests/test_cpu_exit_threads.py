"""A process ends while daemon threads are inside native code that calls Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
def test_a_process_ends_while_daemon_threads_call_back_into_python(call: str) -> None:
    program = _SETUP + f"go(lambda: {call})\n"
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")

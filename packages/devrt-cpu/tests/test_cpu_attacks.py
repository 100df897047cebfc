"""Ways in which the native client was once made to crash, hang or read what is not its own."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import devrt_cpu._ext as ext
from devrt.errors import InvalidTypeError
from devrt_cpu import make_cpu_client

CLASSES = [ext.CpuBuffer, ext._HostView, ext.CpuMemory, ext.CpuDevice, ext.CpuClient]


def aligned(size: int) -> np.ndarray:
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_instance_without_its_native_half(cls) -> None:
    for make in (cls, lambda: cls.__new__(cls), lambda: object.__new__(cls)):
        with pytest.raises(TypeError):
            make()


def test_a_dtype_that_does_not_fit_the_buffer_is_refused() -> None:
    class Lying(np.ndarray):
        @property
        def dtype(self):
            return np.dtype("u8")

    with make_cpu_client() as client, pytest.raises(InvalidTypeError, match="8 bytes"):
        client.buffer_from_pyval(np.zeros(16, np.uint8).view(Lying))


def test_the_shape_outlives_a_source_that_goes_early() -> None:
    raw = bytes((64 << 10) + 64)
    stop = threading.Event()
    with make_cpu_client() as client:

        def drain() -> None:
            while not stop.is_set():
                client.live_buffers()

        threads = [threading.Thread(target=drain) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            shapes = {client.buffer_from_pyval(raw, None, False, 1).shape for _ in range(5000)}
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert shapes == {(len(raw),)}


def test_a_long_chain_of_aliases_is_freed_without_recursion() -> None:
    with make_cpu_client() as client:
        device = client.devices()[0]
        buffer = client.buffer_from_pyval(aligned(4096), device, False, 2)
        for _ in range(100_000):
            buffer = client.buffer_from_pyval(
                np.frombuffer(memoryview(buffer), np.uint8), device, False, 2
            )
        del buffer
        assert client.live_buffers() == []
        assert device.memory_stats()["bytes_in_use"] == 0


def test_a_chain_of_aliases_leaves_nothing_at_exit() -> None:
    done = run(
        """
import numpy as np
from devrt_cpu import make_cpu_client
client = make_cpu_client()
raw = np.zeros(4096 + 64, np.uint8)
start = -raw.ctypes.data % 64
x = client.buffer_from_pyval(raw[start : start + 4096], None, False, 2)
for _ in range(6):
    x = client.buffer_from_pyval(np.asarray(x), None, False, 2)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_daemon_threads_inside_the_client_do_not_abort_the_exit() -> None:
    done = run(
        """
import threading
import numpy as np
from devrt_cpu import make_cpu_client
client = make_cpu_client()
client.buffer_from_pyval(np.zeros(3, np.uint8))  # what is imported at the first use is there now
inside = threading.Barrier(5)

def work():
    source = np.zeros(1 << 24, np.uint8)
    inside.wait()
    while True:
        client.buffer_from_pyval(source).block_until_ready()

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
inside.wait()
"""
    )
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="os.fork is not on this system")
def test_a_forked_child_deletes_and_is_refused_without_hanging() -> None:
    done = run(
        """
import os, signal, threading
import numpy as np
from devrt.errors import ForkedError
from devrt_cpu import make_cpu_client
client = make_cpu_client(num_devices=8)
buffers = [client.buffer_from_pyval(np.ones(8)) for _ in range(20)]
source, stop = np.zeros((8, 1 << 18)), threading.Event()

def work():
    while not stop.is_set():
        offsets = [(i, 0) for i in range(8)]
        client.batched_buffer_from_pyval(source, client.devices(), offsets, (1, 1 << 18))

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a hang ends as a failure
        for buffer in buffers:
            buffer.delete()
        try:
            client.buffer_from_pyval(1.0)
        except ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
print("done")
"""
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr

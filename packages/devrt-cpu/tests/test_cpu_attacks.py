"""Ways in which the native client was once made to crash, hang or read what is not its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import devrt_cpu._ext as ext
from devrt.errors import DevrtWarning, InternalError, InvalidArgumentError, InvalidTypeError
from devrt.records import MemoryKind
from devrt_cpu import make_cpu_client, plugin

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not on this system")
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


def test_an_exit_handler_may_join_a_daemon_thread_inside_the_client() -> None:
    done = run(
        """
import atexit, threading
stop, threads = threading.Event(), []
atexit.register(lambda: (stop.set(), threads[0].join(), print("joined")))
import numpy as np
from devrt_cpu import make_cpu_client

def work(client=make_cpu_client(), source=np.zeros(1 << 24, np.uint8)):
    while not stop.is_set():
        client.buffer_from_pyval(source).block_until_ready()
        inside.set()

inside = threading.Event()
threads.append(threading.Thread(target=work, daemon=True))
threads[0].start()
inside.wait()
"""
    )
    assert (done.returncode, done.stdout) == (0, "joined\n"), done.stderr


def test_an_idle_daemon_thread_that_holds_a_client_is_no_leak() -> None:
    done = run(
        """
import threading
import numpy as np
from devrt_cpu import make_cpu_client

def work():
    client = make_cpu_client()
    buffer = client.buffer_from_pyval(np.zeros(100))
    ready.set()
    threading.Event().wait()

ready = threading.Event()
threading.Thread(target=work, daemon=True).start()
ready.wait()
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not on this system")
def test_a_child_forked_from_a_busy_process_exits_normally() -> None:
    done = run(
        """
import os, signal, sys, threading
import numpy as np
from devrt_cpu import make_cpu_client
client, source, stop = make_cpu_client(), np.zeros(1 << 25, np.uint8), threading.Event()

def work():
    while not stop.is_set():
        client.buffer_from_pyval(source).block_until_ready()

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
statuses = set()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # a hang ends as a failure
        sys.exit(0)
    statuses.add(os.waitpid(pid, 0)[1])
stop.set()
print(statuses)
"""
    )
    assert (done.returncode, done.stdout) == (0, "{0}\n"), done.stderr


def test_a_second_interpreter_is_refused_and_the_first_stays_whole() -> None:
    done = run(
        """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import devrt_cpu._ext as ext
client = ext.make_cpu_client()
code = '''
try:
    import devrt_cpu._ext
except ImportError as error:
    print("refused", flush=True)
'''
if hasattr(interpreters, "exec"):
    second = interpreters.create("legacy")
    assert interpreters.exec(second, code) is None
else:
    second = interpreters.create()
    interpreters.run_string(second, code)
interpreters.destroy(second)
assert not client.is_closed
assert ext.make_cpu_client().buffer_from_pyval(1).shape == ()
print("whole")
"""
    )
    assert (done.returncode, done.stdout) == (0, "refused\nwhole\n"), done.stderr


def test_a_dtype_attribute_that_is_no_dtype_is_refused() -> None:
    class Lying(np.ndarray):
        @property
        def dtype(self):
            return "float32"

    with make_cpu_client() as client, pytest.raises(InvalidTypeError, match="of type str"):
        client.buffer_from_pyval(np.zeros(4, np.float32).view(Lying))


class Exporter:
    def __init__(self, capsule, device=(1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


def test_dlpack_exporters_that_break_the_contract_are_refused() -> None:
    used = np.zeros(3).__dlpack__()
    assert np.from_dlpack(Exporter(used)).shape == (3,)
    with make_cpu_client() as client:
        for capsule in (None, 5, used):
            with pytest.raises(InvalidTypeError, match="capsule"):
                client.buffer_from_pyval(Exporter(capsule))
        with pytest.raises(TypeError, match="__dlpack_device__"):
            client.buffer_from_pyval(Exporter(None, ("cpu", 0)))


@pytest.mark.parametrize(
    "options", [{"copy": 2}, {"max_version": ("1", 0)}, {"dl_device": (1, "0")}], ids=str
)
def test_dlpack_options_of_a_wrong_type_are_refused(options) -> None:
    with make_cpu_client() as client:
        buffer = client.buffer_from_pyval(np.zeros(3))
        with pytest.raises(TypeError, match=next(iter(options))):
            buffer.__dlpack__(**options)


def test_a_view_freed_late_in_the_exit_frees_the_source() -> None:
    done = run(
        """
import atexit, weakref
kept = {}

def last():  # runs after the handler of the client, which was registered later
    gone = weakref.ref(kept.pop("source"))
    assert gone() is not None
    del kept["view"]
    print(gone())

atexit.register(last)
import numpy as np
from devrt_cpu import make_cpu_client
raw = np.zeros(4096 + 64, np.uint8)
start = -raw.ctypes.data % 64
kept["source"] = raw[start : start + 4096]
kept["view"] = np.asarray(make_cpu_client().buffer_from_pyval(kept["source"], None, False, 2))
"""
    )
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


def test_a_memory_kind_with_a_nul_matches_nothing() -> None:
    with make_cpu_client() as client, pytest.raises(InvalidArgumentError, match="device\0x"):
        client.devices()[0].memory("device\0x")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_devices": "2"}, InvalidTypeError),
        ({"num_nodes": 1.0}, InvalidTypeError),
        ({"num_devices": 2**40}, InvalidArgumentError),
        ({"num_devices": 4096, "num_nodes": 200_000}, InvalidArgumentError),
    ],
    ids=str,
)
def test_numbers_that_cannot_be_used_are_refused(options, error) -> None:
    with pytest.raises(error, match=next(iter(options))):
        make_cpu_client(**options)


@pytest.mark.parametrize("returned", [5, None], ids=str)
def test_an_allocator_that_returns_no_capsule_is_refused(returned) -> None:
    kind = MemoryKind(platform="cpu", kind="odd", allocator=lambda: returned)
    with pytest.raises(InvalidArgumentError, match="'odd'"):
        make_cpu_client(memory_kinds=[kind])


def test_the_plugin_leaves_out_kinds_whose_allocator_fails() -> None:
    def fails() -> object:
        raise OSError("no such memory")

    for allocator, why in ((fails, "no such memory"), (lambda: 5, "of type int")):
        kind = MemoryKind(platform="cpu", kind="odd", allocator=allocator)
        with pytest.warns(DevrtWarning, match=f"'odd'.*{why}"):
            assert list(plugin._usable([kind])) == []


class Table(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("context", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("deallocate", ctypes.c_void_p),
    )


def test_misaligned_memory_of_a_plugin_is_refused_and_given_back() -> None:
    live: set[int] = set()
    block = ctypes.create_string_buffer(8192)

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    def allocate(_context, _size, alignment):
        address = -(-ctypes.addressof(block) // alignment) * alignment + 8
        live.add(address)
        return address

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    def deallocate(_context, address, _size):
        live.remove(address)

    functions = [ctypes.cast(f, ctypes.c_void_p).value for f in (allocate, deallocate)]
    table = Table(ctypes.sizeof(Table), None, *functions)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    capsule = new(ctypes.addressof(table), b"devrt_host_allocator", None)
    kind = MemoryKind(platform="cpu", kind="odd", allocator=lambda: capsule)
    with make_cpu_client(memory_kinds=[kind]) as client:
        memory = client.devices()[0].memory("odd")
        with pytest.raises(InternalError, match="aligned"):
            client.buffer_from_pyval(np.arange(100.0), memory)
        assert not live
        assert memory.memory_stats()["bytes_in_use"] == 0

"""Ways in which the native client was once made to crash, hang or read what is not its own."""

import os
import threading

import numpy as np
import pytest

import devrt_cpu._ext as ext
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_cpu import make_cpu_client
from support import aligned, python

CLASSES = [ext.CpuBuffer, ext._HostView, ext.CpuMemory, ext.CpuDevice, ext.CpuClient]


def run(program):
    return python(program, options=("-W", "ignore"))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_instance_without_its_native_half(cls):
    for make in (cls, lambda: cls.__new__(cls), lambda: object.__new__(cls)):
        with pytest.raises(TypeError):
            make()


def test_a_dtype_that_does_not_fit_the_buffer_is_refused():
    class Lying(np.ndarray):
        @property
        def dtype(self):
            return np.dtype("u8")

    with make_cpu_client() as client, pytest.raises(InvalidTypeError, match="8 bytes"):
        client.buffer_from_pyval(np.zeros(16, np.uint8).view(Lying))


def test_the_shape_outlives_a_source_that_goes_early():
    raw = bytes((64 << 10) + 64)
    stop = threading.Event()
    with make_cpu_client() as client:

        def drain():
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


def test_a_long_chain_of_aliases_is_freed_without_recursion():
    with make_cpu_client() as client:
        device = client.devices()[0]
        buffer = client.buffer_from_pyval(aligned(4096, np.uint8), device, False, 2)
        for _ in range(100_000):
            buffer = client.buffer_from_pyval(
                np.frombuffer(memoryview(buffer), np.uint8), device, False, 2
            )
        del buffer
        assert client.live_buffers() == []
        assert device.memory_stats()["bytes_in_use"] == 0


def test_a_chain_of_aliases_leaves_nothing_at_exit():
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
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not on this system")
def test_a_forked_child_deletes_and_is_refused_without_hanging():
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
    assert done.stdout == "done\n"


def test_an_exit_handler_may_join_a_daemon_thread_inside_the_client():
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
    assert done.stdout == "joined\n"


def test_an_idle_daemon_thread_that_holds_a_client_is_no_leak():
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
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not on this system")
def test_a_child_forked_from_a_busy_process_exits_normally():
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
    assert done.stdout == "{0}\n"


def test_a_second_interpreter_is_refused_and_the_first_stays_whole():
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
    assert done.stdout == "refused\nwhole\n"


def test_a_dtype_attribute_that_is_no_dtype_is_refused():
    class Lying(np.ndarray):
        @property
        def dtype(self):
            return "float32"

    with make_cpu_client() as client, pytest.raises(InvalidTypeError, match="of type str"):
        client.buffer_from_pyval(np.zeros(4, np.float32).view(Lying))


def test_a_view_freed_late_in_the_exit_frees_the_source():
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
    assert done.stdout == "None\n"


def test_a_memory_kind_with_a_nul_matches_nothing():
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
def test_numbers_that_cannot_be_used_are_refused(options, error):
    with pytest.raises(error, match=next(iter(options))):
        make_cpu_client(**options)

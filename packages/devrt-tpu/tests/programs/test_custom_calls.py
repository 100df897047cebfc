"""Functions of Python and of C that compiled programs call, run by XLA's CPU plugin."""

import itertools
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import devrt_pjrt
from devrt import errors

_numbers = itertools.count()


@pytest.fixture
def name():
    """Return a name that nothing is registered under: XLA forgets none."""
    return f"test_call_{next(_numbers)}"


def run(client, text, value):
    executable = client.compile_and_load(text)
    return [np.asarray(out) for out in executable.execute([client.buffer_from_pyval(value)])]


X = np.arange(8, dtype=np.float32)


@pytest.fixture
def interrupts():
    """Let interrupts raise, which a shell has ignored in what it runs in the background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_reaches_the_program(xla_cpu, name, call_program):
    def call(a):
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        return a

    xla_cpu.register_custom_call(name, call)
    executable, value = xla_cpu.compile_and_load(call_program(name)), xla_cpu.buffer_from_pyval(X)
    with pytest.raises(KeyboardInterrupt) as caught:
        executable.execute([value])
    assert isinstance(caught.value.__cause__, errors.DevrtError)
    xla_cpu.register_custom_call(name, lambda a: a + 1)
    assert np.asarray(executable.execute([value])[0])[0] == 1


def test_a_plugin_without_the_extension_says_so(fake):
    client = devrt_pjrt.make_client(devrt_pjrt.library_for("fake_calls", fake), "fake_calls")
    with pytest.raises(errors.UnimplementedError, match="no FFI extension"):
        client.register_custom_call("x", print)
    client.close()
    with pytest.raises(errors.ClosedError):
        client.register_custom_call("x", print)


def test_threads_and_devices_call_at_once(xla_cpu, name, call_program):
    xla_cpu.register_custom_call(name, lambda a: a * 2)
    one = [xla_cpu.compile_and_load(call_program(name), [d]) for d in xla_cpu.devices()]
    wrong = []

    def work(at):
        device = xla_cpu.devices()[at]
        for step in range(100):
            value = np.full(8, step, np.float32)
            (made,) = one[at].execute([xla_cpu.buffer_from_pyval(value, device)])
            if not (np.asarray(made) == 2 * step).all():
                wrong.append((at, step))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


HEAD = """
import os, sys, threading, time
import numpy as np
import devrt_pjrt as pjrt
from devrt import errors
client = pjrt.make_client(pjrt.library_for("c", sys.argv[1]), "c", {"cpu_device_count": 2})
X = client.buffer_from_pyval(np.zeros(8, np.float32))
"""


def child(library, text, code):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + code, library, text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_the_interpreter_ends_while_a_function_runs(xla_cpu_library, name, call_program):
    output = child(
        xla_cpu_library,
        call_program(name),
        f"""
started = threading.Event()
def call(a):
    started.set(); time.sleep(0.3); return a
client.register_custom_call({name!r}, call)
program = client.compile_and_load(sys.argv[2])
def forever():
    while True: program.execute([X])
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
started.wait(30)
print("end", flush=True)
""",
    )
    assert output == ["end"]


def test_what_a_function_holds_ends_with_the_interpreter(xla_cpu_library, name, call_program):
    pytest.importorskip("devrt_cpu")  # whose module tells of objects that outlive it
    output = child(
        xla_cpu_library,
        call_program(name),
        f"""
import os, devrt
class Held:
    def __del__(self, write=os.write): write(1, b"gone")
held, cpu = Held(), devrt.get_backend("cpu")
client.register_custom_call({name!r}, lambda a, held=held: a if cpu else held)
client.compile_and_load(sys.argv[2]).execute([X])
del held
""",
    )
    assert output == ["gone"]


def test_there_is_an_end_of_names(xla_cpu_library, name, call_program):
    output = child(
        xla_cpu_library,
        call_program(name),
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

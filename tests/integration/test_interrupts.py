"""Ctrl-C while a program compiles or runs, and while the process ends: in both clients."""

import os
import signal
import subprocess
import sys
import time

import pytest

from support import seconds_run

pytestmark = pytest.mark.engine

_DEADLINE = 120  # seconds until a child counts as hung

_PRELUDE = """
import signal, sys, threading, time
import numpy as np
import devrt

def calls_twice(depth):
    lines = ["module @tall { func.func private @f0(%a: tensor<4xf32>) -> tensor<4xf32> {",
             "%0 = stablehlo.sine %a : tensor<4xf32>", "return %0 : tensor<4xf32> }"]
    call = "(%{}) : (tensor<4xf32>) -> tensor<4xf32>"
    for i in range(1, depth + 1):
        lines += [f"func.func private @f{i}(%a: tensor<4xf32>) -> tensor<4xf32> {{",
                  f"%0 = func.call @f{i - 1}" + call.format("a"),
                  f"%1 = func.call @f{i - 1}" + call.format("0"), "return %1 : tensor<4xf32> }"]
    lines += ["func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {",
              f"%0 = func.call @f{depth}" + call.format("a"), "return %0 : tensor<4xf32> } }"]
    return "\\n".join(lines)

def endless(shape, step):
    return f'''module @endless {{ func.func public @main(%a: {shape}) -> {shape} {{
      %w = stablehlo.while(%x = %a) : {shape}
        cond {{
          %t = stablehlo.constant dense<true> : tensor<i1>
          stablehlo.return %t : tensor<i1>
        }} do {{
          {step}
          stablehlo.return %y : {shape}
        }}
      return %w : {shape} }} }}'''

SHORT = calls_twice(0)
LONG = calls_twice(16)  # minutes: the compiler makes 65,536 operations of it
SECONDS = calls_twice(12)
SQUARE = "tensor<64x64xf32>"
# XLA runs the small one on the caller's thread, the large one on its own.
SMALL = endless("tensor<f32>", "%y = stablehlo.sine %x : tensor<f32>"), np.float32(1)
LARGE = endless(SQUARE, f"%y = stablehlo.dot %x, %x : ({SQUARE}, {SQUARE}) -> {SQUARE}"), np.eye(
    64, dtype=np.float32)

def say(what):
    print(what, flush=True)

def start(program):
    text, value = program
    run = client.compile_and_load(text)
    given = client.buffer_from_pyval(value)
    say("start")
    return run.execute([given])[0]

def works():
    y, = client.compile_and_load(SHORT).execute([client.buffer_from_pyval(np.zeros(4, "float32"))])
    return np.asarray(y).tolist() == [0.0] * 4
"""

_CLIENTS = {
    "native": "from devrt_cpu import make_cpu_client\nclient = make_cpu_client(num_devices=2)\n",
    "loader": """
from devrt_cpu._library import choose
import devrt_pjrt as pjrt
path = choose().path
client = pjrt.make_client(pjrt.library_for("loaded", path), "loaded", {"cpu_device_count": 2})
""",
}
_RUNTIME = {
    "native": "client = devrt.devices('cpu')[0].client\n",
    "loader": """
import os
from devrt_cpu._library import choose
path = choose().path
os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = "loaded:" + path
client = devrt.devices("loaded")[0].client
""",
}


class Child:
    """A process of its own group, as a shell makes one, that gets the signals of a terminal."""

    def __init__(self, code, folder, handler):
        self._errors = folder / "stderr"
        program = f"{_PRELUDE}\nsignal.signal(signal.SIGINT, {handler})\n{code}"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,
                env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
            )  # fmt: skip

    def expect(self, line):
        """Wait for a line of standard output."""
        assert self._process.stdout is not None
        printed = self._process.stdout.readline().strip()
        self._before = seconds_run(self._process.pid)
        assert printed == line, (printed or self.end(), self.errors())

    def expect_error(self, *words):
        """Wait until standard error has all of the words."""
        end = time.monotonic() + _DEADLINE
        while not all(word in self.errors() for word in words):
            assert self._process.poll() is None, self.errors()
            assert time.monotonic() < end, self.errors()
            time.sleep(0.02)

    def interrupt(self, after=0.0, busy=0.0):
        """Press Ctrl-C; ``busy`` seconds of a processor bring the child to what it announced."""
        time.sleep(after)
        while seconds_run(self._process.pid) < self._before + busy:
            assert self._process.poll() is None, self.errors()
            time.sleep(0.01)
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self):
        """Return the status with which the process ends."""
        return self._process.wait(_DEADLINE)

    def errors(self):
        """Return what it has written to standard error."""
        return self._errors.read_text()

    def kill(self):
        """End it however it is."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def child(tmp_path):
    """Return what starts children, which end with the test."""
    made = []

    def start(code, handler="signal.default_int_handler"):
        made.append(Child(code, tmp_path, handler))
        return made[-1]

    # A child that says nothing would keep the test waiting for its next line.
    def too_late(*_):
        raise TimeoutError(made[-1].errors())

    former = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(_DEADLINE)
    yield start
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)
    for process in made:
        process.kill()


both = pytest.mark.parametrize("client", list(_CLIENTS))


@both
def test_an_interrupt_ends_the_wait_for_the_compiler(child, client):
    process = child(
        _CLIENTS[client]
        + """
say("compile")
try:
    client.compile_and_load(LONG)
except KeyboardInterrupt:
    say("interrupted")
say(works()); say("end")
"""
    )
    process.expect("compile")
    process.interrupt(busy=0.5)
    for line in ("interrupted", "True", "end"):
        process.expect(line)
    assert (process.end(), process.errors()) == (0, "")


@both
@pytest.mark.parametrize("close", ["client.close()", "devrt.clear_backends()", ""])
def test_a_compilation_that_nobody_waits_for_delays_no_end(child, client, close):
    process = child(
        _RUNTIME[client]
        + f"""
say("compile")
try:
    client.compile_and_load(LONG)
finally:
    {close or "pass"}
"""
    )
    process.expect("compile")
    process.interrupt(busy=0.5)
    assert process.end() == -signal.SIGINT
    assert process.errors().splitlines()[-1] == "KeyboardInterrupt"


@both
def test_a_process_ends_while_a_thread_compiles(child, client):
    process = child(
        _CLIENTS[client]
        + """
threading.Thread(target=client.compile_and_load, args=(LONG,), daemon=True).start()
while time.process_time() < 0.8: time.sleep(0.01)
say("end")
"""
    )
    process.expect("end")
    assert (process.end(), process.errors()) == (0, "")


@both
@pytest.mark.parametrize("wait", ["y.block_until_ready()", "np.asarray(y)", "y.copy_to_memory()"])
@pytest.mark.parametrize("program", ["SMALL", "LARGE"])
def test_a_second_interrupt_ends_a_process_whose_program_does_not(child, client, program, wait):
    if "copy" in wait:
        wait = "np.asarray(y.copy_to_memory(client.devices()[1].default_memory()))"
    process = child(
        _CLIENTS[client]
        + f"""
try:
    y = start({program})
    {wait}
except KeyboardInterrupt:
    say("interrupted")
    raise
"""
    )
    process.expect("start")
    process.interrupt(busy=0.3)
    process.expect("interrupted")
    process.expect_error("devrt: waiting for program 'endless' on ", ":0 to end", "Ctrl-C")
    process.interrupt()
    assert process.end() == -signal.SIGINT
    assert process.errors().count("waiting for") == 1


@both
@pytest.mark.parametrize("program", ["SMALL", "LARGE"])
@pytest.mark.parametrize("catch", ["pass", "raise"])
@pytest.mark.parametrize(
    "gap", [0.02, 0.1, *(pytest.param(gap, marks=pytest.mark.stress) for gap in (0.05, 0.15))]
)
def test_two_interrupts_end_a_process_whenever_the_second_comes(child, client, program, catch, gap):
    """Python makes one of two that come within a moment, and tells others of one at exit."""
    process = child(
        _RUNTIME[client]
        + f"""
try:
    y = start({program})
    y.block_until_ready()
except KeyboardInterrupt:
    {catch}
"""
    )
    process.expect("start")
    process.interrupt(busy=0.3)
    process.interrupt(after=gap)
    assert process.end() == -signal.SIGINT
    assert "ignored" not in process.errors()


@both
def test_an_interrupt_of_what_ended_does_not_count_as_the_first(child, client):
    process = child(
        _RUNTIME[client]
        + """
say("compile")
try:
    for n in range(1000):  # a fast machine ends one before the signal comes
        client.compile_and_load(SECONDS.replace("@tall", f"@tall{n}"))
except KeyboardInterrupt:
    say("interrupted")
while time.process_time() < (time.sleep(1) or time.process_time()) - 0.05: pass  # it compiles
try:
    y = start(LARGE)
    y.block_until_ready()
except KeyboardInterrupt:
    say("interrupted")
"""
    )
    process.expect("compile")
    process.interrupt(busy=0.3)
    process.expect("interrupted")
    process.expect("start")
    process.interrupt(busy=0.3)
    process.expect("interrupted")
    process.expect_error("devrt: waiting for program 'endless'")
    process.interrupt()
    assert process.end() == -signal.SIGINT
    assert "ignored" not in process.errors()


@both
@pytest.mark.parametrize("read", ["np.asarray(y)", "memoryview(y)", "y.block_until_ready()"])
def test_an_interrupt_ends_the_wait_for_an_array(child, client, read):
    """NumPy drops what the buffer protocol raises, and asks again in another way."""
    process = child(
        _RUNTIME[client]
        + f"""
from devrt.programs import load_program
text, value = LARGE
say("start")
y, = load_program(text, client)(value)
say("read")
try:
    {read}
except KeyboardInterrupt:
    say("interrupted")
"""
    )
    process.expect("start")
    process.expect("read")
    process.interrupt(busy=0.3)
    process.expect("interrupted")
    process.expect_error("devrt: waiting for program 'endless'")
    process.interrupt()
    assert process.end() == -signal.SIGINT


@both
@pytest.mark.parametrize("program", ["SMALL", "LARGE"])
@pytest.mark.parametrize("how", ["with", "runtime"])
def test_a_close_says_what_it_waits_for(child, client, program, how):
    if how == "with":
        code = _CLIENTS[client] + f"with client:\n    start({program}).block_until_ready()\n"
    else:
        code = _RUNTIME[client] + f"start({program}).block_until_ready()\n"
    process = child(code)
    process.expect("start")
    process.interrupt(busy=0.3)
    process.expect_error("devrt: waiting for program 'endless' on ", ":0 to end", "Ctrl-C")
    process.interrupt()
    assert process.end() == -signal.SIGINT


@both
def test_an_exit_that_waits_says_so_without_being_requested(child, client):
    process = child(_RUNTIME[client] + "y = start(LARGE)\nsay('end')\n")
    process.expect("start")
    process.expect("end")
    process.expect_error("devrt: waiting for program 'endless' on ", ":0 to end")
    process.interrupt()
    assert process.end() == -signal.SIGINT


@both
def test_a_processs_own_handlers_stay_in_force(child, client):
    code = (
        _CLIENTS[client]
        + """
class Stopped(Exception): pass
def stop(*_): raise Stopped
handled = []
signal.signal(signal.SIGINT, lambda *_: handled.append(say("handled")))
say("compile")
for n in range(1000):  # a fast machine ends one before the signal comes
    client.compile_and_load(SECONDS.replace("@tall", f"@tall{n}"))
    if handled:
        break
say(works())
signal.signal(signal.SIGINT, stop)
say("again")
try:
    client.compile_and_load(LONG)
except Stopped:
    say("stopped")
"""
    )
    process = child(code)
    process.expect("compile")
    process.interrupt(busy=0.3)
    for line in ("handled", "True", "again"):
        process.expect(line)
    process.interrupt(busy=0.3)
    process.expect("stopped")
    assert (process.end(), process.errors()) == (0, "")


@both
def test_an_interrupt_that_is_ignored_changes_nothing(child, client):
    process = child(
        _CLIENTS[client]
        + "say('compile'); client.compile_and_load(SECONDS); say(works()); say('end')\n",
        handler="signal.SIG_IGN",
    )
    process.expect("compile")
    process.interrupt(busy=0.2)
    process.expect("True")
    process.expect("end")
    assert (process.end(), process.errors()) == (0, "")

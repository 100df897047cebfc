"""Child processes that try plugins: how many there are, and what becomes of them on Ctrl-C."""

import os
import signal
import subprocess
import sys
import time

import pytest

ASKS = """
import os
with open({notes!r}, "a") as file:
    file.write("x")
import devrt
devrt.devices()
"""


def test_a_plugin_that_asks_devrt_while_imported_starts_no_chain_of_children(
    plugins, run_python, tmp_path
):
    notes = tmp_path / "notes"
    plugins.add("one")
    path = plugins.path / "fake_one_plugin.py"
    path.write_text(ASKS.format(notes=str(notes)) + path.read_text())
    code = "import devrt\ntry: devrt.devices()\nexcept devrt.errors.DevrtError as e: print(e)"
    run_python("-c", code, path=[plugins.path], DEVRT_PROBE="isolated", DEVRT_INIT_TIMEOUT="20")
    assert len(notes.read_text()) <= 3, "once here, once in the child, and once as the child's own"


def test_a_recorded_module_that_asks_devrt_starts_no_chain_of_children(
    wheels, run_python, tmp_path
):
    notes = tmp_path / "notes"
    asks = f"open({str(notes)!r}, 'a').write('x'); import devrt; devrt.devices()"
    wheels.register("'zip', library_path=library", asks)
    code = "import devrt\ntry: devrt.devices()\nexcept devrt.errors.DevrtError as e: print(e)"
    run_python("-c", code, path=[wheels.path], DEVRT_CACHE_DIR=str(tmp_path / "other"))
    assert notes.read_text() == "x"


INTERRUPTED = """
import sys
from devrt.plugins import Callbacks, PluginRegistry, discover_plugins
print("started", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
RECORD = (
    "from devrt.probing.entries import run_entries; "
    "PluginRegistry(discover_plugins, Callbacks(run_entries=run_entries)).settle()"
)
PROBE = (
    "from devrt.probing.isolated import *; "
    "probe_all([ProbeRequest(ref, Level.LOAD, 30.0) for ref in discover_plugins()])"
)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("what", ["record", "probe"])
def test_ctrl_c_ends_children_that_hang(wheels, plugins, tmp_path, what):
    hang = "open({!r} + str(os.getpid()), 'w'); import time; time.sleep(600)"
    notes = tmp_path / "notes"
    notes.mkdir()
    hang = hang.format(f"{notes}/")
    for name in ("one", "two"):
        if what == "record":
            module = f"{name}_jax"
            wheels.register(before=hang, entry=name, module=module, name=f"{name}-wheel")
        else:
            plugins.add(name, f"import os; {hang}")
    code = INTERRUPTED.format(work=RECORD if what == "record" else PROBE)
    environ = os.environ | {"PYTHONPATH": str(wheels.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        try:
            while len(list(notes.iterdir())) < 2:
                assert process.poll() is None
                time.sleep(0.02)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert output.split() == ["started", "interrupted"]
    assert time.monotonic() - began < 15, "it waited for its children's deadline"
    for path in notes.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


TO_ANOTHER_THREAD = """
import os, signal, subprocess, threading
from devrt.probing.parallel import side_by_side

def work(item, children):
    with subprocess.Popen(["sleep", "20"], start_new_session=True) as child:
        with children.holding(child):
            all_hold.wait()
            if item == 1:
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            say(child.wait())

def say(what):
    os.write(1, f"{what}\\n".encode())  # at once: the lines of threads stay apart

all_hold = threading.Barrier(2)
try:
    side_by_side(work, [1, 2], "work")
except KeyboardInterrupt:
    say("interrupted")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_that_does_not_wake_the_waiting_thread_ends_the_children(run_python):
    printed = run_python("-c", TO_ANOTHER_THREAD).stdout.split()
    assert sorted(printed) == ["-9", "-9", "interrupted"]

"""Forks: a child that uses its parent's clients gets an error at once, and nothing hangs."""

import os

import pytest

pytest.importorskip("devrt_acme")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not on this system")


@pytest.fixture
def printed(run_python):
    """Return what a program prints that must end well."""

    def run(program):
        done = run_python("-c", program)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


HEAD = """
import os, sys, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of any fork beside threads
import devrt
from devrt.errors import ForkedError

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            print(work(), flush=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status

def refused(use):
    try:
        use()
    except ForkedError as error:
        return f"refused: {'spawn' in str(error)} {error.platforms}"
    return "used"
"""


def test_a_child_of_an_initialised_runtime_is_reported_to_spawn(printed):
    out = printed(
        HEAD
        + """
parent = devrt.devices("acme")
in_child(lambda: refused(lambda: devrt.devices("acme")))
devrt.config.update("platforms", "acme")
devrt.devices()
in_child(lambda: refused(lambda: devrt.devices()))
print(devrt.devices("acme") == parent)
"""
    )
    assert out.splitlines() == ["refused: True ('acme',)"] * 2 + ["True"]


def test_a_child_forked_before_the_first_use_works(printed):
    out = printed(
        HEAD
        + """
devrt.default_runtime()
devrt.config.read("platforms")
in_child(lambda: len(devrt.devices("acme")))
print(len(devrt.devices("acme")))
"""
    )
    assert out.split() == ["2", "2"]


def test_a_child_that_exits_normally_closes_nothing_and_does_not_hang(printed):
    out = printed(
        HEAD
        + """
devrt.devices("acme")
pid = os.fork()
if pid == 0:
    sys.exit(7)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), devrt.get_backend("acme").is_closed)
"""
    )
    assert out.split() == ["7", "False"]


def test_multiprocessing_with_spawn_works(printed, tmp_path):
    script = tmp_path / "spawning.py"
    script.write_text(
        """
import multiprocessing

def count(_):
    import devrt
    return devrt.device_count("acme")

if __name__ == "__main__":
    import devrt
    devrt.devices("acme")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(count, [0]))
"""
    )
    assert printed(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')") == "[2]\n"


HELD = """
import signal, threading
devrt.devices("acme")
registry = devrt.default_runtime().plugins
discover, inside, leave = registry._discover, threading.Event(), threading.Event()

def slow():
    inside.set()
    assert leave.wait(60)
    return discover()

registry._discover = slow
registry.refresh()
holder = threading.Thread(target=registry.refs)
holder.start()
assert inside.wait(60)
registry._discover = discover  # the child finds what there is by itself

def ask(use):
    signal.alarm(30)  # its default action ends a child that hangs
    return refused(use)
"""


@pytest.mark.parametrize(
    "use",
    [
        "devrt.devices('acme')",
        "devrt.devices()",
        "devrt.backends()",
        "devrt.default_runtime().default_device()",
        "devrt.default_runtime().make_client('acme')",
    ],
)
def test_a_child_is_reported_though_a_thread_of_its_parent_held_the_tables(printed, use):
    out = printed(f"{HEAD}{HELD}\nin_child(lambda: ask(lambda: {use}))\nleave.set()\nholder.join()")
    assert out.splitlines() == ["refused: True ('acme',)"]


def test_a_child_may_list_plugins_though_a_thread_of_its_parent_held_the_tables(printed):
    out = printed(
        HEAD
        + HELD
        + """
in_child(lambda: ask(lambda: (registry.refs(), registry.refresh())))
leave.set()
holder.join()
"""
    )
    assert out.splitlines() == ["used"]

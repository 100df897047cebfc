"""Forks in the middle of another thread's import: the child learns what it lost, or works."""

import os

import pytest

pytest.importorskip("devrt_acme")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is not on this system")

HEAD = """
import importlib, os, signal, sys, threading, warnings
from importlib.machinery import PathFinder
warnings.simplefilter("ignore")  # Python 3.12 warns of any fork beside threads
import devrt

def in_child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # its default action ends a child that hangs
        try:
            print(work(), flush=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    return "waited for"

def reported(use, lost):
    try:
        return use()
    except Exception as error:
        words = all(word in str(error) for word in ("spawn", f"{os.getppid()} ", repr(lost)))
        return f"{type(error).__name__} {words} {lost in getattr(error, 'modules', [lost])}"

class Halfway:
    '''Another thread that stands still in the import of a module, until the end of a block.'''

    def __init__(self, module, use):
        self.module, self.inside, self.leave = module, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=use)

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def slowly(module):
            self.inside.set()
            assert self.leave.wait(120)
            execute(module)

        spec.loader.exec_module = slowly
        return spec

    def __enter__(self):
        sys.meta_path.insert(0, self)
        self.thread.start()
        assert self.inside.wait(120)
        sys.meta_path.remove(self)  # the child imports as ever

    def __exit__(self, *raised):
        self.leave.set()
        self.thread.join()
"""


@pytest.fixture
def printed(run_python, plugins):
    """Return the lines that a program prints, which must end well."""

    def run(program, **environ):
        done = run_python("-c", HEAD + program, path=[plugins.path], **environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture
def dragging(plugins):
    """Write a module of a user's own."""
    (plugins.path / "dragging.py").write_text("done = True\n")


@pytest.mark.parametrize(
    ("module", "needed", "error"),
    [
        ("devrt.runtime", "devrt.runtime", "ForkedError"),
        ("devrt.runtime.current", "devrt.runtime.queries", "ForkedError"),
        ("devrt.errors", "devrt.runtime.queries", "RuntimeError"),
    ],
)
def test_a_child_forked_in_the_first_use_is_reported_what_it_lost(printed, module, needed, error):
    out = printed(
        f"""
use = lambda: devrt.devices("acme")
with Halfway({module!r}, use):
    in_child(lambda: reported(use, {needed!r}))
    in_child(lambda: in_child(lambda: reported(use, {needed!r}).partition(" ")[0]))
print(len(use()))
"""
    )
    assert out == [f"{error} True True", error, "waited for", "2"]


def test_a_child_is_reported_that_a_library_of_devrts_was_being_imported(printed):
    out = printed(
        """
import devrt.errors
with Halfway("pluggy", lambda: importlib.import_module("pluggy")):
    in_child(lambda: reported(lambda: devrt.devices("acme"), "pluggy"))
print(len(devrt.devices("acme")))
"""
    )
    assert out == ["ForkedError True True", "2"]


def test_a_child_works_where_what_was_being_imported_is_not_needed(printed, dragging):
    out = printed(
        """
with Halfway("dragging", lambda: importlib.import_module("dragging")):
    in_child(lambda: len(devrt.devices("acme")))
    in_child(lambda: reported(lambda: importlib.import_module("dragging"), "dragging"))
print(importlib.import_module("dragging").done)
"""
    )
    assert out == ["2", "ForkedError True True", "True"]


def test_a_plugin_that_was_being_imported_is_lost_and_the_others_are_not(printed, plugins):
    module = plugins.add("slow")
    out = printed(
        f"""
with Halfway({module!r}, lambda: devrt.devices("slow")):
    in_child(lambda: reported(lambda: devrt.devices("slow"), {module!r}))
    in_child(lambda: len(devrt.devices("acme")))
print(len(devrt.devices("slow")))
"""
    )
    assert out == ["ForkedError True True", "2", "2"]


@pytest.mark.parametrize(
    "plugin",
    [
        {"extra": "import dragging"},
        {"probe": "import dragging; return Available('simulated')"},
        {"make": "import dragging; return AcmeClient(2)"},
    ],
    ids=["module", "probe", "factory"],
)
def test_a_plugin_is_not_blamed_for_what_its_process_lost(printed, plugins, dragging, plugin):
    plugins.add("needy", priority=1000, **plugin)
    out = printed(
        """
with Halfway("dragging", lambda: importlib.import_module("dragging")):
    in_child(lambda: reported(devrt.devices, "dragging"))
""",
        DEVRT_PLATFORMS="needy,acme",
    )
    assert out == ["ForkedError True True"]


def test_an_import_that_another_thread_is_about_to_begin_or_end_is_lost(printed, dragging):
    out = printed(
        """
lock = importlib._bootstrap._get_module_lock("dragging")
taken, leave = threading.Event(), threading.Event()

def hold():
    with lock.lock:
        taken.set()
        assert leave.wait(120)

holder = threading.Thread(target=hold)
holder.start()
assert taken.wait(120)
in_child(lambda: reported(lambda: importlib.import_module("dragging"), "dragging"))
leave.set()
holder.join()
print(importlib.import_module("dragging").done)
"""
    )
    assert out == ["ForkedError True True", "True"]


def test_a_child_goes_on_with_its_own_import(printed, plugins):
    (plugins.path / "forking.py").write_text(
        "import __main__\n__main__.in_child(__main__.again)\ndone = True\n"
    )
    out = printed(
        """
def again():
    import forking
    return hasattr(forking, "done"), len(devrt.devices("acme"))

import forking
print(forking.done)
"""
    )
    assert out == ["(False, 2)", "True"]

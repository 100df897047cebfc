"""Isolated probes: what a child reports, and that it leaves nothing behind in this process."""

import concurrent.futures
import gc
import os
import signal
import sys
import time

import pytest

from devrt.plugins import PluginRef
from devrt.probing.isolated import (
    Level,
    ProbeReport,
    ProbeRequest,
    probe_all,
    probe_isolated,
)
from devrt.probing.replying import MAX_LINE
from support import shared_library

CRASH = "import os; os.abort()"


@pytest.fixture
def probe(plugins):
    def run(platform="one", level=Level.CLIENT, timeout=60, **options):
        return probe_isolated(plugins.ref(platform), level, timeout=timeout, options=options)

    return run


def open_descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def has_children():
    """Return whether this process has a child, be it a dead one."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def test_a_good_plugin_says_what_it_is(plugins, probe):
    plugins.add("one", priority=7, aliases=("first",), experimental=True)
    report = probe()
    assert (report.outcome, report.phase, report.detail) == ("ok", "client", "")
    assert report.is_ok
    facts = {
        "serves": True,
        "priority": 7,
        "aliases": ["first"],
        "experimental": True,
        "fail_quietly": False,
        "detail": "simulated",
        "device_count": 2,
        "device_kinds": ["Acme Simulator 1"],
    }
    assert facts.items() <= dict(report.facts).items()


def test_metadata_runs_nothing(plugins, probe):
    plugins.add("one", CRASH)
    assert probe(level=Level.METADATA) == ProbeReport("ok", "start")


def test_load_makes_no_client(plugins, probe):
    plugins.add("one", make=CRASH)
    report = probe(level=Level.LOAD)
    assert (report.outcome, report.phase) == ("ok", "probe")
    assert probe().outcome == "signal"


def test_unavailable_is_a_value(plugins, probe):
    plugins.add("one", probe="return Unavailable('no card', 'Buy one.')")
    report = probe()
    assert (report.outcome, report.detail) == ("unavailable", "no card")
    assert report.facts["remedy"] == "Buy one."


def test_unavailable_without_a_reason_is_unavailable(plugins, probe):
    plugins.add("one", probe="return Unavailable('', '')")
    assert probe().outcome == "unavailable"


def test_options_reach_the_factory_from_the_call_and_the_environment(plugins, probe, monkeypatch):
    options = "(OptionSpec(name='num_parts', type=int, default=3),)"
    plugins.add("one", make="return AcmeClient(context.options['num_parts'])", options=options)
    assert probe().facts["device_count"] == 3
    monkeypatch.setenv("DEVRT_NUM_PARTS", "4")
    assert probe().facts["device_count"] == 4
    assert probe(num_parts=5, other=object()).facts["device_count"] == 5
    monkeypatch.setenv("DEVRT_NUM_PARTS", "many")
    report = probe()
    assert (report.outcome, "device_count" in report.facts) == ("ok", False), "no client is made"
    assert report.facts["refused"] == [
        "environment variable DEVRT_NUM_PARTS: option 'num_parts' takes a whole number, not 'many'."
    ]


def test_the_child_looks_where_the_parent_looks(plugins, probe, monkeypatch, tmp_path):
    # Neither the current folder nor PYTHONPATH may put another module in the plugin's place.
    module = plugins.add("one")
    (tmp_path / f"{module}.py").write_text("raise AssertionError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert probe(level=Level.LOAD).outcome == "ok"


def test_a_plugin_that_only_adds_serves_nothing(plugins, probe):
    plugins.add(
        "one",
        """
        from devrt.hookspecs import hookimpl
        from devrt.records import MemoryKind
        @hookimpl
        def devrt_memory_kinds():
            return [MemoryKind(platform="two", kind="slow")]
        """,
    )
    report = probe()
    assert report.is_ok
    assert report.facts["serves"] is False
    assert report.facts["memory_kinds"] == ["two:slow"]


def test_records_too_large_to_tell(plugins, probe):
    plugins.add("one", aliases=("x" * MAX_LINE,))
    report = probe(level=Level.LOAD)
    assert (report.outcome, report.facts["kind"]) == ("raised", "contract")


def test_a_signal_from_elsewhere_is_named(plugins, probe):
    plugins.add("one", probe="import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    report = probe()
    assert (report.outcome, report.detail, report.phase) == ("signal", "SIGTERM", "probe")
    assert report.sentence() == "was killed by SIGTERM in its probe"


def test_the_last_lines_are_kept_and_harmless(plugins, probe):
    noise = "import sys\nfor i in range(100_000): print('line', i)\nprint('a\\0b\\x1b[2Jc')\n"
    plugins.add("one", noise + CRASH)
    report = probe()
    lines = report.output.splitlines()
    assert "line 99999" in lines
    assert "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[2Jc" in lines
    assert len(report.output) < 10_000


# -- what is left behind --------------------------------------------------------------------------

ENDS = {
    "good": "",
    "crash": CRASH,
    "exit": "import os; os._exit(1)",
    "raise": "raise OSError",
    "grandchild": (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], close_fds=False)"
    ),
}


def test_no_descriptor_and_no_process_is_left(plugins):
    for name, code in ENDS.items():
        module = plugins.add(name)
        path = plugins.path / f"{module}.py"
        path.write_text(f"{code}\n{path.read_text()}")
    requests = [ProbeRequest(ref, Level.LOAD, 60) for ref in plugins.refs()]
    gc.collect()
    before, had_children = open_descriptors(), has_children()
    outcomes = {
        r.ref.platform: p.outcome for r, p in zip(requests, probe_all(requests), strict=True)
    }
    assert open_descriptors() == before
    assert outcomes == {
        "good": "ok",
        "crash": "signal",
        "exit": "exited",
        "raise": "raised",
        "grandchild": "ok",
    }
    assert has_children() == had_children


def test_what_is_stopped_is_stopped_with_its_children(plugins, probe, tmp_path):
    notes = tmp_path / "notes"
    source = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(notes)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
while True: time.sleep(60)
"""
    plugins.add("one", source)
    report = probe(timeout=8)
    assert (report.outcome, report.phase, report.detail) == ("timeout", "load", "8 s")
    for pid in map(int, notes.read_text().split()):
        assert is_gone(pid)


def is_gone(pid):
    """Return whether a process ended; a grandchild's reaper may need a moment."""
    for _ in range(1000):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_it_does_not_outlive_a_parent_that_is_killed(plugins, tmp_path, run_python):
    notes = tmp_path / "notes"
    source = f"""
import os, signal, time
open({str(notes)!r}, "w").write(str(os.getpid()))
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""
    plugins.add("one", source)
    code = (
        "from devrt.plugins import installed_plugins\n"
        "from devrt.probing.isolated import *\n"
        f"ref, = [r for r in installed_plugins([{str(plugins.path)!r}])]\n"
        "probe_isolated(ref, Level.LOAD, timeout=600)\n"
    )
    result = run_python("-c", code, path=[plugins.path])
    assert result.returncode == -signal.SIGKILL
    assert is_gone(int(notes.read_text()))


def test_no_core_file(plugins, probe, tmp_path):
    notes = tmp_path / "notes"
    plugins.add(
        "one",
        f"import resource; open({str(notes)!r}, 'w').write("
        "str(resource.getrlimit(resource.RLIMIT_CORE)[0]))\n" + CRASH,
    )
    probe()
    assert notes.read_text() == "0"


def test_several_threads_at_once(plugins):
    plugins.add("good")
    plugins.add("bad", CRASH)
    refs = [plugins.ref("good"), plugins.ref("bad")] * 6
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda ref: probe_isolated(ref, Level.LOAD, timeout=120), refs))
    assert [report.outcome for report in found] == ["ok", "signal"] * 6


def test_answers_come_in_the_order_of_the_questions(plugins):
    plugins.add("slow", "import time; time.sleep(0.5); raise OSError('slow')")
    plugins.add("fast", "raise OSError('fast')")
    for names in (("slow", "fast"), ("fast", "slow")):
        found = probe_all([ProbeRequest(plugins.ref(name), Level.LOAD, 60) for name in names])
        assert [report.detail.rpartition("OSError: ")[2].split(".")[0] for report in found] == list(
            names
        )


# -- when there can be no child -------------------------------------------------------------------


def test_without_an_interpreter_it_is_a_verdict(plugins, probe, monkeypatch):
    plugins.add("one")
    for executable, words in ((None, "sys.executable"), ("/no/such/python", "FileNotFoundError")):
        monkeypatch.setattr(sys, "executable", executable)
        before = open_descriptors()
        report = probe()
        assert (report.outcome, report.phase) == ("raised", "start")
        assert words in report.detail
        assert open_descriptors() == before


def test_an_interpreter_that_cannot_start_devrt_is_a_verdict(plugins, probe, monkeypatch):
    plugins.add("one")
    monkeypatch.setattr(sys, "path", [])
    report = probe()
    assert (report.outcome, report.phase, report.facts) == ("raised", "start", {"kind": "start"})
    assert "No module named" in report.detail


def test_a_request_too_large_for_a_pipe_is_a_verdict(plugins, probe):
    plugins.add("one")
    before = open_descriptors()
    report = probe(text="x" * (1 << 20))
    assert (report.outcome, report.phase) == ("raised", "start")
    assert "does not fit" in report.detail
    assert open_descriptors() == before


def test_a_process_that_ignores_its_children(plugins, run_python):
    plugins.add("one")
    code = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from devrt.plugins import installed_plugins\n"
        "from devrt.probing.isolated import *\n"
        f"ref, = [r for r in installed_plugins([{str(plugins.path)!r}])]\n"
        "print(probe_isolated(ref, Level.LOAD, timeout=60).outcome)\n"
    )
    assert run_python("-c", code, path=[plugins.path]).stdout == "ok\n"


# -- PJRT libraries -------------------------------------------------------------------------------

LIBRARIES = {
    "api": (
        "long api[40] = {sizeof api, 0, 24, 0, 0x7500000000 | 3};void *GetPjrtApi() {return api;}"
    ),
    "null": "void *GetPjrtApi() {return 0;}",
    "none": "int other;",
    "crash": "void *GetPjrtApi() {__builtin_trap();}",
    "at_open": "__attribute__((constructor)) void f() {__builtin_trap();}",
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Compile small libraries; skip where there is no C compiler."""
    folder = tmp_path_factory.mktemp("libraries")
    for name, source in LIBRARIES.items():
        shared_library(folder / f"{name}.so", source, "-w")
    return folder


def probe_library(path):
    ref = PluginRef("lib", "(environment)", library=str(path))
    return probe_isolated(ref, Level.LOAD, timeout=60)


def test_a_library_says_its_version(libraries):
    report = probe_library(libraries / "api.so")
    assert report.facts["pjrt_version"] == [3, 117]
    assert report.facts["pjrt_api_size"] == 320


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [
        ("null", "raised", "returned nothing"),
        ("none", "raised", "exports no function GetPjrtApi"),
        ("missing", "raised", "there is no file"),
        ("crash", "signal", "SIG"),
        ("at_open", "signal", "SIG"),
    ],
)
def test_a_library_that_is_none(libraries, name, outcome, words):
    report = probe_library(libraries / f"{name}.so")
    assert (report.outcome, report.phase) == (outcome, "load")
    assert words in report.detail


def test_a_file_that_is_no_library(tmp_path):
    (tmp_path / "text.so").write_text("text")
    assert probe_library(tmp_path / "text.so").outcome == "raised"


OPEN = """
import devrt
try:
    devrt.devices("lib")
except devrt.errors.BackendUnavailableError as error:
    print(" ".join(str(error).split()))
"""


def test_a_library_is_opened_in_a_child_before_it_is_opened_here(
    plugins, add_loader, libraries, run_python
):
    """One that the environment names is a plugin too, and ends what opens it."""
    add_loader("PjrtLoader(make_client=make_client, check=__import__('ctypes').CDLL)")
    environ = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"lib:{libraries / 'at_open.so'}"}
    assert run_python("-c", OPEN, path=[plugins.path], **environ).returncode < 0
    result = run_python("-c", OPEN, path=[plugins.path], DEVRT_PROBE="isolated", **environ)
    assert result.returncode == 0, result.stderr
    assert "was killed by SIG" in result.stdout
    assert "while it was loaded" in result.stdout

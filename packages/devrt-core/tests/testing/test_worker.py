"""What a plugin does to the process is the result of the case that ran, and of no other."""

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import devrt
from devrt._config.layers import Config
from devrt.cli import main
from devrt.errors import InvalidArgumentError
from devrt.testing.conformance import Report, Status, Worker, all_cases, clock, conform
from devrt.testing.conformance.cases.memory import bound_address_space

pytest.importorskip("devrt_acme", reason="needs the example backend")

BEFORE = "load.ids_are_unique_and_ordered"
SPOILED = "load.local_devices_are_among_them"
"""The only case that calls ``local_device_count``, in which the plugins of these tests do wrong."""
AFTER = "load.devices_are_the_same_objects"

WRONG = """
import os, signal, subprocess, sys, time
def wrong(self):
    {code}
    return 2
AcmeClient.local_device_count = wrong
return AcmeClient(2)
"""


def spoil(plugins, code):
    """Install a plugin that runs ``code`` in one case; return its reference."""
    text = WRONG.format(code=code.strip().replace("\n", "\n    "))
    plugins.add("one", make=text.strip().replace("\n", "\n    "))
    return plugins.ref("one")


def run(worker, name, deadline=60.0):
    (case,) = [case for case in all_cases() if case.id == name]
    return worker.run(dataclasses.replace(case, deadline=deadline))


CLOSE_ALL = "for d in range(200):\n    try: os.close(d)\n    except OSError: pass"
OTHER_PIPE = "for d in range(3, 40):\n    try: os.fstat(d); os.dup2(1, d)\n    except OSError: pass"


@pytest.mark.parametrize(
    ("code", "status", "came"),
    [
        ("os._exit(3)", Status.CRASHED, "ended with exit code 3 in the case"),
        ("os._exit(0)", Status.CRASHED, "ended with exit code 0 in the case"),
        ("os.abort()", Status.CRASHED, "killed by SIGABRT in the case"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Status.CRASHED, "killed by SIGSEGV"),
        ("sys.exit(2)", Status.FAILED, "SystemExit: 2"),
        ("raise KeyboardInterrupt", Status.FAILED, "KeyboardInterrupt"),
        ("def again(): again()\nagain()", Status.FAILED, "RecursionError"),
        ("raise ValueError('v' * 500_000)", Status.FAILED, "(500012 characters)"),
        (r"raise ValueError('\udcff')", Status.FAILED, r"ValueError: \udcff"),
        ("raise ValueError('no such thing')", Status.FAILED, "ValueError: no such thing"),
        (CLOSE_ALL, Status.CRASHED, "descriptor of the results was closed or replaced"),
        (OTHER_PIPE, Status.CRASHED, "descriptor of the results was closed or replaced"),
    ],
)
def test_the_end_of_the_process_is_that_of_the_case(plugins, code, status, came):
    with Worker(spoil(plugins, code)) as worker:
        first, spoiled, after = (run(worker, name) for name in (BEFORE, SPOILED, AFTER))
        late = worker.late
    assert (first.status, after.status, late) == (Status.PASSED, Status.PASSED, [])
    assert spoiled.status is status
    assert came in spoiled.came
    assert spoiled.expected == spoiled.title


@pytest.mark.parametrize(
    "code",
    [
        "sys.stdout.write('{}\\\\n' * 9); os.write(1, b'\\\\xff' * 999); print(sys.stdin.read())",
        "sys.stderr.write('x' * 3_000_000); os.write(2, b'y\\\\n' * 300_000)",
        "os.fork()",
        "os.fork() or os._exit(5)",
        "subprocess.Popen(['sleep', '600'])",
        "os.close(0); os.close(1); os.close(2)",
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, print)",
        "sys.stdout = sys.stderr = None",
        "os.chdir('/')",
    ],
)
def test_what_leaves_the_results_alone_fails_no_case(plugins, code):
    with Worker(spoil(plugins, code)) as worker:
        results = [run(worker, name) for name in (BEFORE, SPOILED, AFTER)]
        late = worker.late
    assert [(result.status, result.came) for result in results] == [(Status.PASSED, "")] * 3
    assert late == []


def test_a_case_that_does_not_end_is_ended_at_its_deadline(plugins):
    ignoring = "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)"
    code = f"{ignoring}\nsubprocess.Popen(['sleep', '600'])\nprint('waits', flush=True)\n"
    with Worker(spoil(plugins, f"{code}while True: time.sleep(60)")) as worker:
        run(worker, BEFORE)
        spoiled = run(worker, SPOILED, deadline=1.0)
        assert run(worker, AFTER).status is Status.PASSED
    assert spoiled.status is Status.TIMED_OUT
    assert (spoiled.came, spoiled.seconds) == ("it did not finish within 1 s, in the case", 1.0)
    assert spoiled.output == "waits"


def test_programs_are_not_kept_in_the_users_cache(plugins, tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    monkeypatch.setenv("DEVRT_COMPILATION_CACHE_DIR", str(mine))
    code = "import devrt; raise ValueError(devrt.config.read('compilation_cache_dir'))"
    with Worker(spoil(plugins, code)) as worker:
        folder = run(worker, SPOILED).came.removeprefix("ValueError: ")
        assert os.path.isdir(folder)
        assert folder != str(mine)
    assert not os.path.exists(folder)


def test_what_was_printed_before_the_failure_is_in_the_result(plugins):
    code = "print('on standard output'); os.write(2, b'last words'); raise ValueError('wrong')"
    with Worker(spoil(plugins, code)) as worker:
        spoiled, after = run(worker, SPOILED), run(worker, AFTER)
    assert spoiled.output.startswith("on standard output")
    assert "last words" in spoiled.output
    assert "ValueError: wrong" in spoiled.output
    assert after.output == ""


def test_the_stack_of_a_crash_is_in_the_result(plugins):
    with Worker(spoil(plugins, "os.kill(os.getpid(), signal.SIGSEGV)")) as worker:
        assert "Fatal Python error: Segmentation fault" in run(worker, SPOILED).output


def test_a_child_that_ends_after_its_case_is_a_new_result_of_that_case(plugins):
    code = "import threading; threading.Timer(0.1, os._exit, (7,)).start()"
    with Worker(spoil(plugins, code)) as worker:
        run(worker, BEFORE)
        assert run(worker, SPOILED).status is Status.PASSED
        worker._child.process.wait(60)
        assert run(worker, AFTER).status is Status.PASSED
        (late,) = worker.late
    assert (late.id, late.status) == (SPOILED, Status.CRASHED)
    assert late.came == "the process ended with exit code 7 when the case was over"


ALONE = "memory.closed_client_refuses"


def next_is_alone(worker):
    assert run(worker, ALONE).status is Status.PASSED


def next_is_the_description(worker):
    assert worker.describe()["device_count"] == 2


@pytest.mark.parametrize("after", [next_is_alone, next_is_the_description, Worker.close])
@pytest.mark.parametrize("code", ["7", "0"])
def test_a_late_end_is_seen_whatever_comes_next(plugins, after, code):
    timer = f"import threading; threading.Timer(0.1, os._exit, ({code},)).start()"
    with Worker(spoil(plugins, timer)) as worker:
        run(worker, SPOILED)
        worker._child.process.wait(60)
        after(worker)
        (late,) = worker.late
    assert (late.id, late.status) == (SPOILED, Status.CRASHED)
    assert late.came == f"the process ended with exit code {code} when the case was over"


def test_a_child_that_waited_for_a_processor_has_as_much_more_time(plugins, monkeypatch):
    queued = itertools.count(0, 60)
    with Worker(spoil(plugins, "time.sleep(2)")) as worker:
        run(worker, BEFORE)
        monkeypatch.setattr(clock, "queued_by", lambda process: {process: next(queued)})
        assert run(worker, SPOILED, deadline=0.5).status is Status.PASSED


@pytest.mark.parametrize("value", ["fast", "0", "nan"])
def test_a_wrong_budget_is_the_callers_mistake(monkeypatch, value):
    monkeypatch.setenv("DEVRT_CONFORM_LATENCY", value)
    with pytest.raises(InvalidArgumentError, match=f"DEVRT_CONFORM_LATENCY is '{value}'"):
        conform("acme", "load")


def test_a_wrong_budget_is_no_error_of_the_list(monkeypatch):
    monkeypatch.setenv("DEVRT_CONFORM_LATENCY", "fast")
    done = CliRunner().invoke(main, ["conform", "--list", "--level", "load"])
    assert done.exit_code == 0
    assert "load.probe_answers" in done.stdout


def test_the_kits_own_variables_are_no_misspelt_options():
    own = {"DEVRT_CONFORM_LATENCY": "60", "DEVRT_CONFORM_TOPOLOGY": "v5e:2x2"}
    assert Config(own | {"DEVRT_CONFORM_LATENZY": "60"}).unread() == ("DEVRT_CONFORM_LATENZY",)


def test_memory_is_not_bounded_where_the_system_does_not_say_what_is_in_use(tmp_path):
    resource = pytest.importorskip("resource", reason="needs limits of the system")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    bound_address_space(str(tmp_path / "statm"))
    assert resource.getrlimit(resource.RLIMIT_AS) == limits


def test_a_platform_that_is_not_here_is_not_applicable(plugins):
    plugins.add("one", probe="return Unavailable('no card', 'Buy one.')")
    report = conform("one", cases=["load.probe_answers", BEFORE])
    assert [result.status for result in report.results] == [Status.PASSED, Status.NOT_APPLICABLE]
    assert "no card. Buy one." in report.results[1].reason
    assert report.verdict().endswith("1 are not applicable; its client cannot be made here")


def test_where_a_platform_is_not_here_only_the_plugin_is_held_to_the_contract(plugins):
    plugins.add("one", probe="return Unavailable('no card', 'Buy one.')")
    levels = ("memory", "distributed")
    names = [case.id for case in all_cases() if case.level in levels or "closing" in case.id]
    report = conform("one", cases=["load.probe_answers", *names])
    assert [(result.id, result.came) for result in report.failures] == []
    assert report.ok
    (passed,) = [found.id for found in report.results if found.status is Status.PASSED]
    assert passed == "load.probe_answers"
    assert all("no card. Buy one." in reason for reason in report.not_applicable())


@pytest.mark.parametrize(
    ("make", "came"),
    [
        ("import os; os._exit(9)", "the process ended with exit code 9 while its client was made"),
        ("raise OSError('no card')", "BackendInitializationError"),
    ],
)
def test_a_client_that_cannot_be_made(plugins, make, came):
    plugins.add("one", make=make)
    with Worker(plugins.ref("one")) as worker:
        result = run(worker, BEFORE)
        assert run(worker, "load.probe_answers").status is Status.PASSED
    assert result.status.is_failure
    assert came in result.came


def test_a_client_that_is_never_made_is_waited_for_once(plugins):
    plugins.add("one", make="import time; time.sleep(600)")
    with Worker(plugins.ref("one"), client_deadline=1.0) as worker:
        first, second = run(worker, BEFORE), run(worker, AFTER)
        assert run(worker, "load.probe_answers").status is Status.PASSED
        described = worker.describe()
    assert (first.status, second.status) == (Status.TIMED_OUT, Status.FAILED)
    assert second.expected == "a client"
    assert second.came == f"none: in {BEFORE} {first.came}"
    assert "did not finish" in described["problem"]


def test_making_the_client_does_not_take_of_the_time_of_a_case(plugins):
    plugins.add("one", make="import time; time.sleep(6); return AcmeClient(2)")
    with Worker(plugins.ref("one")) as worker:
        assert run(worker, BEFORE, deadline=5.0).status is Status.PASSED


def test_the_manifest_says_how_long_the_client_may_take(plugins):
    text = 'schema = 1\n[[backend]]\nplatform = "one"\ninit_timeout = 1.5\n'
    plugins.package("one", text, make="import time; time.sleep(600)")
    with Worker(plugins.ref("one")) as worker:
        result = run(worker, BEFORE)
    assert (result.status, result.seconds) == (Status.TIMED_OUT, 1.5)
    assert result.came == "it did not finish within 1.5 s, while its client was made"


def test_the_user_s_option_says_so_before_the_manifest(plugins):
    text = 'schema = 1\n[[backend]]\nplatform = "one"\ninit_timeout = 60\n'
    plugins.package("one", text, make="import time; time.sleep(600)")
    with devrt.config.override(init_timeout=1.5), Worker(plugins.ref("one")) as worker:
        result = run(worker, BEFORE)
    assert (result.status, result.seconds) == (Status.TIMED_OUT, 1.5)


def test_without_child_processes_each_case_says_so(plugins, monkeypatch):
    plugins.add("one")
    monkeypatch.setattr(sys, "executable", "")
    report = conform("one", cases=[BEFORE])
    assert report.results[0].came.startswith("no child process could be started: the path of")


def test_a_plugin_whose_import_ends_the_process(plugins):
    plugins.add("one", "import os; os._exit(6)")
    with Worker(plugins.ref("one")) as worker:
        result = run(worker, "load.probe_answers")
    assert result.status is Status.CRASHED
    assert "exit code 6" in result.came


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process_behind(plugins, tmp_path, number):
    code = (
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(tmp_path / 'new')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(tmp_path / 'new')!r}, {str(tmp_path / 'pids')!r})\n"
        "time.sleep(600)"
    )
    spoil(plugins, code.replace("{", "{{").replace("}", "}}").format())
    report = tmp_path / "r.json"
    chosen = ["--case", BEFORE, "--case", SPOILED, "--report", str(report)]
    command = [sys.executable, "-m", "devrt", "conform", "one", *chosen]
    environ = os.environ | {"PYTHONPATH": str(plugins.path)}
    parent = subprocess.Popen(
        command,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells' jobs ignore it
    )
    try:
        until(lambda: (tmp_path / "pids").exists())
        parent.send_signal(number)
        printed, _ = parent.communicate(timeout=60)
    finally:
        parent.kill()
    pids = (tmp_path / "pids").read_text().split()
    until(lambda: not any(is_alive(pid) for pid in pids))
    assert parent.returncode == 128 + number
    assert f"ended early by {number.name}" in printed
    made = Report.load(report)
    assert [(found.id, found.status) for found in made.results] == [(BEFORE, Status.PASSED)]
    assert not made.ok


def is_alive(pid):
    """Return whether a process runs, be it not this one's child."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(true, seconds=60):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.02)


STARTS = """
import os, pathlib
from devrt.testing.conformance.processes import run_program
program = "import os, pathlib, sys, time; "
program += "pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
run_program(program, os.environ["PID_FILE"], timeout=600)
"""


def test_what_a_case_starts_ends_with_it_at_its_deadline(plugins, tmp_path, monkeypatch):
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))
    with Worker(spoil(plugins, STARTS)) as worker:
        for deadline in (2.0, 8.0, 32.0):  # until it has been started, on a busy machine too
            assert run(worker, SPOILED, deadline=deadline).status is Status.TIMED_OUT
            if (tmp_path / "pid").exists():
                break
    until(lambda: not is_alive((tmp_path / "pid").read_text()))

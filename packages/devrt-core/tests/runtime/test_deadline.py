"""Calls that hang are given up; nothing here waits for a clock to decide a result."""

import threading

import pytest

from devrt.errors import DeadlineExceededError
from devrt.runtime.deadline import call_with_deadline, warned_after


def refuse(value):
    raise AssertionError(value)


def test_without_a_deadline_it_runs_in_this_thread():
    assert call_with_deadline(threading.get_ident, None, refuse) == threading.get_ident()


def test_a_result_in_time_is_returned_and_an_error_raised():
    assert call_with_deadline(lambda: 3, 60, refuse) == 3
    with pytest.raises(ZeroDivisionError):
        call_with_deadline(lambda: 1 // 0, 60, refuse)


def test_what_comes_late_goes_to_its_clean_up():
    release, cleaned = threading.Event(), threading.Event()
    late = []

    def slow():
        assert release.wait(60)
        return "client"

    def clean(value):
        late.append(value)
        cleaned.set()

    with pytest.raises(DeadlineExceededError, match=r"0\.01 s"):
        call_with_deadline(slow, 0.01, clean)
    release.set()
    assert cleaned.wait(60)
    assert late == ["client"]


def test_a_warning_comes_while_waiting():
    warned = threading.Event()
    with warned_after(0.0, warned.set):
        assert warned.wait(60)
    with warned_after(None, refuse):
        pass
    never = threading.Event()
    with warned_after(3600, never.set):
        pass
    assert not never.is_set()


LATE = """
import threading
release = threading.Event()
from devrt.errors import DeadlineExceededError
from devrt.runtime import deadline

def slow():
    release.wait()
    return "client"

try:
    deadline.call_with_deadline(slow, 0.001, lambda late: print("discarded", late, flush=True))
except DeadlineExceededError:
    print("given up", flush=True)
{end}
"""


def test_the_exit_waits_for_a_thread_that_was_given_up(run_python):
    timer = "timer = threading.Timer(0.3, release.set); timer.daemon = True; timer.start()"
    done = run_python("-c", LATE.format(end=timer))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["given up", "discarded client"]


def test_the_exit_goes_on_without_a_thread_that_does_not_end(run_python):
    done = run_python("-c", LATE.format(end="deadline._LAST_WAIT = 0.1"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["given up"]


def test_no_late_initialisation_aborts_the_exit(run_python):
    pytest.importorskip("devrt_cpu")
    program = (
        "import devrt\ntry:\n    devrt.devices()\n"
        "except devrt.errors.DevrtError as error:\n    print(type(error).__name__)\n"
    )
    for _ in range(8):
        done = run_python("-c", program, DEVRT_PLATFORMS="cpu", DEVRT_INIT_TIMEOUT="0.001")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_deadline_that_no_clock_holds_is_the_configurations_error(run_python):
    program = """
import devrt
try:
    devrt.devices("cpu")
except devrt.errors.ConfigError as error:
    print(error)
"""
    done = run_python("-c", program, DEVRT_INIT_TIMEOUT="1e300")
    assert "DEVRT_INIT_TIMEOUT" in done.stdout, done.stderr
    assert "at most" in done.stdout

"""What plugins write to standard error, and change in the process."""

import signal

import pytest

OTHERS = "somebody else's line\na question? "
LINES = [
    "INFO fake.cc:31] looking for devices",
    "WARNING fake/old.cc:7] an old warning",
    "ERROR fake.cc:9] it is broken",
]


def test_log_lines_are_kept_and_all_else_goes_on(child):
    done = child(
        """
c = client()
for line in library().log: print(line)
import sys; print("after", file=sys.stderr)
""",
        FAKE_LOG="lines",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == LINES
    assert done.stderr == OTHERS + "after\n"


def test_an_error_carries_the_lines(child):
    done = child(
        """
import pickle
error = raised(client)
print(*error.log, sep="\\n")
print(pickle.loads(pickle.dumps(error)).log == error.log)
""",
        FAKE_LOG="lines",
        FAKE_FAIL="Client_Create",
    )
    assert done.stdout.splitlines() == [*LINES, "True"]
    assert done.stderr == OTHERS


def test_lines_of_a_library_that_is_opened_are_kept(child):
    code = "for line in library().log: print(line)"
    done = child(code, FAKE_LOG="open")
    assert done.stdout.splitlines() == [
        "WARNING fake.cc:1] opened",
        "ERROR fake.cc:2] asked for the table",
    ]
    assert done.stderr == "not a log line\n"
    done = child("print(raised(library).log[1])", FAKE_LOG="open", FAKE_NO_TABLE=1)
    assert done.stdout == "ERROR fake.cc:2] asked for the table\n", done.stderr


def test_logging_gets_the_lines(child):
    done = child(
        """
import logging, sys
form = "%(name)s %(levelname)s %(message)s"
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=form)
client()
""",
        FAKE_LOG="lines",
    )
    assert "devrt_tpu.plugin WARNING fake: fake/old.cc:7] an old warning" in done.stdout


def test_at_level_debug_lines_appear_as_they_are_written(child):
    done = child(
        """
import logging
logging.getLogger("devrt_tpu.plugin").setLevel(logging.DEBUG)
c = client(); print(len(library().log))
""",
        FAKE_LOG="lines",
    )
    assert done.stdout == "0\n"
    assert "it is broken" in done.stderr


@pytest.mark.parametrize("length", [4095, 4096 - 12, 4096 - 12 - 20, 8192 - 12 - 50, 20000])
def test_a_line_of_any_length_is_no_end(child, length):
    done = child("client()\nprint('made')", FAKE_LOG="long", FAKE_LENGTH="x" * length)
    assert done.stdout == "made\n"
    assert done.stderr == OTHERS + "." * length


def test_a_process_that_dies_shows_what_was_kept(child):
    done = child("client()", FAKE_LOG="abort")
    assert done.returncode == -signal.SIGABRT
    for text in ("looking for devices", "it is broken", "somebody else's line", "a question?"):
        assert text in done.stderr


def test_a_child_process_may_write_after_the_capture(child):
    done = child(
        "import os\nc = client()\nprint(os.waitstatus_to_exitcode(os.wait()[1]))", FAKE_LOG="child"
    )
    assert done.stdout == "0\n", done.stderr
    assert done.stderr.endswith("late line of a child\n")


def test_many_captures_leave_nothing_behind(child):
    done = child(
        """
import os, threading, time
def counted(): return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
before = counted()
client()
def work():
    for _ in range(50): client().close()
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
deadline = time.monotonic() + 30
while counted() != before and time.monotonic() < deadline: time.sleep(0.01)
print(counted() == before or (before, counted()), flush=True)
os.abort()
"""
    )
    assert done.stdout == "True\n"
    assert done.returncode == -signal.SIGABRT


def test_a_capture_soon_after_another_keeps_its_lines(child):
    done = child(
        """
import sys
for _ in range(20):
    client().close(); print("between", file=sys.stderr, flush=True)
print(len(library().log))
""",
        FAKE_LOG="lines",
    )
    assert done.stdout == "60\n"
    assert done.stderr == (OTHERS + "between\n") * 20


def test_the_child_of_a_fork_after_a_capture_has_its_own(child):
    done = child(
        """
import os, sys, time
def counted(): return len(os.listdir("/proc/self/fd"))  # a fork ends NumPy's threads
before = counted()
library()
pid = os.fork()
if pid == 0:
    library("other")  # a capture of the child's own
    c = client(); c.close()
    os._exit(0 if len(library().log) == 3 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
deadline = time.monotonic() + 30
while counted() != before and time.monotonic() < deadline: time.sleep(0.01)
print(counted() == before or (before, counted()))
""",
        FAKE_LOG="lines",
    )
    assert done.stdout == "0\nTrue\n", done.stderr
    assert done.stderr == OTHERS


def test_closed_standard_error_is_no_failure(child):
    done = child("import os\nos.close(2)\nc = client(); print('made')", FAKE_LOG="lines")
    assert done.stdout == "made\n"


def test_what_a_plugin_changes_is_told(child):
    done = child(
        """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # this run may have been started to outlive its shell
one = library(); one.initialize()
print(dict(one.changes.environment), one.changes.handlers, "FAKE_WAS_HERE" in os.environ)
""",
        FAKE_LOG="change",
    )
    assert done.stdout == "{'FAKE_WAS_HERE': 'yes'} ('SIGHUP',) False\n", done.stderr

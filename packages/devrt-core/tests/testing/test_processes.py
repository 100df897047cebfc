"""Programs that cases run: their limit leaves out waits for a processor; late ones explain it."""

import os
import subprocess
import sys
import textwrap

import pytest

from devrt.testing.conformance import Status, clock, conform
from devrt.testing.conformance.clock import Queueing, queued_by
from devrt.testing.conformance.expect import Failure
from devrt.testing.conformance.processes import answer_of, run_program

LATE = """
import sys, threading, time
print("begins", flush=True)
print("has no peer", file=sys.stderr, flush=True)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
def waits_for_a_peer(): time.sleep(600)
waits_for_a_peer()
"""


def late(code, timeout=3.0):
    with pytest.raises(Failure) as caught:
        run_program(textwrap.dedent(code), timeout=timeout)
    assert caught.value.expected == "a process that ends"
    return caught.value.came


def test_what_a_late_program_printed_and_where_it_was_are_in_the_failure():
    came = late(LATE)
    assert came.startswith(
        "one that runs after 3 s; it printed: begins; its last words: has no peer"
    )
    _, _, stack = came.partition("; it was in: Current thread ")
    assert "in waits_for_a_peer" in stack.splitlines()[1]


def test_what_was_printed_is_kept_where_another_process_holds_the_pipes():
    other = """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
        print("begins", flush=True)
        time.sleep(600)
    """
    assert "it printed: begins" in late(other)


def test_a_program_that_ignores_the_signal_ends_too():
    ignoring = "import signal, time; signal.signal(6, 1); print('begins', flush=True)"
    assert "it printed: begins" in late(f"{ignoring}\nwhile True: time.sleep(1)")


def test_a_program_that_waited_for_a_processor_has_as_much_more_time(monkeypatch):
    waited = iter([0.0, 0.5, 60.0])
    monkeypatch.setattr(clock, "queued_by", lambda process: {process: next(waited)})
    program = "import time; time.sleep(2); print(1)"
    assert answer_of(program, timeout=0.2) == 1


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="Linux tells it")
def test_the_waits_of_what_a_process_started_count_with_its_own():
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE) as child:
        while len(known := queued_by(os.getpid())) < 3:
            assert child.poll() is None
        assert {os.getpid(), child.pid} < known.keys()
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ({1: 5.0}, {1: 5.0, 2: 1.5}, 1.5),  # a new one
        ({1: 5.0, 2: 3.0}, {1: 5.25}, 0.25),  # one that ended
        ({1: 5.0, 2: 1.0}, {1: 6.0, 2: 3.0}, 2.0),  # side by side
        ({1: 5.0}, {1: 5.05}, 0.0),
        ({}, {}, 0.0),
    ],
)
def test_the_longest_wait_counts(monkeypatch, before, after, more):
    answers = iter([before, after])
    monkeypatch.setattr(clock, "queued_by", lambda process: next(answers))
    assert Queueing(1).more() == more


def test_each_process_of_a_level_is_in_the_failure(plugins):
    make = """
        import os
        if "node_id" in context.options:
            os.write(2, b"lost its peer\\n")
            os._exit(3 + context.options["node_id"])
        return AcmeClient(2)
    """
    plugins.add("acme", make=textwrap.dedent(make).strip().replace("\n", "\n    "))
    (found,) = conform("acme@fake-acme", cases=["distributed.devices_of_all_processes"]).results
    assert found.status is Status.FAILED
    for node in range(3):
        words = f"process {node}: exit status {3 + node}; its last words: lost its peer"
        assert words in found.came

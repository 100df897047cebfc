"""Process 0, which has the service, is killed and started again with the journal of its job."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import distributed
from devrt.distributed.ports import free_port
from devrt.errors import InvalidArgumentError

MEMBER = """
    import signal, sys
    signal.alarm(120)  # the end of a test that waits for what does not come
    from devrt import distributed
    def say(*words):
        sys.stdout.write(" ".join(map(str, words)) + "\\n")
        sys.stdout.flush()
    distributed.initialize(
        initialization_timeout=60, heartbeat_timeout_seconds=30,
        recoverable=True, journal=sys.argv[1])
    client = distributed.global_state.client
    say("joined")
    for line in sys.stdin:
        say(eval(line))
"""


@pytest.fixture
def member(tmp_path):
    """A function that starts a process of a job of two; they end with the test."""
    address, started = f"localhost:{free_port()}", []

    def start(number):
        of_job = {"COORDINATOR_ADDRESS": address, "NUM_PROCESSES": 2, "PROCESS_ID": number}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(MEMBER), str(tmp_path / "journal")],
                env={**os.environ, **{f"DEVRT_{k}": str(v) for k, v in of_job.items()}},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()


def begin(process, text):
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def line(process):
    return process.stdout.readline().strip()


def answer_to(process, text):
    begin(process, text)
    return line(process)


def test_process_0_takes_its_place_and_the_keys_are_there(member):
    first, other = member(0), member(1)
    assert (line(first), line(other)) == ("joined", "joined")
    assert answer_to(first, "client.key_value_set('before', '1')") == "None"
    begin(other, "client.blocking_key_value_get('after', 60000)")
    first.kill()
    first.wait()
    again = member(0)
    assert line(again) == "joined"
    assert answer_to(again, "client.key_value_try_get('before')") == "1"
    assert answer_to(again, "client.key_value_set('after', '2')") == "None"
    assert line(other) == "2"
    begin(again, "client.wait_at_barrier('all', 60000)")
    assert answer_to(other, "client.wait_at_barrier('all', 60000)") == "None"
    assert line(again) == "None"
    begin(again, "distributed.shutdown()")
    assert answer_to(other, "distributed.shutdown()") == "None"
    assert line(again) == "None"


@pytest.mark.parametrize("how", [{}, {"recoverable": True, "coordinator_address": "etcd://a/job"}])
def test_a_journal_that_could_not_help_is_refused(tmp_path, how):
    given = {"coordinator_address": "localhost:0", "num_processes": 1, "process_id": 0, **how}
    with pytest.raises(InvalidArgumentError, match="journal"):
        distributed.initialize(**given, journal=tmp_path / "journal")
    assert not distributed.is_initialized()

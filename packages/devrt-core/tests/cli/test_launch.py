"""Jobs of real processes that `devrt launch` starts, and what `devrt cluster status` shows."""

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt.distributed import get_distributed_runtime_service

JOIN = """
    import os, subprocess, sys
    from devrt import distributed
    distributed.initialize(initialization_timeout=60)
    job = distributed.global_state
    client = job.client
    print("pid", os.getpid(), flush=True)
"""


def devrt(*arguments, **how):
    command = [sys.executable, "-m", "devrt", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **how)


def script_of(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(JOIN) + textwrap.dedent(text))
    return str(path)


def pids(output):
    """Return the processes that printed their number."""
    return [int(line.split()[2]) for line in output.splitlines() if "] pid " in line]


def is_there(pid):
    """Return whether a process runs; one that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_job_of_two_meets_and_its_status_is_seen(tmp_path):
    text = """
        assert job.num_processes == 2 and sys.argv[1:] == ["--flag", "-n"]
        client.key_value_set(f"k/{job.process_id}", str(job.process_id))
        client.wait_at_barrier("met", 60_000)
        print("keys", client.key_value_dir_get("k"))
        if job.process_id == 0:
            status = [sys.executable, "-m", "devrt", "cluster", "status"]
            subprocess.run([*status, "--json"], stdout=open(sys.argv[0] + ".json", "w"), check=True)
            subprocess.run(status, check=True)
        client.wait_at_barrier("shown", 60_000)
        distributed.shutdown()
    """
    script = script_of(tmp_path, text)
    done = devrt("launch", "-n", "2", script, "--flag", "-n")
    assert (done.returncode, done.stderr) == (0, "")
    for number in range(2):
        assert f"[{number}] keys [('k/0', '0'), ('k/1', '1')]" in done.stdout.splitlines()
    status = json.loads((tmp_path / "script.py.json").read_text())
    assert [(row["process"], row["state"]) for row in status["processes"]] == [
        (0, "connected"),
        (1, "connected"),
    ]
    table = [line for line in done.stdout.splitlines() if "connected" in line]
    assert len(table) == 2
    assert "process  state" in done.stdout


def test_a_process_that_fails_stops_the_others_and_is_shown_last(tmp_path):
    text = """
        if job.process_id == 1:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            print("pid", child.pid, flush=True)
        client.wait_at_barrier("both", 60_000)
        if job.process_id == 1:
            print("the last words", file=sys.stderr)
            os._exit(7)
        client.wait_at_barrier("never", 600_000)
    """
    done = devrt("launch", "-n", "2", script_of(tmp_path, text))
    assert done.returncode == 7
    first, *tail = done.stderr.splitlines()
    assert first == "devrt: process 1 failed with status 7, and the others were stopped."
    assert tail[-1] == "[1] the last words"
    assert all(line.startswith("[1] ") for line in tail)
    assert len(pids(done.stdout)) == 3
    assert not any(is_there(pid) for pid in pids(done.stdout))


def test_a_process_that_ended_as_it_lost_another_is_not_the_one_that_failed(tmp_path):
    text = """
        import time
        client.key_value_set(f"pid/{job.process_id}", str(os.getpid()))
        client.wait_at_barrier("both", 60_000)
        if job.process_id == 1:
            client.wait_at_barrier("never", 600_000)
        other = client.blocking_key_value_get("pid/1", 60_000)
        job.service.shutdown()
        while os.path.exists(f"/proc/{other}"):
            time.sleep(0.01)
        raise ValueError("the cause")
    """
    done = devrt("launch", "-n", "2", script_of(tmp_path, text))
    first, *tail = done.stderr.splitlines()
    assert first == "devrt: process 0 failed with status 1, and the others were stopped."
    assert tail[-1] == "[0] ValueError: the cause"


def test_a_launcher_that_is_stopped_stops_its_processes(tmp_path):
    text = """
        print("waits", flush=True)
        client.blocking_key_value_get("never", 600_000)
    """
    command = [sys.executable, "-m", "devrt", "launch", "-n", "2", script_of(tmp_path, text)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        seen = [launcher.stdout.readline() for _ in range(4)]
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(60) == 128 + signal.SIGTERM
    assert len(pids("".join(seen))) == 2
    assert not any(is_there(pid) for pid in pids("".join(seen)))


def test_no_process_outlives_a_launcher_that_is_killed(tmp_path):
    command = [sys.executable, "-m", "devrt", "launch", "-n", "2"]
    command.append(script_of(tmp_path, 'client.blocking_key_value_get("never", 600_000)'))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        started = pids("".join(launcher.stdout.readline() for _ in range(2)))
        ends = select.poll()
        for pid in started:
            ends.register(os.pidfd_open(pid), select.POLLIN)
        launcher.kill()
        while any(map(is_there, started)):
            assert ends.poll(30_000), "they go on"


def test_a_script_that_is_not_there_is_reported_once(tmp_path):
    done = devrt("launch", "-n", "3", str(tmp_path / "none.py"))
    assert (done.returncode, done.stdout, done.stderr.count("none.py")) == (2, "", 1)
    assert "there is no file" in done.stderr


def test_a_status_that_cannot_be_had_is_an_error(tmp_path, monkeypatch):
    monkeypatch.delenv("DEVRT_COORDINATOR_ADDRESS", raising=False)
    none = devrt("cluster", "status")
    assert (none.returncode, "DEVRT_COORDINATOR_ADDRESS" in none.stderr) == (1, True)
    with get_distributed_runtime_service("localhost:0", 3, token="secret") as service:
        address = service.address
        refused = devrt("cluster", "status", address, "--json")
        assert refused.returncode == 1
        assert json.loads(refused.stdout)["error"]["code"] == "UNAUTHENTICATED"
        token = tmp_path / "token"
        token.write_text("secret\n")
        found = devrt("cluster", "status", address, "--json", "--token-file", str(token))
        assert [row["state"] for row in json.loads(found.stdout)["processes"]] == ["absent"] * 3
        assert json.loads(found.stdout)["refused"] == {"UNAUTHENTICATED": 1}
    gone = devrt("cluster", "status", address)
    assert (gone.returncode, "UNAVAILABLE" in gone.stderr) == (1, True)

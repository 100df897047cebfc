"""What ``devrt top`` shows of the clients of other processes, whatever those answer."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from devrt.cli import main, shown_clients, top
from devrt.cli.shown_clients import Shown

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")

PROCESS = """
    import os, socket, sys
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\\0{sys.argv[1]}{os.getpid()}-00")
    listener.listen()
    print("ready", flush=True)
    while sys.argv[2] != "silent":
        connection, _ = listener.accept()
        connection.sendall(sys.argv[2].encode())
        connection.close()
    sys.stdin.read()
"""
ROW = {
    "client": "one@fake-one",
    "platform": "one",
    "id": 0,
    "kind": "One\x1b[2J X",
    "pci_bus_id": "0000:3b:00.0",
    "memory": {"device": 3 << 20, "pinned_host": None},
}
ANSWERS = {
    "no JSON": "hello",
    "nothing": "",
    "another version": json.dumps({"version": 0, "devices": []}),
    "no rows": json.dumps({"version": 1, "devices": [7]}),
    "rows without memory": json.dumps({"version": 1, "devices": [{**ROW, "memory": None}]}),
    "no number": json.dumps({"version": 1, "devices": [{**ROW, "id": "x"}]}),
    "no mapping": "[]",
}


@pytest.fixture
def process(monkeypatch):
    """Return a function that starts a process with an answer; no other test sees it."""
    prefix = f"devrt-test-{os.getpid()}-"
    monkeypatch.setattr(shown_clients, "PREFIX", prefix)
    running = []

    def start(answer):
        command = [sys.executable, "-c", textwrap.dedent(PROCESS), prefix, answer]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        running.append(subprocess.Popen(command, **pipes))
        assert running[-1].stdout.readline() == b"ready\n"
        return running[-1].pid

    yield start
    for each in running:
        each.kill()
        each.communicate()


def test_rows_of_several_processes_have_their_numbers_and_names(process):
    answer = json.dumps({"version": 1, "devices": [{**ROW, "id": 1}, ROW]})
    pids = sorted(process(answer) for _ in range(2))
    rows, problems = shown_clients.shown_clients()
    assert [(row["pid"], row["id"]) for row in rows] == [(p, i) for p in pids for i in (0, 1)]
    assert rows[0]["name"] == "python" or rows[0]["name"].startswith("python")
    assert rows[0]["memory"] == ROW["memory"]
    assert rows[0]["kind"] == "One\N{REPLACEMENT CHARACTER}[2J X"
    assert problems == {}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_is_not_understood_is_a_problem_of_its_process(process, answer):
    pid = process(ANSWERS[answer])
    rows, problems = shown_clients.shown_clients()
    assert rows == []
    assert problems == {f"process {pid}": "its answer is not of this version of devrt"}


def test_a_process_that_does_not_answer_is_left_alone(process, monkeypatch):
    monkeypatch.setattr(shown_clients, "_PATIENCE", 0.01)
    pid = process("silent")
    assert shown_clients.shown_clients() == Shown([], {f"process {pid}": "it does not answer"})


def test_processes_of_other_users_are_passed_over(process, monkeypatch):
    process(json.dumps({"version": 1, "devices": [ROW]}))
    monkeypatch.setattr(shown_clients, "peer_of", lambda _: (1, os.getuid() + 1))
    assert shown_clients.shown_clients() == Shown([], {})


def test_an_answer_without_end_is_cut(process, monkeypatch):
    monkeypatch.setattr(shown_clients, "_MOST", 3)
    process("[" * 9)
    assert len(shown_clients.shown_clients().problems) == 1


MACHINE = """
from devrt.hardware import DeviceReading
def machine():
    return [DeviceReading(5, kind="One X", pci_bus_id="0000:3b:00.0")]
"""


class Code(str):
    """Source that stands in a plugin's record as it is written."""

    __repr__ = str.__str__


@pytest.fixture
def run(plugins, as_default, monkeypatch, tmp_path):
    """Return a function that runs ``top`` where a process shows such rows."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    plugins.add("one", extra=MACHINE, machine=Code("machine"))
    plugins.add("two")
    as_default(plugins.runtime())

    def run(rows, *arguments):
        of_process = {"pid": 17, "name": "train"}
        found = Shown([{**ROW, **of_process, **row} for row in rows], {"process 8": "no answer"})
        monkeypatch.setattr(top, "shown_clients", lambda: found)
        return CliRunner().invoke(main, ("top", *arguments), catch_exceptions=False).stdout

    return run


ROWS = [{}, {"platform": "two", "pci_bus_id": None, "id": 1, "kind": "Two Y"}]


def test_a_client_is_shown_at_the_machines_number_of_its_device(run):
    shown = json.loads(run(ROWS, "--json"))
    assert [row["device"] for row in shown["clients"]] == [5, None]
    assert shown["problems"]["process 8"] == "no answer"
    lines = run(ROWS, "--once").splitlines()
    assert "one:5        17       one@fake-one  device 3.0 MiB, pinned_host -  train" in lines
    assert "two:1 Two Y  17       one@fake-one  device 3.0 MiB, pinned_host -  train" in lines
    assert "process 8: no answer" in lines


def test_of_one_platform_its_clients_alone_are_shown(run):
    shown = json.loads(run(ROWS, "--json", "--platform", "one"))
    assert [row["platform"] for row in shown["clients"]] == ["one"]

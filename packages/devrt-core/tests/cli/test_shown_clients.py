"""What ``devrt top`` shows of the clients of other processes, whatever those answer."""

import contextlib
import json
import os
import socket
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
    prefix, answer, count = sys.argv[1:]
    listeners = []
    for number in range(int(count)):
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(f"\\0{prefix}{os.getpid()}-{number:02}")
        listeners[-1].listen(0)
    print("ready", flush=True)
    while answer != "silent":
        connections = [listener.accept()[0] for listener in listeners]
        for connection in connections:
            connection.sendall(answer.encode())
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
    "another version": json.dumps({"version": 0, "devices": []}),
    "no rows": json.dumps({"version": 1, "devices": [7]}),
    "rows without memory": json.dumps({"version": 1, "devices": [{**ROW, "memory": None}]}),
    "no number": json.dumps({"version": 1, "devices": [{**ROW, "id": "x"}]}),
    "no mapping": "[]",
    "no end of brackets": "[" * 100_000,
    "a number beyond any": json.dumps({"version": 1, "devices": [{**ROW, "memory": {"x": 1e999}}]}),
    "too many bytes": json.dumps({"version": 1, "devices": [{**ROW, "memory": {"x": 10**400}}]}),
}


@pytest.fixture
def process(monkeypatch):
    """Return a function that starts a process with an answer; no other test sees it."""
    prefix = f"devrt-test-{os.getpid()}-"
    monkeypatch.setattr(shown_clients, "PREFIX", prefix)
    running = []

    def start(answer, sockets=1):
        code = textwrap.dedent(PROCESS)
        command = [sys.executable, "-c", code, prefix, answer, str(sockets)]
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


def test_all_are_connected_to_before_one_is_waited_for(process):
    pid = process(json.dumps({"version": 1, "devices": [ROW]}), sockets=2)
    rows, problems = shown_clients.shown_clients()
    assert [row["pid"] for row in rows] == [pid, pid]
    assert problems == {}


def test_all_have_one_deadline(process, monkeypatch):
    deadlines = []
    monkeypatch.setattr(shown_clients, "_received", lambda _, until: deadlines.append(until))
    for _ in range(2):
        process("silent")
    shown_clients.shown_clients()
    assert len(deadlines) == 2
    assert len({*deadlines}) == 1


def test_after_the_deadline_what_has_come_is_read_and_nothing_waited_for():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(BlockingIOError):
            shown_clients._received(ours, deadline=0.0)
        theirs.sendall(b"[]")
        theirs.close()
        assert shown_clients._received(ours, deadline=0.0) == b"[]"


def test_a_process_that_does_not_answer_is_left_alone(process, monkeypatch):
    monkeypatch.setattr(shown_clients, "_PATIENCE", 0.01)
    pid = process("silent")
    assert shown_clients.shown_clients() == Shown([], {f"process {pid}": "it does not answer"})


@contextlib.contextmanager
def filled(name):
    """Connect to a name until it takes no more."""
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(BlockingIOError):
            while True:
                connection = opened.enter_context(socket.socket(socket.AF_UNIX))
                connection.setblocking(False)
                connection.connect(f"\0{name}")
        yield


def test_nor_does_one_whose_queue_of_connections_is_full(process):
    pid = process("silent")
    with filled(f"{shown_clients.PREFIX}{pid}-00"):
        assert shown_clients.shown_clients() == Shown([], {f"process {pid}": "it does not answer"})


@pytest.mark.parametrize("owner", [str(os.getppid()), "\x1b[31mX"])
def test_a_socket_whose_user_is_not_known_says_nothing(process, owner):
    name = f"{shown_clients.PREFIX}{owner}-00"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen(0)
        with filled(name):
            assert shown_clients.shown_clients() == Shown([], {})


def test_a_process_that_ends_or_refuses_is_passed_over(process):
    process("")
    assert shown_clients.shown_clients() == Shown([], {})


@pytest.mark.parametrize(("user", "is_shown"), [(0, True), (17, True), (18, False)])
def test_root_sees_the_processes_of_all_users_and_others_their_own(
    process, monkeypatch, user, is_shown
):
    pid = process(json.dumps({"version": 1, "devices": [ROW]}))
    monkeypatch.setattr(shown_clients, "peer_of", lambda _: (pid, 17))
    monkeypatch.setattr(os, "getuid", lambda: user)
    rows, problems = shown_clients.shown_clients()
    assert [row["pid"] for row in rows] == [pid] * is_shown
    assert problems == {}


def test_an_answer_without_end_is_cut(process, monkeypatch):
    monkeypatch.setattr(shown_clients, "_MOST", 3)
    process("[" * 9)
    assert len(shown_clients.shown_clients().problems) == 1


MACHINE = """
from devrt.hardware import DeviceReading
failing = []
def machine():
    if failing:
        raise RuntimeError("no more")
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


def test_clients_of_a_platform_are_shown_while_nobody_reports_its_devices(run):
    run(ROWS, "--once")  # loads the plugin, and has `top` read the rows
    found = top.sources("one")
    sys.modules[found.machines["one"].machine.__module__].failing.append(True)
    shown = top.snapshot(found)
    assert shown["devices"] == []
    assert "no more" in shown["problems"]["one"]
    assert [row["platform"] for row in shown["clients"]] == ["one"]


def test_clients_of_a_platform_are_shown_where_a_client_alone_reports_its_devices(run):
    shown = json.loads(run(ROWS, "--json", "--platform", "two"))
    assert [row["platform"] for row in shown["clients"]] == ["two"]

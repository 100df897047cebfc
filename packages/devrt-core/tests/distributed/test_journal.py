"""A service that is killed, and another that carries on with its journal."""

import os
import queue
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from devrt.distributed.direct.client import DirectClient
from devrt.distributed.journal import Journal
from devrt.distributed.ports import free_port
from devrt.distributed.security import Security
from devrt.distributed.status import read_status
from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    PeerLostError,
    StatusCode,
)
from support import together

SERVICE = """
    import sys
    from devrt import xla_client
    service = xla_client.get_distributed_runtime_service(
        sys.argv[1], 2, heartbeat_timeout=float(sys.argv[3]), journal=sys.argv[2])
    print("listens", flush=True)
    sys.stdin.read()
"""


class ServiceProcess:
    def __init__(self, address, journal, heartbeat=20):
        command = [sys.executable, "-c", textwrap.dedent(SERVICE), address, str(journal)]
        command.append(str(heartbeat))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)
        assert self.process.stdout.readline() == "listens\n"

    def kill(self):
        with self.process:
            self.process.kill()


@pytest.fixture
def service(tmp_path):
    """A function that starts the service, and after that another in its place."""
    started, address = [], f"localhost:{free_port()}"

    def start(heartbeat=20):
        if started:
            started[-1].kill()
        started.append(ServiceProcess(address, tmp_path / "journal", heartbeat))
        return address

    start.started = started
    yield start
    started[-1].kill()


def joined(address, **options):
    make = xla_client.get_distributed_runtime_client
    how = {"init_timeout": 20, "shutdown_timeout": 20, "heartbeat_timeout": 20, **options}
    clients = [make(address, number, **how) for number in range(2)]
    together(lambda client: client.connect(), clients, timeout=30)
    return clients


def test_the_job_goes_on_with_all_that_was_acknowledged(service):
    one, other = joined(service())
    one.key_value_set_bytes("bytes", bytes(range(256)))
    one.key_value_set("gone", "1")
    one.key_value_delete("gone")
    one.key_value_increment("n", 3)
    results = queue.SimpleQueue()

    def waiting(call):
        results.put(call())

    calls = [
        lambda: other.blocking_key_value_get("later", 60_000),
        lambda: other.wait_at_barrier("b", 60_000),
    ]
    threads = [threading.Thread(target=waiting, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    service()
    assert one.key_value_try_get("n") == "3"
    assert one.key_value_dir_get_bytes("") == [("bytes", bytes(range(256))), ("n", b"3")]
    with pytest.raises(DistributedError, match="ALREADY_EXISTS"):
        one.key_value_set("n", "4")
    one.key_value_set("later", "now")
    one.wait_at_barrier("b", 60_000)
    assert {results.get(timeout=60), results.get(timeout=60)} == {"now", None}
    assert set(other.get_live_nodes([0, 1])) == {0, 1}
    together(lambda client: client.shutdown(), [one, other], timeout=30)


@pytest.mark.faults
def test_what_may_be_done_already_is_not_done_again(service, monkeypatch):
    one, other = joined(service())
    one.key_value_set("n", "1")
    calls, call = one._session._connection._calls, DirectClient.call

    def lost(method, request, seconds):
        """Make the call, and lose its answer, as where the service dies after its work."""
        call(calls, method, request, seconds)
        raise ConnectionError("the service closed the connection")

    service()
    monkeypatch.setattr(calls, "call", lost)
    with pytest.raises(DistributedError, match="may have been done, or not") as caught:
        one.key_value_increment("n", 1)
    assert caught.value.code is StatusCode.UNAVAILABLE
    monkeypatch.undo()
    assert one.key_value_increment("n", 1) == 3
    together(lambda client: client.shutdown(), [one, other], timeout=30)


def test_a_service_that_is_back_hears_of_its_processes_long_before_a_heartbeat(
    service, monkeypatch
):
    one, other = joined(service(2000), heartbeat_timeout=2000)
    looked, taken = threading.Event(), DirectClient.taken

    def after_the_first_look(calls, seconds):
        """Let no sign of life come before an age without one is known."""
        assert looked.wait(60)
        return taken(calls, seconds)

    monkeypatch.setattr(DirectClient, "taken", after_the_first_look)
    address = service(2000)
    while min((before := ages(address)).values()) < 0.5:
        time.sleep(0.05)
    since = time.monotonic()
    looked.set()
    silence = 0.0
    while any(age >= before[process] + silence for process, age in ages(address).items()):
        silence = time.monotonic() - since  # of one that is not heard of, at the next look
        assert silence < 60  # of the 500 s between two signs of life
        time.sleep(0.05)
    together(lambda client: client.shutdown(), [one, other], timeout=30)


def ages(address):
    processes = read_status(address, Security())["processes"]
    return {each["process"]: each["heartbeat_age"] for each in processes}


def test_a_loss_after_the_change_of_service_is_reported(service):
    reported = queue.SimpleQueue()
    address = service()
    one, other = joined(address, missed_heartbeat_callback=reported.put, heartbeat_timeout=6)
    service(heartbeat=6)
    one.key_value_set("k", "v")
    other._session.close()  # without a word
    assert isinstance(reported.get(timeout=60), PeerLostError)
    with pytest.raises(DistributedError):
        joined(address)
    one.shutdown()


@pytest.mark.faults
def test_a_service_that_stays_away_ends_what_waits(tmp_path):
    address = f"localhost:{free_port()}"
    process = ServiceProcess(address, tmp_path / "journal")
    clients = joined(address, heartbeat_timeout=2)
    process.kill()
    with pytest.raises(DistributedError) as caught:
        clients[0].blocking_key_value_get("never", 60_000)
    assert caught.value.code is StatusCode.UNAVAILABLE
    for client in clients:
        with suppress(DistributedError):
            client.shutdown()


def test_a_journal_is_read_as_far_as_it_goes_and_belongs_to_one(tmp_path, monkeypatch):
    path = tmp_path / "journal"
    journal = Journal(str(path))
    assert journal.begin(7, 2) == 7
    for number in range(50):
        journal.note_keys({"k": b"%d" % number})
    journal.note_process(1, "connected", 5, "connected")
    with pytest.raises(DistributedError, match="another service writes"):
        Journal(str(path))
    journal.close(delete=False)
    with open(path, "ab") as file:
        file.write(b'{"key": "torn", "val')
    again = Journal(str(path))
    assert again.begin(8, 2) == 7
    assert list(again.entries()) == [("k", b"49")]
    assert again.processes[1]["incarnation"] == 5
    assert len(path.read_bytes().splitlines()) == 3
    with pytest.raises(DistributedError, match="of 2 processes"):
        again.begin(8, 3)
    monkeypatch.setattr(again, "_limit", 0)
    again.note_keys({"k": None})
    assert len(path.read_bytes().splitlines()) == 2
    again.close(delete=True)
    assert not path.exists()
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        Journal(str(tmp_path / "none" / "journal"))
    make = xla_client.get_distributed_runtime_service
    for text in ("print('a script')", '{"other": 1}\n', "[]", "5"):
        (tmp_path / "other").write_text(text)
        with pytest.raises(InvalidArgumentError, match="no journal"):
            make("localhost:0", 1, journal=str(tmp_path / "other"))
        assert (tmp_path / "other").read_text() == text
    (tmp_path / "torn").write_text('{"serv')
    make("localhost:0", 1, journal=str(tmp_path / "torn")).shutdown()
    with pytest.raises(InvalidArgumentError, match="host:port"):
        make("etcd://localhost:1/job", 1, journal=str(path))
    with make("localhost:0", 1, journal=str(path)):
        assert path.exists()
    assert not path.exists()  # the job is over


SERVICE_LINE = b'{"service": 5, "size": 2}\n'
KEY_LINE = b'{"key": "kv/a", "value": "eA=="}\n'
DAMAGED = {
    "noise": b'{"key": "kv/lost", "va\x00\x00"eA=="}',
    "empty": b"",
    "another service": SERVICE_LINE.strip(),
    "no size": b'{"service": 5}',
    "a list": b'["service"]',
    "deep": b"[" * 200_000,
    "a long number": b'{"key": ' + b"9" * 5000 + b', "value": "eA=="}',
    "no base64": b'{"key": "kv/a", "value": "e"}',
    "a value that is a number": b'{"key": "kv/a", "value": 5}',
    "a key that is a number": b'{"key": 5, "value": "eA=="}',
    "a key that no text has": b'{"key": "\\ud800", "value": "eA=="}',
    "no value": b'{"key": "kv/a"}',
    "no such process": b'{"process": 2, "state": "lost", "incarnation": 1, "phase": ""}',
    "a negative process": b'{"process": -1, "state": "lost", "incarnation": 1, "phase": ""}',
    "a process that is a list": b'{"process": [0]}',
    "another state": b'{"process": 0, "state": "flying", "incarnation": 1, "phase": ""}',
    "no incarnation": b'{"process": 0, "state": "lost", "incarnation": -1, "phase": ""}',
    "more": b'{"process": 0, "state": "lost", "incarnation": 1, "phase": "", "more": 1}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_line_that_is_damaged_is_named_and_stays(tmp_path, name):
    path = tmp_path / "journal"
    data = SERVICE_LINE + KEY_LINE + DAMAGED[name] + b"\n" + KEY_LINE
    path.write_bytes(data)
    path.chmod(0o640)
    make = xla_client.get_distributed_runtime_service
    with pytest.raises(DistributedError, match=r"line 3 of the .*journal' is damaged") as e:
        make("localhost:0", 2, journal=str(path))
    assert (e.value.code, e.value.data["line"]) == (StatusCode.DATA_LOSS, 3)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (data, 0o640)
    assert os.listdir(tmp_path) == ["journal"]


@pytest.mark.parametrize("first", ['"x", "size": 2}', 'null, "size": 2}', "5}", "5, ", "-5}"])
def test_a_first_line_that_is_damaged_is_an_error(tmp_path, first):
    path = tmp_path / "journal"
    path.write_bytes(b'{"service": ' + first.encode() + b"\n" + KEY_LINE)
    with pytest.raises(DistributedError, match="line 1 of"):
        Journal(str(path))


@pytest.mark.parametrize("end", [b'{"key": "torn", "val', b"\0" * 4096, KEY_LINE.strip()])
def test_a_last_line_without_an_end_was_not_acknowledged(tmp_path, end):
    path = tmp_path / "journal"
    path.write_bytes(SERVICE_LINE + KEY_LINE + end)
    journal = Journal(str(path))
    assert (journal.begin(7, 2), list(journal.entries())) == (5, [("kv/a", b"x")])
    journal.close(delete=False)
    assert path.read_bytes() == SERVICE_LINE + KEY_LINE


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe", "link to a folder"])
def test_what_is_no_regular_file_is_no_journal(tmp_path, kind):
    """It would be replaced, and deleted with the job: as root /dev/null, too."""
    at = path = tmp_path / "journal"
    if kind.startswith("link"):
        at = tmp_path / "target"
        path.symlink_to("target")
    at.mkdir() if kind.endswith("folder") else os.mkfifo(at)
    before = at.lstat()
    with pytest.raises(InvalidArgumentError, match="no regular file"):
        Journal(str(path))
    assert at.lstat() == before
    assert path.is_symlink() == kind.startswith("link")


def test_a_file_that_is_refused_keeps_its_mode_and_a_link_leads_where_it_did(tmp_path):
    notes = tmp_path / "notes"
    notes.write_text("mine")
    notes.chmod(0o644)
    with pytest.raises(InvalidArgumentError, match="no journal"):
        Journal(str(notes))
    assert (notes.read_text(), notes.stat().st_mode & 0o777) == ("mine", 0o644)
    link, new = tmp_path / "link", tmp_path / "journal.new"
    link.symlink_to("journal")
    new.symlink_to("notes")  # where a new journal is put beside
    journal = Journal(str(link))
    journal.begin(7, 2)
    assert notes.read_text() == "mine"
    assert not new.is_symlink()
    assert link.is_symlink()
    assert link.stat().st_mode & 0o777 == 0o600
    journal.close(delete=True)
    assert not (tmp_path / "journal").exists()


def test_a_journal_that_is_replaced_before_it_is_locked_is_not_the_one(tmp_path, monkeypatch):
    from devrt.distributed import journal as module

    path, lock = tmp_path / "journal", module._lock
    path.write_bytes(SERVICE_LINE)
    with open(tmp_path / "others", "ab") as others:

        def late(file):
            """Lock a file that another service, which has its own locked, replaces before."""
            monkeypatch.undo()
            lock(others)
            os.replace(others.name, path)
            return lock(file)

        monkeypatch.setattr(module, "_lock", late)
        with pytest.raises(DistributedError, match="another service writes"):
            Journal(str(path))


def test_a_disk_that_is_full_acknowledges_nothing_and_loses_nothing(tmp_path):
    """A limit on files' sizes is a full disk to the service."""
    address, path = f"localhost:{free_port()}", tmp_path / "journal"
    process = ServiceProcess(address, path)
    clients = joined(address)
    clients[0].key_value_set("before", "1")
    limits = resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 20, -1))
    for call in (
        lambda: clients[0].key_value_set_bytes("big", bytes(1000)),
        lambda: clients[0].key_value_increment("n", 1),
        lambda: clients[0].key_value_delete("before"),
    ):
        with pytest.raises(DistributedError, match="cannot be written") as caught:
            call()
        assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
    assert clients[1].key_value_dir_get("") == [("before", "1")]  # no call took effect
    resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, limits)
    assert clients[0].key_value_increment("n", 1) == 1
    process.kill()
    process = ServiceProcess(address, path)
    assert clients[1].key_value_dir_get("") == [("before", "1"), ("n", "1")]
    together(lambda client: client.shutdown(), clients, timeout=30)
    process.kill()


def test_a_service_that_was_stopped_loses_nobody(service):
    """For longer than its heartbeat: what the processes sent meanwhile waits to be read."""
    address = service(heartbeat=2)
    clients = joined(address, rpc_timeout=3)
    process = service.started[-1].process
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # until it has stopped
    with pytest.raises(DeadlineExceededError):
        clients[0].key_value_set("k", "1", allow_overwrite=True)
    os.kill(process.pid, signal.SIGCONT)
    together(lambda client: client.wait_at_barrier("all", 60_000), clients, timeout=90)
    assert set(clients[0].get_live_nodes([0, 1])) == {0, 1}
    together(lambda client: client.shutdown(), clients, timeout=30)


def test_a_service_that_is_refused_leaves_the_journal_to_the_next(tmp_path):
    path = str(tmp_path / "journal")
    journal = Journal(path)
    journal.begin(7, 2)
    journal.close(delete=False)
    make = xla_client.get_distributed_runtime_service
    with pytest.raises(DistributedError, match="of 2 processes") as caught:
        make("localhost:0", 3, journal=path)
    make("localhost:0", 2, journal=path).shutdown()
    assert caught.value.code is not None  # the error, and what it refers to, live until here

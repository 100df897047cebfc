"""What a process answers ``devrt top`` elsewhere: its clients, and nothing that has it wait."""

import errno
import json
import os
import socket
import sys
import types

import numpy as np
import pytest

from devrt.errors import DevrtWarning
from devrt.runtime import memory_server
from devrt.runtime.memory_server import PREFIX, MemoryServer, memory_by_kind
from support import python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")


@pytest.fixture
def server(monkeypatch):
    """Return the server of this process, as a client that is shown starts it."""
    monkeypatch.setattr(memory_server, "_server", made := MemoryServer())
    yield made
    made.close()


@pytest.fixture
def acme():
    """Return a client of two devices."""
    from devrt_acme.client import AcmeClient

    client = AcmeClient(2)
    yield client
    client.close()


def ask(server):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(server._socket.getsockname())
        data = b""
        while part := connection.recv(1 << 16):
            data += part
    return json.loads(data) if data else None


def names():
    with open("/proc/net/unix", encoding="ascii") as file:
        return {line.split()[-1] for line in file if f"@{PREFIX}{os.getpid()}-" in line}


def test_clients_are_shown_where_that_is_requested_and_only_there(plugins, server):
    plugins.add("one")
    with plugins.runtime() as runtime:
        runtime.get_backend("one")
        assert ask(server)["devices"] == []
    with plugins.runtime(DEVRT_SHOW_IN_TOP="1") as runtime:
        runtime.get_backend("one")
        second = runtime.make_client("one")
        rows = ask(server)["devices"]
        assert [(row["client"], row["platform"], row["id"]) for row in rows] == [
            ("one@fake-one", "one", number) for number in (0, 1, 0, 1)
        ]
        second.close()
        assert len(ask(server)["devices"]) == 2
    assert ask(server)["devices"] == []


def test_a_process_that_shows_nothing_has_no_socket(plugins):
    plugins.add("one")
    before = names()
    with plugins.runtime() as runtime:
        runtime.get_backend("one")
        assert names() == before


def test_bytes_are_those_of_each_kind_and_made_up_addresses_are_left_out(server, acme):
    server.add(acme, "acme@devrt-acme")
    (row, _) = ask(server)["devices"]
    assert row["memory"] == memory_by_kind(acme.local_devices()[0])
    assert row["memory"]
    real, simulated = (
        types.SimpleNamespace(
            **{"platform": "gpu", "id": 0, "device_kind": kind},
            attributes={"pci_bus_id": "0000:3b:00.0"},
            addressable_memories=tuple,
            default_memory=lambda: types.SimpleNamespace(kind="device"),
            memory_stats=lambda: {"bytes_in_use": 7},
        )
        for kind in ("One X", "One X (simulated)")
    )
    client = types.SimpleNamespace(is_closed=False, local_devices=lambda: [real, simulated])
    rows = list(memory_server._rows(client, "gpu"))
    assert [row["pci_bus_id"] for row in rows] == ["0000:3b:00.0", None]
    assert rows[0]["memory"] == {"device": 7}


def test_a_client_that_fails_leaves_the_others(server, acme):
    class Bad(type(acme)):
        local_devices = None

    server.add(bad := Bad(1), "bad")
    server.add(acme, "good")
    assert {row["client"] for row in ask(server)["devices"]} == {"good"}
    bad.close()


def test_numbers_may_be_those_of_numpy(server, acme, monkeypatch):
    server.add(acme, "acme")
    device = acme.local_devices()[0]
    monkeypatch.setattr(type(device), "id", property(lambda _: np.int32(3)))
    monkeypatch.setattr(type(device), "memory_stats", lambda _: {"bytes_in_use": np.int64(7)})
    row = ask(server)["devices"][0]
    assert (row["id"], row["memory"][device.default_memory().kind]) == (3, 7)


def test_an_answer_that_fails_is_not_the_last(server, acme, monkeypatch):
    with monkeypatch.context() as for_one:
        for_one.setattr(MemoryServer, "report", lambda _: {"no JSON": object()})
        assert ask(server) is None
    server.add(acme, "acme")
    assert len(ask(server)["devices"]) == 2


class Refusing:
    """A socket that accepts nothing once, as where the process has no file descriptor left."""

    def __init__(self, real):
        self._real = real
        self.refused = 0

    def __getattr__(self, name):
        return getattr(self._real, name)

    def accept(self):
        if self.refused:
            return self._real.accept()
        self.refused += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_moment_without_file_descriptors_is_not_the_end(server):
    assert ask(server)["devices"] == []
    server._socket = refusing = Refusing(server._socket)
    assert ask(server)["devices"] == []  # which the thread may wait for already
    assert ask(server)["devices"] == []
    assert refusing.refused == 1


def test_another_user_gets_no_answer(server, acme, monkeypatch):
    server.add(acme, "acme")
    monkeypatch.setattr(memory_server, "peer_of", lambda _: (1, os.getuid() + 1))
    assert ask(server) is None


def test_a_closed_server_leaves_no_name(server):
    mine = f"@{server._socket.getsockname()[1:].decode()}"
    assert mine in names()
    server.close()
    server.close()
    assert mine not in names()
    assert not server._thread.is_alive()


def test_where_there_are_no_such_sockets_a_warning_says_so(plugins, monkeypatch):
    def refuse(*_):
        raise OSError("no sockets here")

    plugins.add("one")
    monkeypatch.setattr(memory_server, "show", refuse)
    says = "will not show the clients .* no sockets here"
    with (
        plugins.runtime(DEVRT_SHOW_IN_TOP="1") as runtime,
        pytest.warns(DevrtWarning, match=says),
    ):
        assert not runtime.get_backend("one").is_closed


FORKED = """
    import os
    from devrt.runtime import memory_server
    from devrt.runtime.memory_server import PREFIX
    from devrt_acme.client import AcmeClient

    def names():
        return sum(f"@{PREFIX}" in line and str(pid) in line for line in open("/proc/net/unix"))

    pid = os.getpid()
    client = AcmeClient(1)
    memory_server.show(client, "acme")
    ours, theirs = os.pipe(), os.pipe()
    if not os.fork():
        os.close(ours[1])  # so that it ends with its parent
        assert memory_server._server is None
        os.write(theirs[1], b"x")
        os.read(ours[0], 1)
        os._exit(0)
    os.close(theirs[1])
    assert os.read(theirs[0], 1) == b"x"
    assert names() == 1
    memory_server._server.close()
    assert names() == 0  # while the child lives
    os.write(ours[1], b"x")
    assert os.wait()[1] == 0
"""


def test_a_child_that_is_forked_keeps_no_name_of_its_parents():
    python(FORKED, options=("-W", "ignore"))


FORKED_MEANWHILE = """
    import os, socket, threading
    from devrt.runtime import memory_server
    from devrt_acme.client import AcmeClient

    class Slow(AcmeClient):
        def local_devices(self):
            entered.set()
            forked.wait()
            return super().local_devices()

    entered, forked = threading.Event(), threading.Event()
    client = Slow(1)
    memory_server.show(client, "acme")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(memory_server._server._socket.getsockname())
        entered.wait()
        end = os.pipe()
        if not os.fork():
            os.close(end[1])  # so that it ends with its parent
            os.read(end[0], 1)
            os._exit(0)
        forked.set()
        while connection.recv(1 << 16):
            pass
    os.write(end[1], b"x")
    assert os.wait()[1] == 0
"""


def test_an_answer_ends_while_a_child_that_is_forked_meanwhile_lives():
    python(FORKED_MEANWHILE, options=("-W", "ignore"))


EXIT = """
    import threading
    import socket
    from devrt.runtime import memory_server
    from devrt_acme.client import AcmeClient

    client = AcmeClient(2)
    memory_server.show(client, "acme")
    address = memory_server._server._socket.getsockname()
    answered = threading.Event()

    def poll():
        while True:
            with socket.socket(socket.AF_UNIX) as connection:
                try:
                    connection.connect(address)
                    while connection.recv(1 << 16):
                        answered.set()
                except OSError:
                    return

    threading.Thread(target=poll, daemon=True).start()
    answered.wait()
"""


def test_a_process_ends_while_others_ask_it():
    ran = python(EXIT)
    assert ran.stderr == ""

"""Servers of transfers that do not keep to the protocol, or are slow: errors of the pull."""

import contextlib
import socket
import threading
import time

import pytest

from devrt.errors import DeadlineExceededError, DistributedError
from devrt.experimental import transfer
from transfer_messages import HEADER, X, exactly, message


class Impostor:
    """Listens, and sends what it was given in place of each answer."""

    def __init__(self, answers):
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        peer, _ = self._socket.accept()
        with peer:
            for data in self._answers:
                try:
                    _, size, _ = HEADER.unpack(exactly(peer, HEADER.size))
                    exactly(peer, size)
                except (EOFError, OSError):
                    return
                peer.sendall(data)

    def __enter__(self):
        return self.address

    def __exit__(self, *exception):
        self._thread.join(60)
        self._socket.close()


class Trickle(Impostor):
    """Sends answers byte by byte, and the last one without an end."""

    def _serve(self):
        peer, _ = self._socket.accept()
        with peer, contextlib.suppress(OSError):
            for data in (*self._answers, HEADER.pack(0, 1 << 23, 0) + b" " * (1 << 23)):
                for byte in data:
                    peer.sendall(bytes([byte]))
                    time.sleep(0.01 if len(data) > 1000 else 0)


GREETING = message(0, {"request_bytes": 1000, "addresses": []})
LEASE = message(0, {"lease": "a", "blocks": [[[[0, 0], [2, 3]]]]})


def test_an_answer_that_comes_byte_by_byte_ends_with_its_time(client, monkeypatch):
    """A byte that comes is no reason to wait as long again."""
    from devrt.distributed.transfer import pulling

    monkeypatch.setattr(pulling, "_CONNECT_SECONDS", 1.0)
    elements = message(0, {"lease": "a", "blocks": [[[[0, 0], [2, 3]]]]}, 48) + b"x" * 48
    bounds = transfer.TransferBounds(stall_seconds=1.0)
    ours = transfer.start_transfer_server(client, bounds=bounds)
    for answers in ([], [GREETING, elements]):
        with (
            Trickle(answers) as address,
            ours.connect(address) as connection,
            pytest.raises(DeadlineExceededError),
        ):
            connection.pull(1, X)
    ours.close()


@pytest.mark.parametrize(
    "answers",
    [
        [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        [HEADER.pack(0, (1 << 32) - 1, 0)],
        [message(0, {})],
        [message(0, {"request_bytes": -1, "addresses": []})],
        [message(0, {"request_bytes": 10, "addresses": 3})],
        [GREETING, message(0, {})],
        [GREETING, message(0, {"lease": "a", "blocks": 5})],
        [GREETING, message(0, {"lease": "a", "blocks": []})],
        [GREETING, message(0, {"lease": "a", "blocks": [[[[0, 0], [1, 3]]]]})],
        [GREETING, message(0, {"lease": "a", "blocks": [[[[0], [6]]]]})],
        [GREETING, message(0, {"lease": "a", "blocks": [[[[0, "x"], [2, 3]]]]})],
        [GREETING, message(0, {"lease": "a", "blocks": [[[[0, float("inf")], [2, 3]]]]})],
        [GREETING, message(0, {"lease": "a", "blocks": [[[[0, 0], [2, 3]]]]}, 40) + b"x" * 40],
        [GREETING, message(0, {"lease": "a", "blocks": [[[[0, 0], [2, 3]]] * 2]}, 96) + b"x" * 96],
        [GREETING, LEASE, message(0, {}, 1 << 60)],
        [GREETING, LEASE, message(0, {}, 47) + b"x" * 47],
        [GREETING, LEASE, message(0, {}, 48) + b"x" * 20],
        [GREETING, message(200, {"message": 5, "details": "{"})],
        [GREETING, message(9, {"details": '{"kind": "X", "data": {"code": 1}}'})],
        [GREETING, message(9, {"details": '{"data": 3, "phases": 4}'})],
    ],
)
def test_answers_that_are_none_are_errors(client, answers):
    ours = transfer.start_transfer_server(client)
    with (
        ours,
        Impostor(answers) as address,
        ours.connect(address) as connection,
        pytest.raises(DistributedError),
    ):
        connection.pull(1, X, timeout=60)

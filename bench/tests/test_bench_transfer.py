import sys

import pytest

from bench.driver import Context, Options
from bench.environments import Environment, load_peers
from bench.pulls.content import aligned, content, shares
from bench.subjects import transfer
from bench.subjects.transfer import PEERS, PullError, Pulls


def here(name):
    return Environment(load_peers()[name], sys.executable)


@pytest.mark.parametrize("name", ["devrt", "grpc", "flight"])
def test_a_pull_is_measured(name):
    pytest.importorskip({"flight": "pyarrow"}.get(name, name))
    pulls = Pulls(here(name), 2)
    try:
        assert all(seconds > 0 for seconds in pulls.run(10_000, 3) + pulls.run(20 << 20, 1))
        assert pulls.version
    finally:
        pulls.close()


def test_a_process_that_fails_is_the_reason():
    with pytest.raises(PullError, match="No module named 'jax'"):
        Pulls(here("jax"), 1)
    with pytest.raises(PullError, match="why"):
        Pulls(Environment(load_peers()["ucx"], None, "why"), 1)


def test_what_is_not_pulled_is_no_figure():
    pulls = Pulls(here("devrt"), 1)
    try:
        pulls._server.stdin.write("100 0 1\n")
        pulls._server.stdin.flush()
        pulls._answer(pulls._server)
        pulls._puller.stdin.write("200 0 1\n")  # another size than is offered
        pulls._puller.stdin.flush()
        with pytest.raises(PullError, match="is to be pulled"):
            pulls._answer(pulls._puller)
    finally:
        pulls.close()


def test_every_peer_has_its_rows(monkeypatch):
    class Fake:
        version = "1"

        def __init__(self, environment, streams):
            self.factor = 1 if environment.peer.name == "devrt" else 2

        def run(self, size, count):
            return [self.factor * size] * count

        def close(self):
            pass

    monkeypatch.setattr(transfer, "Pulls", Fake)
    environments = {name: here(name) for name in ("devrt", *PEERS)}
    rows = transfer.measure(Context(environments, Options(is_quick=True)))
    assert {row.peer for row in rows} >= {"jax 1", "UCX 1"}
    assert all(row.ratio == 0.5 for row in rows)


def test_the_bytes_are_divided_over_the_streams():
    assert shares(10, 3) == [(0, 3), (3, 6), (6, 10)]
    assert aligned(100).ctypes.data % 64 == 0
    assert content(252)[-1] == 251 % 251

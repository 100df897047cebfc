import sys

import pytest

from bench.driver import Context, Options
from bench.environments import Environment, load_peers
from bench.job_process import PAIRS
from bench.subjects import coordination
from bench.subjects.coordination import JobError, run_bring_up, run_job


@pytest.fixture
def environment():
    return Environment(load_peers()["devrt"], sys.executable)


def test_a_job_is_measured(environment):
    seen = run_job(environment, 2)
    assert seen["connect"] > 0
    assert seen["barrier"] > 0
    assert seen["pair"] * PAIRS > 0
    assert seen["bytes"] > 8 << 20  # an interpreter with gRPC


def test_a_bring_up_is_measured(environment):
    assert run_bring_up(environment, 12)["connect"] > 0
    jax = Environment(load_peers()["jax"], sys.executable)
    with pytest.raises(JobError, match="No module named 'jaxlib'"):
        run_bring_up(jax, 2)


def test_a_process_that_fails_is_the_reason(environment):
    peer = load_peers()["jax"]
    with pytest.raises(JobError, match="No module named 'jaxlib'"):
        run_job(Environment(peer, sys.executable), 1)
    with pytest.raises(JobError, match="why"):
        run_job(Environment(peer, None, "why"), 1)


def test_both_sides_are_in_one_row(environment, monkeypatch):
    peers = {name: Environment(peer, None, name) for name, peer in load_peers().items()}
    monkeypatch.setattr(coordination, "run_job", lambda where, count, _: figures(where, count))
    monkeypatch.setattr(coordination, "run_bring_up", lambda where, count, _: figures(where, count))
    rows = coordination.measure(Context(peers, Options(is_quick=True)))
    assert len(rows) == 4 * 2 + 1
    assert all(row.ratio == 0.5 for row in rows)


def figures(environment, count):
    factor = 1 if environment.peer.name == "devrt" else 2
    return dict.fromkeys(("connect", "barrier", "pair", "bytes"), factor * count)

import sys

import pytest

from bench.driver import Context, Options
from bench.environments import Environment, load_peers
from bench.jobs import JobError
from bench.subjects import collectives
from bench.subjects.collectives import run_job


def test_a_job_reduces_arrays_of_every_size():
    seen = run_job(Environment(load_peers()["devrt"], sys.executable), 2, ["8", "4096", "4x64"])
    assert set(seen) == {"8", "4096", "4x64"}
    assert min(seen.values()) > 0


def test_a_process_that_fails_is_the_reason():
    with pytest.raises(JobError, match="No module named 'jax'"):
        run_job(Environment(load_peers()["jax"], sys.executable), 1, ["8"])


def test_both_sides_are_in_one_row(monkeypatch):
    peers = {name: Environment(peer, None, name) for name, peer in load_peers().items()}

    def job(where, count, sizes, _):
        if count == 4 and where.peer.name == "jax":
            raise JobError("out of memory")
        return dict.fromkeys(sizes, 1 if where.peer.name == "devrt" else 2)

    monkeypatch.setattr(collectives, "run_job", job)
    rows = collectives.measure(Context(peers, Options(is_quick=True)))
    ratios = {row.case: row.ratio for row in rows}
    assert ratios["8 B, 2 processes"] == 0.5
    assert ratios["8 B, 4 processes"] is None

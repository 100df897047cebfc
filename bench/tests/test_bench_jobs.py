"""Jobs of the sides in turn, as long as there is time."""

from bench.environments import Environment, load_peers
from bench.jobs import JobError, in_turn

SIDES = {name: Environment(load_peers()[name], None, name) for name in ("devrt", "jax")}


def test_each_side_has_its_turn_in_each_round():
    order = []

    def run(environment, seconds):
        order.append((environment.peer.name, seconds))
        return {"s": float(len(order))}

    seen, failed = in_turn(SIDES, run, 2, 1000)
    assert order == [("devrt", 1000), ("jax", 1000)] * 2
    assert seen == {"devrt": [{"s": 1.0}, {"s": 3.0}], "jax": [{"s": 2.0}, {"s": 4.0}]}
    assert failed == {}


def test_without_time_there_is_one_round(capsys):
    seen, _ = in_turn(SIDES, lambda environment, seconds: {"s": seconds}, 3, 0)
    assert seen == {"devrt": [{"s": 0}], "jax": [{"s": 0}]}
    assert "1 of 3 rounds in 0 s" in capsys.readouterr().err


def test_a_side_that_failed_is_not_run_again():
    def run(environment, seconds):
        if environment.peer.name == "jax":
            raise JobError("no answer")
        return {"s": seconds}

    seen, failed = in_turn(SIDES, run, 3, 9)
    assert len(seen["devrt"]) == 3
    assert seen["jax"] == []
    assert failed["jax"].reason == "jax: no answer"

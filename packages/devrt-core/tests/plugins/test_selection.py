"""The selection function: pure, total, deterministic, and never another platform."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.plugins import Broken, Candidate, Outcome, PluginRef, Policy, parse_platforms, select
from devrt.records import Available, Unavailable

NAMES = ("cpu", "cuda", "rocm", "gpu", "acme")
STATES = (Available("here"), Unavailable("no card", "Buy one."), Broken("load", "bad", "Fix it."))


def candidate(platform, distribution="d1", state=STATES[0], priority=0, aliases=()):
    return Candidate(PluginRef(platform, distribution, "1.0"), state, priority, aliases)


def outcomes(decision):
    return {v.candidate.ref.name: v.outcome.value for v in decision.verdicts}


def chosen(*found, names=()):
    decision = select(found, Policy(tuple(names), "TEST"))
    return decision.chosen.ref.name if decision.chosen else None


# -- what the rules mean --------------------------------------------------------------------------


def test_the_highest_priority_is_the_default():
    assert chosen(candidate("cpu"), candidate("cuda", priority=200)) == "cuda@d1"


@pytest.mark.parametrize("order", list(itertools.permutations("bac")))
def test_equal_priorities_are_decided_by_name(order):
    assert chosen(*(candidate(name, priority=5) for name in order)) == "a@d1"


def test_the_policy_comes_before_priority():
    found = candidate("cpu"), candidate("cuda", priority=200)
    assert chosen(*found, names=["cpu", "cuda"]) == "cpu@d1"
    assert chosen(*found, names=["cpu"]) == "cpu@d1"
    reasons = {v.candidate.ref.platform: v for v in select(found, Policy(("cpu",), "X")).verdicts}
    assert reasons["cuda"].outcome is Outcome.EXCLUDED
    assert reasons["cuda"].reason == "X allows only cpu"
    assert reasons["cpu"].reason == "first of cpu (X)"


@pytest.mark.parametrize("state", STATES[1:])
def test_a_named_platform_that_cannot_be_used_is_not_replaced(state):
    found = candidate("cpu"), candidate("cuda", state=state, priority=200)
    decision = select(found, Policy(("cuda", "cpu"), "TEST"))
    assert decision.chosen is None
    assert (decision.unknown, decision.unserved) == ((), ("cuda",))
    assert outcomes(decision)["cpu@d1"] == "eligible"
    assert chosen(*found) == "cpu@d1"


def test_an_alias_stands_for_what_is_installed():
    cuda = candidate("cuda", priority=2, aliases=("gpu",))
    rocm = candidate("rocm", priority=1, aliases=("gpu",))
    cpu = candidate("cpu", priority=9)
    assert chosen(cuda, cpu, names=["gpu"]) == "cuda@d1"
    assert chosen(rocm, cpu, names=["gpu"]) == "rocm@d1"
    assert chosen(cuda, rocm, cpu, names=["gpu"]) == "cuda@d1"
    off = dataclasses.replace(cuda, state=STATES[1])
    assert chosen(off, rocm, cpu, names=["gpu"]) == "rocm@d1"
    assert chosen(off, cpu, names=["gpu"]) is None
    assert chosen(cpu, names=["gpu"]) is None


def test_of_two_distributions_the_loser_is_reachable_by_its_full_name():
    first, second = candidate("cuda", "a"), candidate("cuda", "b")
    decision = select([second, first], Policy())
    assert outcomes(decision) == {"cuda@a": "chosen", "cuda@b": "shadowed"}
    shadowed = decision.verdicts[1]
    assert "a 1.0 serves cuda too and comes first (equal priority, first by name)" in (
        shadowed.reason
    )
    assert "'cuda@b'" in shadowed.reason
    assert chosen(first, second, names=["cuda@b"]) == "cuda@b"
    louder = dataclasses.replace(second, priority=1)
    assert outcomes(select([first, louder], Policy())) == {
        "cuda@b": "chosen",
        "cuda@a": "shadowed",
    }
    reason = select([first, louder], Policy()).verdicts[1].reason
    assert "priority 1 over 0" in reason


@pytest.mark.parametrize("state", STATES[1:])
def test_one_that_cannot_be_used_puts_none_in_the_shadow(state):
    found = candidate("cuda", "a", state=state, priority=5), candidate("cuda", "b")
    assert chosen(*found) == chosen(*found, names=["cuda"]) == "cuda@b"


def test_refs_that_differ_only_in_their_module_are_ordered_too():
    refs = [PluginRef("acme", "d", "1", module) for module in ("b", "a")]
    found = [Candidate(ref, Available()) for ref in refs]
    assert select(found, Policy()) == select(found[::-1], Policy())
    assert select(found, Policy()).chosen.ref.module == "a"


def test_nothing_at_all_is_a_decision_too():
    decision = select([], Policy())
    assert (decision.chosen, decision.verdicts, decision.usable) == (None, (), ())
    assert select([], Policy(("cpu",), "X")).unknown == ("cpu",)


# -- the list of platforms as text ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpu", ("cpu",)),
        (" CUDA , cpu ", ("cuda", "cpu")),
        ("cpu,,cpu,", ("cpu",)),
        ("Cuda@Some-Dist", ("cuda@Some-Dist",)),
        ("", ()),
        (" , ", ()),
    ],
)
def test_reading_platforms(text, expected):
    assert parse_platforms(text, "X") == Policy(expected, "X")


@given(st.text())
def test_any_text_gives_distinct_names_and_reads_back(text):
    policy = parse_platforms(text, "X")
    assert len(set(policy.platforms)) == len(policy.platforms)
    assert all(name == name.strip() and name for name in policy.platforms)
    assert parse_platforms(",".join(policy.platforms), "X") == policy

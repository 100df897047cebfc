"""The selection function for every question: pure, total, deterministic, in the policy."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from devrt.plugins import Broken, Candidate, Outcome, PluginRef, Policy, select
from devrt.records import Available, Unavailable

NAMES = ("cpu", "cuda", "rocm", "gpu", "acme")
STATES = (Available("here"), Unavailable("no card", "Buy one."), Broken("load", "bad", "Fix it."))

refs = st.builds(
    PluginRef, st.sampled_from(NAMES), st.sampled_from(["d1", "d2", "d3"]), st.just("1.0")
)
candidates = st.lists(
    st.builds(
        Candidate,
        refs,
        st.sampled_from([STATES[0], *STATES]),
        st.integers(-2, 2),
        st.lists(st.sampled_from(NAMES), max_size=2).map(tuple),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda candidate: candidate.ref,
)
names = st.lists(
    st.sampled_from([*NAMES, "none", "cpu@d1", "cuda@d2"]), max_size=2, unique=True
).map(tuple)
policies = st.builds(
    Policy,
    names,
    st.just("TEST"),
    require=names,
    prefer=names,
    forbid=names,
    allow_experimental=st.booleans(),
)
questions = st.tuples(candidates, policies)
requests = st.lists(st.sampled_from([*NAMES, "none", "cpu@d1", "cuda@d2", "acme@d9"]), max_size=3)
questions_of_names = st.tuples(
    candidates, st.builds(Policy, requests.map(dict.fromkeys).map(tuple), st.just("TEST"))
)


def answers(candidate, names):
    return any(candidate.answers_to(name) for name in names)


@given(questions, st.data())
def test_the_order_of_the_candidates_does_not_matter(question, data):
    found, policy = question
    assert select(data.draw(st.permutations(found)), policy) == select(found, policy)


@given(questions)
def test_asking_again_about_the_answer_gives_the_answer(question):
    found, policy = question
    before = [dataclasses.replace(c) for c in found]
    decision = select(found, policy)
    assert select([v.candidate for v in decision.verdicts], decision.policy) == decision
    assert select(iter(found), policy) == decision
    assert found == before


@given(questions)
def test_every_candidate_gets_one_verdict_with_a_reason_and_at_most_one_is_chosen(question):
    found, policy = question
    decision = select(found, policy)
    assert sorted(v.candidate.ref for v in decision.verdicts) == sorted(c.ref for c in found)
    assert all(isinstance(v.outcome, Outcome) and v.reason for v in decision.verdicts)
    winners = [v.candidate for v in decision.verdicts if v.outcome is Outcome.CHOSEN]
    assert winners == ([decision.chosen] if decision.chosen else [])
    assert all(isinstance(c.state, Available) for c in decision.usable)
    if decision.chosen:
        assert decision.usable[0] is decision.chosen


@given(candidates, policies)
def test_the_order_is_total(found, policy):
    order = [v.candidate.ref for v in select(found, policy).verdicts]
    for first in found:
        for second in found:
            if first.ref != second.ref:
                pair = [v.candidate.ref for v in select([first, second], policy).verdicts]
                assert (order.index(pair[0]) < order.index(pair[1])) is True


@given(questions)
def test_what_is_forbidden_is_never_used(question):
    found, policy = question
    decision = select(found, policy)
    for verdict in decision.verdicts:
        if answers(verdict.candidate, policy.forbid):
            assert verdict.outcome is Outcome.EXCLUDED
    assert not any(answers(c, policy.forbid) for c in decision.usable)


@given(questions)
def test_no_choice_unless_all_that_is_required_can_be_used(question):
    found, policy = question
    decision = select(found, policy)
    usable = [
        v.candidate
        for v in decision.verdicts
        if v.outcome in (Outcome.CHOSEN, Outcome.ELIGIBLE, Outcome.SHADOWED)
    ]
    missing = [n for n in policy.needed if not answers_any(usable, n)]
    assert sorted(missing) == sorted((*decision.unknown, *decision.unserved))
    assert (decision.chosen is None) == (bool(missing) or not usable)


def answers_any(found, name):
    return any(candidate.answers_to(name) for candidate in found)


@given(questions)
def test_no_way_to_another_platform_when_one_is_named(question):
    found, policy = question
    decision = select(found, policy)
    if policy.platforms and decision.chosen:
        assert decision.chosen.answers_to(policy.platforms[0])
        assert all(answers(c, policy.platforms) for c in decision.usable)


@given(questions)
def test_a_preference_restricts_nothing_and_comes_before_priority(question):
    found, policy = question
    decision = select(found, policy)
    without = select(found, Policy(*_others(policy), allow_experimental=True))
    free = select(found, Policy(*_others(policy), prefer=policy.prefer, allow_experimental=True))
    outcome = {v.candidate.ref: v.outcome is Outcome.EXCLUDED for v in without.verdicts}
    assert outcome == {v.candidate.ref: v.outcome is Outcome.EXCLUDED for v in free.verdicts}
    if decision.chosen and not policy.platforms and answers_any_of(decision.usable, policy.prefer):
        assert answers(decision.chosen, policy.prefer)


def _others(policy):
    return policy.platforms, policy.source, policy.require


def answers_any_of(found, wanted):
    return any(answers(candidate, wanted) for candidate in found)


@given(questions)
def test_experimental_ones_are_used_by_name_only_where_they_are_not_allowed(question):
    found, policy = question
    for candidate in select(found, policy).usable:
        if candidate.experimental and not policy.allow_experimental:
            named = {*policy.platforms, *policy.require, *policy.prefer}
            assert named & {candidate.ref.platform, candidate.ref.name}


@given(questions_of_names)
def test_no_choice_outside_of_the_policy(question):
    found, policy = question
    decision = select(found, policy)
    for verdict in decision.verdicts:
        allowed = not policy.platforms or any(
            verdict.candidate.answers_to(name) for name in policy.platforms
        )
        assert (verdict.outcome is Outcome.EXCLUDED) is not allowed
    if decision.chosen and policy.platforms:
        assert decision.chosen.answers_to(policy.platforms[0])


@given(questions_of_names)
def test_a_name_that_is_not_served_leaves_no_choice(question):
    decision = select(*question)
    usable = decision.usable
    served = {n for n in decision.policy.platforms if any(c.answers_to(n) for c in usable)}
    missing = set(decision.policy.platforms) - served
    assert missing == {*decision.unknown, *decision.unserved}
    assert not set(decision.unknown) & set(decision.unserved)
    assert (decision.chosen is None) == (bool(missing) or not usable)


@given(questions_of_names)
def test_unknown_means_that_nobody_answers_to_it(question):
    found, policy = question
    expected = [n for n in policy.platforms if not any(c.answers_to(n) for c in found)]
    assert list(select(found, policy).unknown) == expected


@given(candidates)
def test_without_a_policy_nothing_usable_comes_before_the_choice(found):
    decision = select(found, Policy())
    usable = [c for c in found if isinstance(c.state, Available)]
    assert (decision.chosen is None) == (not usable)
    if usable:
        best = min(usable, key=lambda c: (-c.priority, c.ref.platform, c.ref.distribution))
        assert decision.chosen is best


@given(candidates)
def test_one_usable_candidate_of_each_platform_and_the_others_are_in_its_shadow(found):
    decision = select(found, Policy())
    platforms = [c.ref.platform for c in decision.usable]
    assert len(platforms) == len(set(platforms))
    for verdict in decision.verdicts:
        if verdict.outcome is Outcome.SHADOWED:
            assert verdict.candidate.ref.platform in platforms
            assert verdict.candidate.ref.name in verdict.reason

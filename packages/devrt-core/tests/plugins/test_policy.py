"""Required, preferred, forbidden and experimental platforms, in the function and in a runtime."""

import json
import random
import sys

import pytest

from devrt.errors import (
    BackendUnavailableError,
    DevrtWarning,
    SelectionError,
    UnknownPlatformError,
)
from devrt.plugins import Broken, Candidate, PluginRef, Policy, select
from devrt.records import Available, Unavailable

STATES = (Available("here"), Unavailable("no card", "Buy one."), Broken("load", "bad", "Fix it."))


# -- what the rules mean --------------------------------------------------------------------------


def candidate(platform, distribution="d1", state=STATES[0], priority=0, **fields):
    return Candidate(PluginRef(platform, distribution, "1.0"), state, priority, **fields)


def reasons(found, policy):
    return {v.candidate.ref.name: v.reason for v in select(found, policy).verdicts}


CPU, CUDA, ROCM = candidate("cpu"), candidate("cuda", priority=9), candidate("rocm", priority=5)


def test_a_preferred_platform_comes_first():
    policy = Policy(prefer=("rocm", "cpu"), origins=(("prefer", "P"),))
    decision = select([CPU, CUDA, ROCM], policy)
    assert [c.ref.platform for c in decision.usable] == ["rocm", "cpu", "cuda"]
    assert reasons([CPU, CUDA, ROCM], policy)["rocm@d1"] == "preferred by P (rocm, cpu)"
    off = candidate("rocm", state=STATES[1])
    assert select([CPU, CUDA, off], Policy(prefer=("rocm",))).chosen is CUDA


def test_a_preferred_distribution_of_one_platform_comes_out_of_the_shadow():
    first, second = candidate("cuda", "a", priority=9), candidate("cuda", "b")
    policy = Policy(prefer=("cuda@b",), origins=(("prefer", "P"),))
    assert select([first, second], policy).chosen is second
    assert "comes first (it comes first in P)" in reasons([first, second], policy)["cuda@a"]


def test_a_forbidden_platform_is_not_used_even_if_named():
    policy = Policy(("cuda", "cpu"), "X", forbid=("gpu",), origins=(("forbid", "F"),))
    cuda = candidate("cuda", aliases=("gpu",))
    decision = select([CPU, cuda], policy)
    assert decision.chosen is None
    assert decision.unserved == ("cuda",)
    assert reasons([CPU, cuda], policy)["cuda@d1"] == "F forbids gpu"
    assert select([CPU, CUDA], Policy(forbid=("cuda",))).chosen is CPU


@pytest.mark.parametrize("state", STATES[1:])
def test_a_required_platform_that_cannot_be_used_leaves_no_choice(state):
    off = candidate("cuda", state=state, priority=9)
    decision = select([CPU, off], Policy(require=("cuda",)))
    assert (decision.chosen, decision.unserved) == (None, ("cuda",))
    assert select([CPU], Policy(require=("cuda",))).unknown == ("cuda",)
    assert select([CPU, CUDA], Policy(require=("cpu",))).chosen is CUDA


def test_a_required_distribution_may_stand_in_the_shadow():
    first, second = candidate("cuda", "a", priority=9), candidate("cuda", "b")
    assert select([first, second], Policy(require=("cuda@b",))).chosen is first


def test_an_experimental_platform_is_excluded_unless_named():
    new = candidate("acme", priority=9, experimental=True, aliases=("gpu",))
    policy = Policy(allow_experimental=False, origins=(("allow_experimental", "E"),))
    assert select([CPU, new], policy).chosen is CPU
    assert "it is experimental, and E allows such only by name" in reasons([new], policy)["acme@d1"]
    for named in ("acme", "acme@d1"):
        assert select([CPU, new], Policy((named,), allow_experimental=False)).chosen is new
    assert select([CPU, new], Policy(("gpu",), allow_experimental=False)).chosen is None
    assert select([CPU, new], Policy(prefer=("acme",), allow_experimental=False)).chosen is new
    assert select([CPU, new], Policy()).chosen is new


# -- a runtime that is configured so --------------------------------------------------------------


@pytest.fixture
def three(plugins):
    """Three platforms, of which the second has the highest priority."""
    for number in range(1, 4):
        plugins.add(f"p{number}", priority=5 if number == 2 else 0, aliases=(f"alias{number}",))
    return plugins


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "p2"),
        ({"DEVRT_PREFER_PLATFORMS": "p3,p1"}, "p3"),
        ({"DEVRT_PREFER_PLATFORMS": "alias3"}, "p3"),
        ({"DEVRT_PREFER_PLATFORMS": "none"}, "p2"),
        ({"DEVRT_FORBID_PLATFORMS": "p2"}, "p1"),
        ({"DEVRT_FORBID_PLATFORMS": "alias2, p1"}, "p3"),
        ({"DEVRT_REQUIRE_PLATFORMS": "p1"}, "p2"),
        ({"DEVRT_PLATFORMS": "p1,p3", "DEVRT_PREFER_PLATFORMS": "p3"}, "p1"),
        ({"DEVRT_PLATFORM_NAME": "p1", "DEVRT_REQUIRE_PLATFORMS": "p3"}, "p1"),
    ],
    ids=str,
)
def test_the_environment_says_the_policy(three, environ, expected):
    with three.runtime(**environ) as runtime:
        assert runtime.get_backend().platform == expected
        assert runtime.decide().chosen.ref.platform == expected


def test_a_forbidden_platform_is_refused_with_the_place_that_says_so(three):
    with three.runtime(DEVRT_FORBID_PLATFORMS="p2") as runtime:
        for name in ("p2", "p2@fake-p2"):
            with pytest.raises(SelectionError, match="DEVRT_FORBID_PLATFORMS forbids p2") as caught:
                runtime.get_backend(name)
            assert not isinstance(caught.value, BackendUnavailableError | UnknownPlatformError)
        with pytest.raises(UnknownPlatformError, match=r"forbids p2 .* its aliases are not known"):
            runtime.get_backend("alias2")  # to know it, its module would have to run
        assert runtime.get_backend("p1").platform == "p1"
    with (
        three.runtime(DEVRT_FORBID_PLATFORMS="p2", DEVRT_PLATFORMS="p2") as runtime,
        pytest.raises(SelectionError, match=r"'p2' \(DEVRT_PLATFORMS\)(.|\n)*forbids p2"),
    ):
        runtime.get_backend()


def test_a_forbidden_plugin_is_not_imported(plugins):
    module = plugins.add("one", "raise AssertionError")
    plugins.add("two")
    with plugins.runtime(DEVRT_FORBID_PLATFORMS="one") as runtime:
        assert runtime.get_backend().platform == "two"
        assert [v.outcome.value for v in runtime.decide().verdicts] == ["excluded", "chosen"]
        with pytest.raises(Exception, match="there is no option"):
            runtime.config.read("nonsense")
    assert module not in sys.modules
    assert not runtime.plugins.load_errors()


@pytest.mark.parametrize("required", ["off", "none", "fails"])
@pytest.mark.parametrize("also", [{}, {"DEVRT_PLATFORM_NAME": "good"}], ids=["", "named"])
def test_a_required_platform_that_cannot_be_had(plugins, required, also):
    plugins.add("good", priority=1)
    plugins.add("off", probe="return Unavailable('no card', 'Buy one.')")
    plugins.add("fails", "raise OSError")
    runtime = plugins.runtime(DEVRT_REQUIRE_PLATFORMS=required, **also)
    for _ in range(2):
        with pytest.raises(SelectionError, match=rf"'{required}' \(DEVRT_REQUIRE_PLATFORMS\)"):
            runtime.get_backend()
    assert runtime.get_backend("good").platform == "good", "a call names what it needs itself"
    runtime.close()


def test_experimental_platforms_can_be_kept_from_being_chosen(plugins):
    plugins.add("new", priority=9, experimental=True)
    plugins.add("old")
    with plugins.runtime(DEVRT_ALLOW_EXPERIMENTAL="no") as runtime:
        assert runtime.get_backend().platform == "old"
        with pytest.warns(DevrtWarning, match="'new' .*is experimental"):
            assert runtime.get_backend("new").platform == "new"
        verdict = next(v for v in runtime.decide().verdicts if v.candidate.experimental)
        assert "DEVRT_ALLOW_EXPERIMENTAL" in verdict.reason


# -- one answer to every question ----------------------------------------------------------------


def a_crowd():
    return [
        candidate(
            f"p{number % 7}",
            f"d{number}",
            STATES[0] if number % 3 else STATES[number % 2 + 1],
            number % 4,
            aliases=("gpu",) if number % 5 == 0 else (),
            experimental=number % 6 == 0,
        )
        for number in range(40)
    ]


def test_a_thousand_shuffles_give_one_decision():
    policy = Policy(require=("gpu",), prefer=("p3",), forbid=("p1",), allow_experimental=False)
    found = a_crowd()
    expected = select(found, policy)
    assert expected.chosen is not None
    shuffler = random.Random(7)
    for _ in range(1000):
        shuffler.shuffle(found)
        assert select(found, policy) == expected


PROCESS = """
import json, sys
from devrt._config.layers import Config
from devrt.plugins import discover_plugins
from devrt.runtime import Runtime
refs = list(discover_plugins(sys.argv[1:], {"PJRT_NAMES_AND_LIBRARY_PATHS": "p5:/x.so"}))
decision = Runtime(config=Config({}), discover=lambda: set(refs)).decide()
print(json.dumps([[v.candidate.ref.name, v.outcome.value, v.reason] for v in decision.verdicts]))
"""


def test_fresh_processes_give_one_decision(plugins, tmp_path, run_python):
    for number in (3, 1, 4, 2):
        for maker in ("a", "b"):
            plugins.add(f"p{number}", distribution=f"{maker}-p{number}", priority=number // 3)
    shuffler = random.Random(11)
    folders = []
    for number in range(4):  # the same distributions, made anew in another order of installation
        folder = tmp_path / f"copy{number}"
        folder.mkdir()
        entries = sorted(plugins.path.glob("*"))
        shuffler.shuffle(entries)
        for entry in entries:
            copy(entry, folder / entry.name)
        folders.append(folder)
    answers = {
        run_python("-c", PROCESS, str(folder), path=[folder], PYTHONHASHSEED=str(seed)).stdout
        for seed in range(6)
        for folder in folders
    }
    assert len(answers) == 1
    (answer,) = answers
    assert [name for name, outcome, _ in json.loads(answer) if outcome == "chosen"] == ["p3@a-p3"]


def copy(source, target):
    if source.is_dir():
        target.mkdir()
        for path in source.iterdir():
            copy(path, target / path.name)
    else:
        target.write_bytes(source.read_bytes())

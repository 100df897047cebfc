"""When modules made for JAX are run, which plugin is then chosen, and what the doctor says."""

import json
import os

import pytest

from devrt.doctor import diagnose, explain
from devrt.plugins import Broken, Candidate, PluginRef, Policy, select
from devrt.records import Available, Unavailable
from support import together

# -- when it is run -------------------------------------------------------------------------------


def test_a_platform_that_is_served_otherwise_needs_no_child(wheels, plugins, runs):
    wheels.register()
    plugins.add("one", aliases=("first",))
    with wheels.runtime(DEVRT_PLATFORMS="one") as runtime:
        assert runtime.get_backend().platform == "one"
        assert runtime.get_backend("one@fake-one").platform == "one"
    wheels.refs()
    assert runs == []


def test_a_name_that_nobody_has_asks_every_wheel_and_one_of_a_wheel_that_one(wheels, runs):
    wheels.register()
    wheels.register("'zop', library_path=library", module="zop_jax", name="zop-wheel")
    registry = wheels.registry()
    assert [ref.platform for ref in registry.refs_for(("zop@zop-wheel",))] == ["zop"]
    assert runs == ["zop_jax"]
    assert [ref.platform for ref in registry.refs_for(("zip",))] == ["zip"]
    assert sorted(runs) == ["zap_jax", "zop_jax"]


def test_a_wheel_may_serve_what_another_plugin_cannot(wheels, plugins, add_loader, runs):
    wheels.register("'one', library_path=library")
    plugins.add("one", probe="return Unavailable('no card', 'Buy one.')")
    add_loader()
    with wheels.runtime() as runtime:
        assert runtime.decide("one").chosen.ref.distribution == "zap-wheel"


def test_nothing_runs_of_what_is_forbidden(wheels, runs):
    wheels.register()
    with wheels.runtime(DEVRT_FORBID_PLATFORMS="pjrt_plugin_zap") as runtime:
        runtime.decide()
    assert runs == []


def test_a_verdict_is_kept_for_as_long_as_what_it_depends_on_stays(wheels, runs, monkeypatch):
    (wheels.path / "zap_beside.py").write_text("")
    before = "import zap_beside; home = os.environ.get('ZAP_HOME', 'zip')"
    library = wheels.register("home, library_path=library", before)

    def platforms():
        return [ref.platform for ref in wheels.settled()]

    assert [platforms(), platforms()] == [["zip"], ["zip"]]
    assert len(runs) == 1
    monkeypatch.setenv("ZAP_HOME", "zop")
    assert platforms() == ["zop"]
    (wheels.path / "zap_beside.py").write_text("# changed")
    assert platforms() == ["zop"]
    with open(library, "wb") as file:
        file.write(b"changed")
    assert platforms() == ["zop"]
    with open(os.path.join(os.path.dirname(library), "__init__.py"), "a") as file:
        file.write("# changed")
    assert platforms() == ["zop"]
    assert len(runs) == 5
    kept = "".join(path.read_text() for path in (wheels.path.parent / "cache").rglob("*.json"))
    assert "ZAP_HOME" in kept
    assert '"zop"' not in kept.replace('"name": "zop"', "")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"facts": 1, "depends": {}}', "null"])
def test_a_verdict_that_is_damaged_is_made_again(wheels, runs, text):
    wheels.register()
    wheels.settled()
    for path in (wheels.path.parent / "cache").rglob("*.json"):
        path.write_text(text)
    assert [ref.platform for ref in wheels.settled()] == ["zip"]
    assert len(runs) == 2


def test_a_module_that_failed_is_run_again_once_something_is_installed(wheels, runs):
    wheels.register(before="import zap_missing")
    assert [wheels.settled()[0].platform, wheels.settled()[0].platform] == ["pjrt_plugin_zap"] * 2
    assert len(runs) == 1
    (wheels.path / "zap_missing.py").write_text("")
    (wheels.path / "zap_missing-1.0.dist-info").mkdir()
    assert wheels.settled()[0].platform == "zip"


def test_variables_that_it_set_here_make_no_other_verdict_of_it(wheels, add_loader, monkeypatch):
    monkeypatch.setenv("ZAP_PATH", "/a")
    wheels.register(before="os.environ['ZAP_PATH'] += ':/zap'")
    add_loader()
    with wheels.runtime() as runtime:
        for _ in range(2):
            runtime.get_backend("zip")
            assert os.environ["ZAP_PATH"] == "/a:/zap"
            runtime.clear_backends()


def test_a_platform_that_a_distribution_serves_for_devrt_is_not_there_twice(wheels, plugins):
    library = wheels.register("'one', priority=500, library_path=library")
    plugins.add("one")
    name = "zap_wheel-1.0.dist-info"
    points = wheels.path / name / "entry_points.txt"
    points.write_text(points.read_text() + "[devrt_plugins]\none = fake_one_plugin\n")
    refs = [ref for ref in wheels.settled() if ref.distribution == "zap-wheel"]
    assert [(ref.name, ref.library) for ref in refs] == [("one@zap-wheel", "")]
    assert library


def test_a_platform_that_is_registered_twice_is_one(wheels):
    wheels.register(after="xb.register_plugin('zip', priority=7, library_path='/opt/zip.so')")
    refs = wheels.settled()
    assert [(ref.name, ref.library) for ref in refs] == [("zip@zap-wheel", "/opt/zip.so")]


def test_a_platform_that_two_entries_register_is_one(wheels):
    library = wheels.register()
    points = wheels.path / "zap_wheel-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "other = zap_jax\n")
    assert [(r.name, r.library) for r in wheels.settled()] == [("zip@zap-wheel", library)]


def test_two_threads_that_ask_run_a_module_once(wheels, runs):
    wheels.register(before="import time; time.sleep(1)")
    registry = wheels.registry()
    together(lambda _: registry.settle())
    assert len(runs) == 1
    assert [ref.platform for ref in registry.refs()] == ["zip"]


# -- which one is chosen --------------------------------------------------------------------------


def test_a_plugin_made_for_devrt_comes_before_one_that_is_adopted(wheels, plugins, add_loader):
    wheels.register("'one', priority=500, library_path=library", entry="one")
    plugins.add("one", priority=5)
    plugins.add("two", priority=50)
    add_loader()
    with wheels.runtime() as runtime:
        explained = explain(runtime=runtime)
        assert explained.chosen == "two@fake-two"
        row = next(line for line in str(explained).splitlines() if "zap-wheel" in line)
        assert "a plugin made for devrt counts before one of priority 500 that is not" in row
        assert "ask for 'one@zap-wheel' to use this one" in row
        assert runtime.decide("one").chosen.ref.distribution == "fake-one"
        assert runtime.decide("one@zap-wheel").chosen.ref.distribution == "zap-wheel"


@pytest.mark.parametrize("option", ["PLATFORMS", "PREFER_PLATFORMS", "PLATFORM_NAME"])
def test_unless_the_user_names_it(wheels, plugins, add_loader, option):
    wheels.register("'one', priority=500, library_path=library")
    plugins.add("one", priority=5)
    add_loader()
    with wheels.runtime(**{f"DEVRT_{option}": "one@zap-wheel"}) as runtime:
        assert runtime.decide().chosen.ref.distribution == "zap-wheel"


def test_its_own_priority_counts_where_nobody_else_serves_the_platform(wheels, plugins, add_loader):
    wheels.register("'zip', priority=500, library_path=library")
    plugins.add("one", priority=200)
    add_loader()
    with wheels.runtime() as runtime:
        assert runtime.get_backend().platform == "zip"


OWN = PluginRef("one", "own-one")
WHEEL = PluginRef("one", "wheel", source="entry point (jax_plugins)", library="/one.so")
OTHER = PluginRef("two", "own-two")
GONE = Unavailable("no card", "Buy one.")
BROKEN = Broken("load", "it raised", "Correct it.")


@pytest.mark.parametrize(
    ("state", "policy", "chosen", "weight"),
    [
        (Available(), Policy(), OTHER, 5),
        (GONE, Policy(), OTHER, 5),  # what its author says of the platform holds all the same
        (BROKEN, Policy(), WHEEL, 500),  # its priority was not read
        (Available(), Policy(forbid=("one@own-one",)), WHEEL, 500),
        (Available(), Policy(forbid=("uno",)), WHEEL, 500),
        (Available(), Policy(prefer=("one@wheel",)), WHEEL, 5),
        (Available(), Policy(prefer=("one",)), OWN, 5),
    ],
)
def test_a_wheel_counts_for_no_more_than_devrts_plugin_of_its_platform(
    state, policy, chosen, weight
):
    candidates = [
        Candidate(OWN, state, 5, ("uno",)),
        Candidate(WHEEL, Available(), 500),
        Candidate(OTHER, Available(), 50),
    ]
    for order in (candidates, candidates[::-1]):
        decision = select(order, policy)
        assert decision.chosen.ref == chosen
        (wheel,) = [v.candidate for v in decision.verdicts if v.candidate.ref == WHEEL]
        assert (wheel.priority, wheel.weight) == (500, weight)


def test_a_wheel_that_is_bound_says_so():
    decision = select(
        [
            Candidate(OWN, GONE, 5),
            Candidate(WHEEL, Available("v1"), 500),
            Candidate(OTHER, Available(), 50),
        ],
        Policy(),
    )
    (verdict,) = [v for v in decision.verdicts if v.candidate.ref == WHEEL]
    assert verdict.reason == "available (v1), priority 500, counted as 5"


# -- the doctor -----------------------------------------------------------------------------------


def finding(report, code):
    (found,) = [finding for finding in report.findings if finding.code == code]
    return found


def test_the_doctor_says_what_a_failure_costs(wheels, plugins):
    wheels.register(before="raise OSError('no card')")
    plugins.add("one")
    with wheels.runtime() as runtime:
        found = finding(diagnose(runtime=runtime, root=wheels.path), "plugin-not-recorded")
    assert (found.severity, found.subject) == ("warning", "pjrt_plugin_zap@zap-wheel")
    assert "raised OSError: no card in its initialize()" in found.message
    assert "'pjrt_plugin_zap', the entry point's name, is a guess" in found.message
    assert "priority and options are not known" in found.message
    assert "PJRT_NAMES_AND_LIBRARY_PATHS" in found.remedy


def test_the_doctor_tries_what_failed_again(wheels, runs):
    wheels.register(before="raise OSError('no card')")
    for count in (1, 2):
        with wheels.runtime() as runtime:
            diagnose(runtime=runtime, root=wheels.path)
        assert len(runs) == count


def test_the_doctor_names_options_that_are_lost(wheels):
    wheels.register("'zip', library_path=library, options={'f': print}")
    with wheels.runtime() as runtime:
        found = finding(diagnose(runtime=runtime, root=wheels.path), "plugin-options-lost")
    assert found.severity == "warning"
    assert "f: option 'f' must be a string" in found.message


def test_the_doctor_shows_what_was_registered(wheels):
    wheels.register("'zip', priority=3, library_path=library, options={'n': 1}")
    with wheels.runtime() as runtime:
        report = diagnose(runtime=runtime, root=wheels.path)
    (row,) = [row for row in report.plugins if row.platform == "zip"]
    assert row.facts["registered"]["options"] == {"n": 1}
    assert row.facts["registered"]["priority"] == 3
    json.dumps(report.to_dict())


def test_without_a_loader_an_adopted_wheel_is_unavailable(wheels):
    wheels.register()
    (candidate,) = wheels.registry().candidates(("zip",))
    assert isinstance(candidate.state, Unavailable)


def test_the_doctor_tries_again_in_the_same_process(wheels):
    wheels.register(before="import zap_missing")
    with wheels.runtime() as runtime:
        diagnose(runtime=runtime, root=wheels.path)
        assert [ref.platform for ref in runtime.plugins.refs()] == ["pjrt_plugin_zap"]
        (wheels.path / "zap_missing.py").write_text("")
        report = diagnose(runtime=runtime, root=wheels.path)
        assert [row.platform for row in report.plugins] == ["zip"]
        assert [ref.platform for ref in runtime.plugins.refs()] == ["zip"]


def test_the_doctor_runs_nothing_at_the_level_of_metadata(wheels, runs):
    wheels.register()
    with wheels.runtime() as runtime:
        diagnose(runtime=runtime, root=wheels.path, level="metadata")
    assert runs == []

"""The doctor: its report, its findings and status, whatever state the installation is in."""

import dataclasses
import json
import sys

import pytest

from devrt._config.layers import Config
from devrt.doctor import CODES, SCHEMA_VERSION, Finding, Report, diagnose, explain
from devrt.errors import DevrtError
from devrt.probing.isolated import Level
from devrt.runtime import Runtime


def codes(report):
    return [finding.code for finding in report.findings]


def row(report, name):
    (found,) = [row for row in report.plugins if name in (row.platform, row.distribution)]
    return found


def rules(entry):
    return {rule.rule: rule.passed for rule in entry.rules}


@pytest.fixture
def mixed(plugins):
    plugins.add("one", priority=5, version="1.2", experimental=True, aliases=("first",))
    plugins.add("one", distribution="other-one")
    plugins.add("two")
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')")
    plugins.add("broken", "import no_such_library")


def test_every_candidate_its_state_and_every_rule(mixed, examine):
    report = examine()
    states = {entry.name: entry.state for entry in report.plugins}
    assert states == {
        "one@fake-one": "chosen",
        "away@fake-away": "unavailable",
        "broken@fake-broken": "broken",
        "one@other-one": "shadowed",
        "two@fake-two": "eligible",
    }
    assert report.plugins[0].name == report.default == "one@fake-one"
    assert report.default_reason == "highest priority (5) among the available"
    one = report.plugins[0]
    assert (one.version, one.priority, one.experimental, one.aliases) == (
        *("1.2", 5, True),
        ("first",),
    )
    passed = {"found": True, "policy": True, "manifest": None, "load": True, "probe": True}
    assert rules(one) == {**passed, "client": True, "choice": True}
    assert rules(row(report, "away")) == {
        **passed,
        "probe": False,
        "client": None,
        "choice": False,
    }
    assert rules(row(report, "broken")) == {
        **passed,
        "load": False,
        "probe": None,
        "client": None,
        "choice": False,
    }
    assert codes(report) == [
        "plugin-missing-dependency",
        "platform-duplicate",
        "platform-unavailable",
    ]
    assert report.status == 1


def test_nothing_of_a_plugin_runs_here(mixed, plugins, tmp_path):
    with plugins.runtime() as runtime:
        diagnose(runtime=runtime, root=tmp_path)
        assert runtime.live_clients() == {}
    assert not [name for name in sys.modules if name.startswith(("fake_plugin", "other_one"))]


def test_the_levels(plugins, examine):
    plugins.add("one", make="raise OSError('no')")
    assert codes(examine()) == ["plugin-client-failed", "default-failed"][::-1]
    load = examine(level="load")
    assert (load.status, codes(load)) == (0, [])
    assert rules(row(load, "one"))["client"] is None
    plugins.add("two", "raise OSError")
    metadata = examine(level=Level.METADATA)
    assert (metadata.status, codes(metadata)) == (0, [])
    assert {entry.level for entry in metadata.plugins} == {"metadata"}
    with pytest.raises(ValueError, match=r"no level 'all'.*'metadata', 'load', 'client'"):
        examine(level="all")


def test_devices_that_one_process_holds_are_not_opened(plugins, examine):
    plugins.add("model", make="raise OSError")
    manifest = "schema = 1\n[[backend]]\nplatform = 'held'\nexclusive = true\n"
    plugins.package("held", manifest, make="raise OSError")
    report = examine()
    assert (row(report, "held").level, row(report, "held").state) == ("load", "chosen")
    assert row(report, "model").state == "broken"
    assert row(examine(level="client"), "held").state == "broken"


def test_only_what_is_allowed_is_examined(plugins, examine):
    plugins.add("one")
    plugins.add("bad", "import os; os.abort()")
    report = examine({"DEVRT_PLATFORMS": "one"})
    assert (report.status, report.platforms, report.policy_source) == (
        *(0, ("one",)),
        "DEVRT_PLATFORMS",
    )
    bad = row(report, "bad")
    assert (bad.state, bad.outcome) == ("excluded", "")
    assert bad.reason == "DEVRT_PLATFORMS allows only one; not imported"
    assert rules(bad)["policy"] is False
    assert codes(report) == ["platform-excluded"]
    (variable,) = report.environment
    assert (variable.name, variable.value, variable.option, variable.in_force) == (
        *("DEVRT_PLATFORMS", "one"),
        *("platforms", True),
    )
    assert report.settings[0]["origin"] == "environment"


def test_an_alias_in_the_policy_makes_all_be_queried(plugins, examine):
    plugins.add("one", aliases=("first",))
    plugins.add("two", priority=9)
    report = examine({"DEVRT_PLATFORMS": "first"})
    assert report.default == "one@fake-one"
    assert row(report, "two").state == "excluded"


def test_what_the_policy_forbids_is_not_run(plugins, examine):
    plugins.add("one")
    plugins.add("bad", "import os; os.abort()", distribution="fake-bad")
    report = examine({"DEVRT_FORBID_PLATFORMS": "bad"})
    assert (report.status, report.default) == (0, "one@fake-one")
    assert (row(report, "bad").state, row(report, "bad").outcome) == ("excluded", "")


def test_a_platform_that_is_requested(mixed, examine):
    assert examine(platforms="two").default == "two@fake-two"
    assert examine(platforms=["two"]).default == "two@fake-two"
    assert examine(platforms=["first"]).default == "one@fake-one"
    away = examine(platforms=["away"])
    assert (away.status, away.default) == (2, "")
    assert "no card. Buy one." in away.default_reason
    assert codes(away)[0] == "default-failed"
    unknown = examine(platforms=["three"])
    assert unknown.status == 2
    assert "no installed backend serves platform 'three'" in unknown.default_reason
    forbidden = examine({"DEVRT_PLATFORMS": "one"}, platforms=["two"])
    assert forbidden.status == 2
    assert "'two' is installed" in forbidden.default_reason


def test_options_of_plugins_that_were_not_queried_are_let_pass(plugins, examine):
    plugins.add("one")
    plugins.add("two", "raise AssertionError('imported')")
    environ = {"DEVRT_PLATFORMS": "one", "DEVRT_NUM_TWO_DEVICES": "3", "DEVRT_NUM_ONE": "1"}
    (unknown,) = [f for f in examine(environ).findings if f.code == "env-unknown"]
    assert unknown.subject == "DEVRT_NUM_ONE"


def test_a_variable_that_is_malformed(plugins, examine):
    plugins.add("one")
    report = examine({"DEVRT_ALLOW_EXPERIMENTAL": "perhaps"})
    (finding,) = report.findings
    assert (finding.code, finding.subject) == ("env-malformed", "DEVRT_ALLOW_EXPERIMENTAL")
    assert "'perhaps'" in finding.message
    assert report.status == 2


def test_a_typo_is_a_finding_and_no_warning(plugins, examine):
    plugins.add("one")
    report = examine({"DEVRT_PLATFORM": "one"})
    assert (report.status, codes(report)) == (0, ["env-unknown"])
    assert "Did you mean DEVRT_" in report.findings[0].remedy


def test_a_configuration_file_that_is_malformed(plugins, examine, tmp_path, monkeypatch):
    plugins.add("one")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.devrt]\nallow_experimental = 'perhaps'\n")
    report = examine()
    assert codes(report) == ["config-malformed"]
    assert "pyproject.toml" in report.findings[0].message


# -- when hardly anything is right -----------------------------------------------------------------


def test_no_plugin_at_all(examine):
    report = examine()
    assert (report.status, report.default, report.plugins) == (2, "", ())
    assert codes(report) == ["no-backend"]
    assert report.next_command == "pip install ./packages/devrt-cpu"


def test_every_plugin_is_broken(plugins, examine):
    plugins.add("a", "import os; os.abort()")
    plugins.add("b", "raise OSError('cracked')")
    report = examine()
    assert report.status == 2
    assert codes(report) == ["default-failed", "plugin-crashed", "plugin-import-failed"]
    assert "cracked" in report.default_reason


def test_a_policy_that_cannot_be_met(plugins, examine):
    plugins.add("one")
    report = examine({"DEVRT_PLATFORMS": "none"})
    assert report.status == 2
    finding = report.findings[0]
    assert (finding.code, finding.command) == ("default-failed", "unset DEVRT_PLATFORMS")
    assert "'none' (DEVRT_PLATFORMS)" in finding.message


def test_broken_metadata(plugins, examine):
    plugins.add("one")
    bad = plugins.path / "bad-1.0.dist-info"
    bad.mkdir()
    (bad / "entry_points.txt").write_bytes(b"[devrt_plugins\n\xff\xfe = \0\n[devrt_plugins]\n=x\n")
    (bad / "METADATA").write_bytes(b"\xff\xfe\0")
    report = examine()
    assert row(report, "one").state == "chosen"
    json.dumps(report.to_dict())


def test_plugins_that_cannot_be_listed(tmp_path):
    def discover():
        raise OSError("a disk is gone")

    with Runtime(config=Config({}), discover=discover) as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    assert report.status == 2
    assert codes(report) == ["discovery-failed"]
    assert "a disk is gone" in report.findings[0].message


def test_each_report_is_made_anew(plugins, examine, tmp_path):
    flag = tmp_path / "broken"
    plugins.add("one", f"import os\nif os.path.exists({str(flag)!r}): os.abort()\n" + "x = 1")
    plugins.add("two", f"import os\nif os.path.exists({str(flag)!r}): os.abort()\n" + "x = 1")
    flag.touch()
    assert codes(examine()) == ["default-failed", "plugin-crashed", "plugin-crashed"]
    flag.unlink()
    assert "plugin-crashed" not in codes(examine())


def test_a_plugin_that_only_adds(plugins, examine):
    plugins.add("one")
    plugins.add(
        "one",
        """
        from devrt.hookspecs import hookimpl
        from devrt.records import MemoryKind
        @hookimpl
        def devrt_memory_kinds():
            return [MemoryKind(platform="one", kind="slow")]
        """,
        distribution="slow-memory",
    )
    report = examine()
    assert (report.status, codes(report)) == (0, [])
    assert row(report, "slow-memory").state == "adds"
    assert "memory kinds one:slow" in row(report, "slow-memory").reason


def test_a_backend_registered_by_a_call(plugins, tmp_path, as_default):
    from devrt.runtime import register_backend_factory

    runtime = as_default(plugins.runtime())
    register_backend_factory("mine", lambda: None, priority=5)
    report = diagnose(runtime=runtime, root=tmp_path)
    assert (report.default, report.plugins[0].outcome) == ("mine@(code)", "")


# -- the records ----------------------------------------------------------------------------------


def test_the_schema(mixed, examine):
    found = examine({"DEVRT_PLATFORMS": "one,two"}).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["schema"] == SCHEMA_VERSION == 1
    assert list(found) == [
        *("schema", "status", "default", "default_reason", "policy", "plugins", "hardware"),
        *("environment", "settings", "cluster", "versions", "findings", "next"),
    ]
    assert list(found["findings"][0]) == [
        *("severity", "code", "subject", "message", "remedy", "command"),
    ]
    assert list(found["environment"][0]) == ["name", "value", "option", "in_force", "about"]
    assert {"python", "system", "devrt-core", "numpy", "pluggy"} <= set(found["versions"])


def test_severities_and_the_order_of_findings(mixed, examine):
    order = ["error", "warning", "info"]
    ranks = [order.index(finding.severity) for finding in examine().findings]
    assert ranks == sorted(ranks)
    assert set(CODES.values()) == set(order)


def test_records_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Finding("no-backend", "default", "none").code = "other"
    fields = {field.name: () for field in dataclasses.fields(Report)}
    assert Report(**fields).status == 2


# -- explain --------------------------------------------------------------------------------------


def test_explain_the_default(mixed, plugins):
    with plugins.runtime() as runtime:
        found = explain(runtime=runtime)
        assert runtime.live_clients() == {}
    assert found.chosen == "one@fake-one"
    text = str(found)
    assert repr(found) == text
    lines = text.splitlines()
    assert lines[0] == "the default platform: one@fake-one"
    for words in (
        *("chosen      one (fake-one 1.2)", "eligible    two (fake-two 1.0)"),
        *("unavailable away (fake-away 1.0)", "Buy one.", "broken      broken (fake-broken 1.0)"),
        *("shadowed    one (other-one 1.0)", "comes first (priority 5 over 0)"),
    ):
        assert words in text
    assert lines[-1] == "next: devrt devices"
    assert found.decision.chosen.ref.name == found.chosen


@pytest.mark.parametrize(
    ("platform", "environ", "words", "command"),
    [
        ("three", {}, "no installed backend serves platform 'three'", "devrt list"),
        ("away", {}, "no card. Buy one.", "devrt doctor"),
        ("two", {"DEVRT_PLATFORMS": "one"}, "allows only one", "devrt doctor"),
        (None, {"DEVRT_PLATFORMS": "away"}, "no card", "devrt doctor"),
        ("", {}, "name is empty", "devrt doctor"),
    ],
)
def test_explain_what_cannot_be_had(mixed, plugins, platform, environ, words, command):
    with plugins.runtime(**environ) as runtime:
        found = explain(platform, runtime=runtime)
        assert found.chosen == ""
        assert words in str(found)
        assert found.next_command == command
        with pytest.raises(DevrtError) as caught:
            runtime.get_backend(platform)
    assert found.reason == caught.value.message


def test_explain_with_nothing_installed(plugins):
    with plugins.runtime() as runtime:
        assert explain(runtime=runtime).next_command == "pip install ./packages/devrt-cpu"

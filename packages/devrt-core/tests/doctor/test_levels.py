"""How far the doctor goes, what it leaves alone, and what it proposes next."""

import pytest


def codes(report):
    return [finding.code for finding in report.findings]


def row(report, platform):
    (found,) = [row for row in report.plugins if row.platform == platform]
    return found


def test_a_priority_that_was_not_read_decides_nothing(plugins, examine):
    plugins.add("one")
    plugins.add("two", "raise OSError")
    metadata = examine(level="metadata")
    assert metadata.status == 0
    assert metadata.default == ""
    assert metadata.default_reason.startswith("not known at this level: one@fake-one, two@")
    assert row(metadata, "one").state == row(metadata, "two").state == "eligible"
    assert "priority is not known" in row(metadata, "one").reason
    named = examine({"DEVRT_PLATFORMS": "two"}, level="metadata")
    assert (named.status, named.default) == (0, "two@fake-two")


def test_where_one_backend_is_usable_no_priority_is_needed(plugins, examine):
    plugins.add("one")
    report = examine(level="metadata")
    assert (report.status, report.default) == (0, "one@fake-one")
    assert report.default_reason == "the only one that is available"


@pytest.mark.parametrize("environ", [{}, {"DEVRT_PLATFORMS": "first,thrid"}])
def test_no_client_is_made_to_know_aliases(plugins, examine, tmp_path, environ):
    made = tmp_path / "made"
    touch = f"open({str(made)!r}, 'a').write({{!r}})"
    for name, aliases in (("one", ("first",)), ("two", ())):
        plugins.add(name, aliases=aliases, make=f"{touch.format(name)}; raise OSError('no')")
    requests = {} if environ else {"platforms": "first,thrid"}
    report = examine(environ, **requests)
    assert made.read_text() == "one"
    assert (row(report, "one").level, row(report, "two").level) == ("client", "load")
    assert row(report, "two").state == "excluded"


def test_an_experimental_plugin_that_the_policy_excludes_is_not_run(plugins, examine):
    plugins.add("one")
    manifest = "schema = 1\n[[backend]]\nplatform = 'trial'\nexperimental = true\npriority = 7\n"
    plugins.package("trial", manifest, "import os; os.abort()")
    report = examine({"DEVRT_ALLOW_EXPERIMENTAL": "0"})
    trial = row(report, "trial")
    assert (trial.state, trial.outcome, trial.level) == ("excluded", "", "metadata")
    assert "it is experimental, and DEVRT_ALLOW_EXPERIMENTAL" in trial.reason
    assert (trial.priority, trial.experimental) == (7, True)
    assert (report.status, codes(report)) == (0, ["platform-excluded"])
    for named in ({"DEVRT_PLATFORMS": "one,trial"}, {"DEVRT_PREFER_PLATFORMS": "trial"}):
        report = examine({"DEVRT_ALLOW_EXPERIMENTAL": "0", **named})
        assert row(report, "trial").outcome == "signal"
    report = examine({"DEVRT_ALLOW_EXPERIMENTAL": "0"}, platforms="trial")
    assert row(report, "trial").outcome == "signal"


def test_only_a_plugin_that_took_too_long_is_to_be_given_longer(plugins, examine):
    plugins.add("one", make="raise OSError('no')")
    (found,) = [f for f in examine().findings if f.code == "plugin-client-failed"]
    assert "--timeout" not in found.command
    assert "--upgrade fake-one" in found.command


def test_what_was_not_requested_did_not_fail_and_is_no_finding(plugins, examine):
    plugins.add("one")
    plugins.add("two")
    report = examine(platforms="one")
    assert row(report, "two").state == "excluded"
    (policy,) = [rule for rule in row(report, "two").rules if rule.rule == "policy"]
    assert (policy.passed, policy.detail) == (None, "--platform allows only one; not imported")
    assert codes(report) == []


def test_the_level_is_how_far_the_examination_came(plugins, examine):
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')")
    plugins.add("broken", "import no_such_one")
    plugins.add("one", make="raise OSError('no')")
    report = examine()
    levels = {entry.platform: entry.level for entry in report.plugins}
    assert levels == {"away": "load", "broken": "load", "one": "client"}


@pytest.fixture
def compiler(wheels):
    """A wheel with a compiler for the CPU, beside a backend for it."""
    wheels.add("", name="xla-cpu-pjrt", entry="xla_cpu_pjrt", module="xla_plugins.xla_cpu_pjrt")


def test_the_compiler_of_a_backend_is_no_backend_that_fails(plugins, compiler, examine):
    plugins.add("cpu")
    report = examine()
    assert [entry.platform for entry in report.plugins] == ["cpu"]
    assert codes(report) == []
    requested = examine(platforms="xla_cpu_pjrt")
    assert "xla_cpu_pjrt" in [entry.platform for entry in requested.plugins]


def test_where_libraries_are_loaded_or_nothing_uses_it_it_is_one(plugins, compiler, examine):
    assert [entry.platform for entry in examine().plugins] == ["xla_cpu_pjrt"]
    plugins.add("cpu")
    manifest = 'schema = 1\n[[backend]]\nplatform = "loading"\npjrt_loader = true\n'
    plugins.package("loading", manifest, probe="return Unavailable('', '')")
    assert "xla_cpu_pjrt" in [entry.platform for entry in examine().plugins]

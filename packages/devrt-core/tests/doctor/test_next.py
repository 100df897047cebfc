"""What the doctor leaves alone, and what it proposes next."""

import pytest

from devrt.doctor import diagnose


@pytest.fixture
def examine(plugins, tmp_path):
    def run(environ=None, **options):
        with plugins.runtime(**(environ or {})) as runtime:
            return diagnose(runtime=runtime, root=tmp_path, **options)

    return run


def codes(report):
    return [finding.code for finding in report.findings]


def row(report, name):
    (found,) = [row for row in report.plugins if name in (row.platform, row.distribution)]
    return found


def test_an_experimental_plugin_that_the_policy_excludes_is_not_run(
    plugins, examine, write_distribution
):
    plugins.add("one")
    package = plugins.path / "trial"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "plugin.py").write_text("import os; os.abort()")
    (package / "devrt.toml").write_text(
        "schema = 1\n[[backend]]\nplatform = 'trial'\nexperimental = true\npriority = 7\n"
    )
    write_distribution(plugins.path, "fake-trial", "[devrt_plugins]\ntrial = trial.plugin\n")
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

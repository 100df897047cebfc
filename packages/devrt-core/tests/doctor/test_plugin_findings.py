"""What plugins say to the doctor through their hook, and what becomes of a hook that fails."""

import pytest

from devrt.doctor import diagnose
from devrt.errors import BackendInitializationError

HOOK = """
from devrt.records import DoctorFinding
@hookimpl
def devrt_doctor_findings():
    {code}
"""
TWO = """return [
        DoctorFinding(code="driver-old", message="It is old.", remedy="Upgrade.", command="up"),
        DoctorFinding(code="fast", message="It is fast.", severity="info"),
    ]"""


@pytest.fixture
def ask(plugins, tmp_path):
    """Examine one plugin with such a hook; return the report and its findings but infos of ours."""

    def run(code, *, timeout=None, level=None, **options):
        plugins.add("one", extra=HOOK.format(code=code), distribution="One_Dist", **options)
        with plugins.runtime() as runtime:
            kept = {"root": tmp_path, "timeout": timeout, "level": level}
            report = diagnose(runtime=runtime, **kept)
        return report, {f.code: f for f in report.findings}

    return run


def test_what_it_says_stands_behind_its_name(ask):
    report, found = ask(TWO)
    assert list(found) == ["one-dist/driver-old", "one-dist/fast"]
    old = found["one-dist/driver-old"]
    assert (old.severity, old.subject, old.message) == ("warning", "one@One_Dist", "It is old.")
    assert (old.remedy, old.command, found["one-dist/fast"].severity) == ("Upgrade.", "up", "info")
    assert (report.status, report.default, report.next_command) == (0, "one@One_Dist", "up")
    assert old.to_dict()["severity"] == "warning"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"probe": "return Unavailable('no card', 'Buy one.')"}, "platform-unavailable"),
        ({"probe": "raise OSError"}, "plugin-probe-failed"),
        ({"make": "raise OSError"}, "plugin-client-failed"),
        ({"make": "return None"}, "plugin-contract"),
    ],
)
def test_it_is_queried_whatever_else_came_out(ask, options, code):
    _, found = ask(TWO, **options)
    assert {code, "one-dist/driver-old", "one-dist/fast"} <= found.keys()


def test_an_error_of_its_own_counts(ask):
    report, found = ask('return [DoctorFinding(code="x", message="No.", severity="error")]')
    assert (report.status, found["one-dist/x"].severity) == (1, "error")


BAD = {
    "raises": ("raise OSError('gone')", "OSError: gone"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "returns None": ("return None", "must return a list of DoctorFinding, not None"),
    "returns a number": ("return 5", "must return a list of DoctorFinding, not int"),
    "returns text": ("return ['old']", "must return DoctorFinding records, not str"),
    "a code that is none": (
        "return [DoctorFinding(code='Too Old', message='x')]",
        "DoctorFinding.code cannot be 'Too Old'",
    ),
    "a severity that is none": (
        "return [DoctorFinding(code='x', message='x', severity='fatal')]",
        "DoctorFinding.severity cannot be 'fatal'",
    ),
    "no message": ("return [DoctorFinding(code='x', message=' ')]", "message cannot be ' '"),
    "another contract": (
        "return [DoctorFinding(code='x', message='x', api_version=9)]",
        "built against plugin contract 9.0",
    ),
    "crashes": ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
    "aborts": ("import os; os.abort()", "killed by SIGABRT"),
    "ends the process": ("import os; os._exit(0)", "ended the process with exit code 0"),
    "says too much": ("return [DoctorFinding(code='x', message='x' * 10**6)]", "bytes long"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_hook_that_fails_is_a_finding_and_the_verdict_stays(ask, what):
    code, words = BAD[what]
    report, found = ask(code)
    finding = found["plugin-findings-failed"]
    assert words in finding.message
    assert finding.remedy
    assert (finding.severity, report.status, report.default) == ("warning", 0, "one@One_Dist")
    (row,) = report.plugins
    assert (row.state, row.facts["device_count"]) == ("chosen", 2)


def test_a_hook_that_hangs_is_given_up(ask):
    report, found = ask("while True: import time; time.sleep(9)", timeout=5.0)
    assert "did not finish within 5 s" in found["plugin-findings-failed"].message
    assert (report.status, report.plugins[0].state) == (0, "chosen")


def test_only_the_doctor_asks_and_it_asks_every_time(plugins, ask, tmp_path):
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'a').write('x'); return []"
    ask(code, level="load")
    with plugins.runtime() as runtime:
        assert runtime.get_backend("one").device_count() == 2
        assert mark.read_text() == "x"
        assert diagnose(runtime=runtime, root=tmp_path, level="load").status == 0
    assert mark.read_text() == "xx"


def test_a_plugin_that_only_has_findings_is_a_plugin(plugins, tmp_path):
    plugins.add("one", "from devrt.hookspecs import hookimpl\n" + HOOK.format(code=TWO))
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    assert report.plugins[0].state == "adds"
    assert "fake-one/driver-old" in {f.code for f in report.findings}


def test_what_this_process_set_and_what_failed_in_it(plugins, tmp_path):
    """A child process cannot know either by itself."""
    options = "(OptionSpec(name='num_one_parts', type=int, default=3),)"
    plugins.add("one", make="return AcmeClient(context.options['num_one_parts'])", options=options)
    plugins.add("bad", make="raise OSError('no ship')")
    with plugins.runtime() as runtime:
        runtime.load_options()
        runtime.config.update("num_one_parts", 5)
        with pytest.raises(BackendInitializationError):
            runtime.get_backend("bad")
        report = diagnose(runtime=runtime, root=tmp_path)
    (row,) = [row for row in report.plugins if row.platform == "one"]
    assert row.facts["device_count"] == 5
    found = {f.code: f for f in report.findings}
    assert {"plugin-client-failed", "plugin-failed-here"} <= found.keys()
    assert "in this process" in found["plugin-failed-here"].message
    assert "clear_backends" in found["plugin-failed-here"].remedy


def test_a_known_conflict_that_only_warns_is_a_finding(plugins, tmp_path, monkeypatch):
    manifest = (
        'schema = 1\n[[backend]]\n[[backend.conflicts]]\ndistribution = "pytest"\n'
        'reason = "it is slow"\nremedy = "Wait."\nid = "slow"\nseverity = "warning"\n'
    )
    plugins.package("one", manifest)
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=tmp_path, level="metadata")
        monkeypatch.setenv("DEVRT_IGNORE_CONFLICTS", "slow")
        ignoring = diagnose(runtime=runtime, root=tmp_path, level="metadata")
    (found,) = (each for each in report.findings if each.code == "plugin-conflict")
    assert (found.severity, found.message) == ("warning", "it is slow.")
    assert found.remedy == "Wait. DEVRT_IGNORE_CONFLICTS=slow goes on all the same."
    assert "plugin-conflict" not in {each.code for each in ignoring.findings}

"""Plugins that do everything wrong, as real distributions: each costs its own verdict and no more.

For each one the good platform works in this process, the doctor has a finding with a code of its
own and a remedy, and what it says of the good platform is what it says without the other.
"""

import json
import sys

import pytest

from devrt.doctor import CODES, diagnose

PATIENCE = 8.0  # only plugins that never end wait for it

DEADLY = {
    "segfault": ("import ctypes; ctypes.string_at(0)", "plugin-crashed", "killed by SIGSEGV"),
    "abort": ("import os; os.abort()", "plugin-crashed", "killed by SIGABRT"),
    "exit with 0": ("import os; os._exit(0)", "plugin-exited", "exit code 0"),
    "exit with 3": ("import os; os._exit(3)", "plugin-exited", "exit code 3"),
}
PLACES = {
    "import": "while it was loaded",
    "probe": "in its probe",
    "factory": "while it made its client",
}
RAISED_AT = {
    "import": "plugin-import-failed",
    "probe": "plugin-probe-failed",
    "factory": "plugin-client-failed",
}


@pytest.fixture
def good(plugins):
    """Install the platform that must not notice anything."""
    plugins.add("good", priority=1)
    return plugins


@pytest.fixture
def examine(good, tmp_path):
    def run(timeout=None, **environ):
        with good.runtime(**environ) as runtime:
            report = diagnose(runtime=runtime, timeout=timeout, root=tmp_path)
            json.dumps(report.to_dict())
            return report

    return run


@pytest.fixture
def add_at(good):
    """Install plugin ``bad``, which runs a line of code in one place."""

    def add(place, code, **options):
        if place == "probe":
            return good.add("bad", probe=code, **options)
        if place == "factory":
            return good.add("bad", make=code, **options)
        module = good.add("bad", **options)
        path = good.path / f"{module}.py"
        path.write_text(f"{code}\n{path.read_text()}")
        return module

    return add


def good_works(good, report):
    """Check the good platform, in this process and in the report."""
    (row,) = [row for row in report.plugins if row.distribution == "fake-good"]
    assert row.outcome == "ok"
    assert row.facts["device_count"] == 2
    assert not [f for f in report.findings if f.subject == row.name]
    with good.runtime() as runtime:
        assert len(runtime.get_backend("good").devices()) == 2
    return row


def only_finding(report, code, words, *, subject="bad@fake-bad"):
    """Check that there is one finding, and that it says what is wrong and what to do."""
    (finding,) = [f for f in report.findings if f.severity != "info"]
    assert (finding.code, finding.subject) == (code, subject), finding
    assert words in finding.message
    assert finding.remedy
    assert finding.code in CODES
    return finding


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", DEADLY)
def test_what_would_end_the_process_ends_a_child(good, add_at, examine, way, place):
    code, finding_code, words = DEADLY[way]
    module = add_at(place, code)
    report = examine()
    finding = only_finding(report, finding_code, words)
    assert PLACES[place] in finding.message
    assert (report.status, report.default) == (1, "good@fake-good")
    good_works(good, report)
    assert module not in sys.modules


def test_what_never_ends_is_stopped(good, examine):
    endless = "while True: import time; time.sleep(60)"
    good.add("at-import", endless)
    good.add("at-probe", probe=endless)
    good.add("at-factory", make=endless)
    report = examine(PATIENCE)
    errors = [f for f in report.findings if f.severity == "error"]
    assert [(f.code, f.subject.partition("@")[0]) for f in errors] == [
        ("plugin-hung", "at-factory"),
        ("plugin-hung", "at-import"),
        ("plugin-hung", "at-probe"),
    ]
    assert all("within 8 s" in f.message and "--timeout" in f.remedy for f in errors)
    assert (report.status, report.default) == (1, "good@fake-good")
    good_works(good, report)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", ["raise SystemExit(3)", "raise OSError('no such ship')"])
def test_what_raises_is_named_by_where(good, add_at, examine, place, code):
    add_at(place, code)
    report = examine()
    only_finding(report, RAISED_AT[place], code.split("(")[0].removeprefix("raise "))
    assert report.status == 1
    good_works(good, report)


@pytest.mark.parametrize("place", ["import", "probe"])
def test_the_python_stack_of_a_crash_is_reported(good, add_at, examine, place):
    module = add_at(place, "import ctypes; ctypes.string_at(0)")
    (row,) = [row for row in examine().plugins if row.platform == "bad"]
    assert "Segmentation fault" in row.output
    assert f"{module}.py" in row.output


CONTRACT = {
    "a factory that returns None": ({"make": "return None"}, "returned None"),
    "a factory that returns text": ({"make": "return 'client'"}, "returned str"),
    "a client without devices": ({"make": "return AcmeClient(0)"}, "no devices"),
    "a probe that returns True": ({"probe": "return True"}, "returned bool"),
    "a priority that is text": ({"priority": "high"}, "priority cannot be 'high'"),
}


@pytest.mark.parametrize("case", CONTRACT)
def test_what_breaks_the_contract(good, examine, case):
    options, words = CONTRACT[case]
    good.add("bad", **options)
    report = examine()
    only_finding(report, "plugin-contract", words)
    assert report.status == 1
    good_works(good, report)


def test_another_version_of_the_contract(good, examine):
    good.add("bad", api_version=99)
    report = examine()
    only_finding(report, "version-mismatch", "plugin contract 99")
    good_works(good, report)


def test_a_missing_dependency_is_named(good, examine):
    good.add("bad", "import no_such_library")
    report = examine()
    finding = only_finding(report, "plugin-missing-dependency", "'no_such_library'")
    assert finding.command == "pip install --force-reinstall fake-bad"
    assert report.next_command == finding.command
    good_works(good, report)


def test_a_duplicate_platform_is_kept_ordered_and_reported(good, examine):
    good.add("good", distribution="a-good")
    report = examine()
    words = "fake-good 1.0 serves good too and comes first (priority 1 over 0)"
    only_finding(report, "platform-duplicate", words, subject="good@a-good")
    assert (report.status, report.default) == (0, "good@fake-good")
    good_works(good, report)
    with good.runtime() as runtime:
        assert len(runtime.get_backend("good@a-good").devices()) == 2


def test_names_that_are_not_ascii(good, examine):
    good.add("größe", distribution="vertrieb-ü", version="1.0")
    good.add("bad", "raise OSError('grün \N{SNOWMAN}')")
    report = examine()
    only_finding(report, "plugin-import-failed", "grün \N{SNOWMAN}")
    (row,) = [row for row in report.plugins if row.platform == "größe"]
    assert (row.state, row.outcome) == ("eligible", "ok")
    good_works(good, report)


# -- manifests ------------------------------------------------------------------------------------


MANIFEST = "schema = 1\n[[backend]]\nplatform = 'bad'\n"
MANIFESTS = {
    "ten megabytes": (MANIFEST + "# " + "x" * 10_000_000, "10000"),
    "an unknown key": (MANIFEST + "prioritty = 5\n", "did you mean 'priority'"),
    "a value of the wrong type": (MANIFEST + "priority = 'high'\n", "must be an integer"),
    "no TOML": ("schema = ", "no TOML"),
    "another schema": ("schema = 99\n", "schema must be 1, not 99"),
    "NUL bytes": ("\0\0\0", "no TOML"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_manifests_that_are_not_valid(good, examine, case):
    manifest, words = MANIFESTS[case]
    good.package("bad", manifest, "raise AssertionError('imported')")
    report = examine()
    only_finding(report, "plugin-manifest-invalid", words)
    assert report.status == 1
    good_works(good, report)


def test_a_manifest_for_another_version_of_the_contract(good, examine):
    good.package("bad", MANIFEST + "api_version = 99\n", "raise AssertionError('imported')")
    report = examine()
    only_finding(report, "version-mismatch", "plugin contract 99")
    good_works(good, report)


def test_what_the_manifest_lacks_is_reported_without_an_import(good, examine):
    needs = "[[backend.requires]]\npath = 'no/such/file'\nreason = 'no card'\nremedy = 'Buy one.'\n"
    good.package("bad", MANIFEST + needs, "raise AssertionError('imported')")
    report = examine()
    (finding,) = report.findings
    assert (finding.code, finding.message) == ("platform-unavailable", "no card.")
    assert finding.remedy == "Buy one."
    assert report.status == 0
    good_works(good, report)


# -- what harms nobody ----------------------------------------------------------------------------

NOISE = {
    "prints a hundred megabytes": "print('x' * 100_000_000)",
    "prints what is no text": "import os; os.write(1, bytes(range(256)) * 4000)",
    "writes to every descriptor": (
        "import os\n"
        "for fd in range(3, 64):\n"
        "    try: os.write(fd, b'\\0{\"facts\": {}} garbage' * 99)\n"
        "    except OSError: pass"
    ),
    "closes its output": "import os; os.close(1); os.close(2)",
    "replaces its output": "import sys; sys.stdout = sys.stderr = None",
    "leaves a process that holds its pipes": (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], close_fds=False)"
    ),
    "leaves a thread": (
        "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()"
    ),
    "forks and goes on": "import os; os.fork()",
    "ignores signals": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "leaves an exit handler": "import atexit, os; atexit.register(os._exit, 9)",
}


@pytest.mark.parametrize("what", NOISE)
def test_noise_is_no_fault(good, add_at, examine, what):
    add_at("import", NOISE[what])
    report = examine()
    (row,) = [row for row in report.plugins if row.platform == "bad"]
    assert (row.state, row.outcome, report.status) == ("eligible", "ok", 0)
    good_works(good, report)


@pytest.mark.parametrize("place", PLACES)
def test_closing_the_pipe_of_the_answer_is_a_verdict(good, add_at, examine, place):
    add_at(place, "import os; os.closerange(3, 256); " + ("" if place == "import" else "return"))
    report = examine()
    finding = only_finding(report, "plugin-garbled", "spoiled the pipe")
    assert PLACES[place] in finding.message
    good_works(good, report)


def test_all_of_them_at_once(good, examine):
    ways = [code for code, *_ in DEADLY.values()]
    for number, code in enumerate([*ways, "raise SystemExit(1)", "import no_such_library"]):
        good.add(f"bad{number}", code)
    report = examine()
    errors = [f.code for f in report.findings if f.severity == "error"]
    assert sorted(errors) == [
        *["plugin-crashed"] * 2,
        *["plugin-exited"] * 2,
        "plugin-import-failed",
        "plugin-missing-dependency",
    ]
    assert (report.status, report.default) == (1, "good@fake-good")
    good_works(good, report)


CHOOSE = """
import devrt
print(devrt.default_backend(), len(devrt.devices()))
print(devrt.default_runtime().decide().chosen.ref.distribution)
"""


@pytest.mark.parametrize("place", ["import", "probe"])
@pytest.mark.parametrize("way", DEADLY)
def test_a_choice_with_isolated_probes_survives(good, add_at, run_python, way, place):
    add_at(place, DEADLY[way][0], priority=9)
    result = run_python("-c", CHOOSE, path=[good.path], DEVRT_PROBE="isolated")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "good 2\nfake-good\n"


DIES = {
    **{way: (code, words) for way, (code, _, words) in DEADLY.items()},
    "leaves": ("raise SystemExit(3)", "SystemExit"),
    "never ends": ("__import__('time').sleep(600)", "did not finish within 6 s"),
    "gives None": ("return None", "returned None"),
}
ASK = """
import devrt, os
for _ in range(2):
    try:
        devrt.devices("bad")
    except devrt.errors.BackendInitializationError as error:
        print(" ".join(str(error).split()))
print(devrt.get_backend("good").platform)
"""


@pytest.mark.parametrize("way", DIES)
def test_a_factory_that_dies_in_the_child_is_not_called_here(good, tmp_path, run_python, way):
    code, words = DIES[way]
    mark = tmp_path / "called"
    good.add("bad", make=f"open({str(mark)!r}, 'a').write('x '); {code}")
    environ = {"DEVRT_INIT_TIMEOUT": "6" if way == "never ends" else "90"}
    result = run_python("-c", ASK, path=[good.path], DEVRT_PROBE="isolated", **environ)
    assert result.returncode == 0, result.stderr
    first, second, platform = result.stdout.splitlines()
    assert (first, platform) == (second, "good")
    assert "'bad' could not be initialised by plugin fake-bad 1.0" in first
    assert "tried in a child process" in first
    assert words in first
    assert len(mark.read_text().split()) == 1, "the child called it, and nobody else"


def test_a_factory_that_works_in_the_child_is_called_here(good, run_python):
    result = run_python(
        "-c",
        "import devrt; print(devrt.get_backend('good').platform)",
        path=[good.path],
        DEVRT_PROBE="isolated",
    )
    assert (result.returncode, result.stdout) == (0, "good\n"), result.stderr

"""The kit as tests: pytest finds its plugin where devrt-core is installed."""

import sys
from importlib.metadata import entry_points

import pytest

from devrt.testing.conformance import all_cases
from support import run_python

pytest.importorskip("devrt_acme", reason="needs the example backend")


@pytest.fixture(autouse=True)
def is_installed():
    points = entry_points(group="pytest11", name="devrt")
    assert [point.value for point in points] == ["devrt.testing.pytest_plugin"], "run make setup"


@pytest.fixture
def run(tmp_path):
    """Run pytest in a folder with one test of its own."""
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*arguments, **how):
        where = ["--rootdir", tmp_path, tmp_path]
        return run_python("-m", "pytest", "-p", "no:cacheprovider", *arguments, *where, **how)

    return run


def test_nothing_of_it_runs_unless_a_plugin_is_named(run):
    assert "1 passed" in run("-q").stdout
    names = ("numpy", "devrt.testing.conformance", "devrt.contract", "devrt.plugins", "devrt_acme")
    code = f"import sys; import devrt.testing.pytest_plugin; print([n for n in {names} if n in "
    assert run_python("-c", f"{code}sys.modules])").stdout == "[]\n"


@pytest.mark.parametrize("processes", [(), ("-n2",)])
def test_each_case_is_an_item_beside_the_tests_that_are_there(run, processes):
    chosen = ("--devrt-level=load", "-k", "test_own or devices_are or topology")
    out = run("--devrt-plugin=acme", *chosen, "-v", *processes).stdout
    cases = [case.id for case in all_cases() if "devices_are" in case.id and case.level == "load"]
    for name in (*cases, "load.topology_round_trips"):
        assert f"conform[acme]::{name}" in out
    assert f"{len(cases) + 2} passed" in out


def test_cases_are_chosen_as_tests_are(run):
    out = run("--devrt-plugin=acme", "-k", "probe_answers").stdout
    assert "1 passed" in out
    assert "deselected" in out


def test_a_failure_says_what_came(run, plugins):
    plugins.add("one", make="import os; print('last words'); os._exit(3)")
    done = run(
        *("--devrt-plugin=one", "-k", "ids_are_unique_and_ordered"),
        status=1,
        PYTHONPATH=plugins.path,
    )
    assert "load.ids_are_unique_and_ordered crashed: ids are unique and in order" in done.stdout
    assert "came: the process ended with exit code 3 while its client was made" in done.stdout
    assert "contract: Device.id" in done.stdout
    assert "| last words" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--devrt-plugin=nobody"], "no installed plugin is called 'nobody'"),
        (["--devrt-plugin=acme", "--devrt-level=lod"], "there is no level 'lod'"),
    ],
)
def test_what_is_not_there_is_an_error_of_usage(run, arguments, words):
    done = run(*arguments, status=pytest.ExitCode.USAGE_ERROR)
    assert words in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert sys.executable not in done.stdout

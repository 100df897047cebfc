"""The kit on the example backend: what it reports, and on what command."""

import importlib
import inspect
import json

import pytest
from click.testing import CliRunner

from devrt.cli import main
from devrt.errors import InvalidArgumentError, UnknownPlatformError
from devrt.testing.conformance import LEVELS, Report, Status, Subject, all_cases, conform
from devrt.testing.conformance.runner import chosen_cases
from devrt.testing.conformance.subject import find_subject

pytest.importorskip("devrt_acme", reason="needs the example backend")


def test_cases_of_the_example_run_in_the_kits_order():
    named = [f"load.{n}" for n in ("topology_round_trips", "says_its_contract", "lists_are_copies")]
    seen = []
    report = conform("acme", "load", cases=named, on_result=seen.append)
    assert report.failures == ()
    assert report.ok
    assert [result.id for result in seen] == [c.id for c in all_cases() if c.id in named]
    assert [result.id for result in seen] != named
    assert report.results == tuple(seen)
    assert report.subject["distribution"] == "devrt-acme"
    assert report.subject["device_count"] == 2
    assert report.subject["experimental"] is True


def test_ids_are_unique_and_levels_in_order():
    ids = [case.id for case in all_cases()]
    assert len(ids) == len(set(ids))
    levels = [LEVELS.index(case.level) for case in all_cases()]
    assert levels == sorted(levels)


def test_a_report_is_written_and_read(tmp_path):
    report = conform("acme", cases=["load.probe_answers"])
    report.save(tmp_path / "r.json")
    assert Report.load(tmp_path / "r.json").to_dict() == report.to_dict()
    (tmp_path / "r.json").write_text('{"schema": 7}')
    with pytest.raises(InvalidArgumentError, match="form 7"):
        Report.load(tmp_path / "r.json")


def test_the_command_prints_the_report():
    done = CliRunner().invoke(main, ["conform", "acme", "--case", "load.probe_answers", "--json"])
    report = json.loads(done.stdout)
    assert (done.exit_code, report["ok"], report["schema"]) == (0, True, 1)
    done = CliRunner().invoke(main, ["conform", "acme", "--case", "load.probe_answers"])
    assert done.exit_code == 0
    assert "devrt-acme 0.1.0: 1 case passed" in done.stdout


@pytest.mark.parametrize("name", ["nobody", "./nothing.so"])
def test_a_subject_that_is_not_there(name):
    with pytest.raises(UnknownPlatformError, match=r"no installed plugin|is not there"):
        conform(name)


def test_levels_and_cases_that_are_not_there():
    with pytest.raises(InvalidArgumentError, match="no level 'lod'; levels: load, memory"):
        conform("acme", "lod")
    with pytest.raises(InvalidArgumentError, match=r"no case 'load.nothing'"):
        conform("acme", cases=["load.nothing"])
    with pytest.raises(InvalidArgumentError, match="is of level 'load', not of 'memory'"):
        conform("acme", "memory", cases=["load.probe_answers"])


def test_a_folder_is_no_library(tmp_path):
    with pytest.raises(UnknownPlatformError, match="is a folder, no PJRT library"):
        conform(str(tmp_path))


@pytest.mark.parametrize("option", ["--report", "--page"])
def test_what_cannot_be_written_is_refused_before_a_case_runs(tmp_path, option, monkeypatch):
    monkeypatch.setattr("devrt.cli.conform.conform", lambda *args, **kwargs: pytest.fail("it ran"))
    done = CliRunner().invoke(main, ["conform", "acme", option, str(tmp_path / "none" / "r.json")])
    assert done.exit_code == 1
    assert "cannot be written" in done.stderr


def test_a_configuration_file_is_a_subject(tmp_path):
    library = tmp_path / "libacme.so"
    library.write_bytes(b"")
    config = tmp_path / "acme_options.json"
    config.write_text(json.dumps({"library_path": str(library), "create_options": {"cores": 2}}))
    subject = Subject(find_subject(str(config)))
    assert (subject.platform, subject.library) == ("acme_options", str(library))
    assert subject.is_library
    assert subject.client_options == {"cores": 2}
    assert Subject(find_subject(str(library))).client_options == {}
    config.write_text("{}")
    with pytest.raises(UnknownPlatformError, match="library_path must be"):
        find_subject(str(config))


@pytest.mark.parametrize("module", ["case", "expect", "page"])
def test_an_import_of_a_module_leaves_the_function_of_its_name(module):
    from devrt.testing import conformance

    importlib.import_module(f"devrt.testing.conformance.{module}")
    assert inspect.isfunction(getattr(conformance, module))


def test_cases_of_libraries_are_for_libraries(tmp_path):
    pytest.importorskip("devrt_pjrt", reason="needs the loader of PJRT libraries")
    (tmp_path / "libacme.so").write_bytes(b"")
    of_library = chosen_cases(find_subject(str(tmp_path / "libacme.so")))
    assert {case.level for case in of_library} >= {"memory", "c_api"}
    assert not [case for case in chosen_cases(find_subject("acme")) if case.level == "c_api"]
    ids = [case.id for case in of_library]
    assert len(ids) == len(set(ids))


def test_what_is_no_pjrt_library_fails_the_cases_of_its_table(tmp_path):
    pytest.importorskip("devrt_pjrt", reason="needs the loader of PJRT libraries")
    (tmp_path / "libacme.so").write_bytes(b"no library")
    (result,) = conform(str(tmp_path / "libacme.so"), cases=["c_api.table_is_exported"]).results
    assert result.status is Status.FAILED
    assert "cannot be opened" in result.came

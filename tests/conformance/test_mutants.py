"""Faults planted into the example backends: each is caught by the case that is named for it.

The examples are copied and changed, and the copy comes before the installed one on the path of the
kit's child processes, as two installations of one distribution do. A row of each module of cases
belongs to the test-suite; the others have the mark ``mutants``.
"""

import dataclasses
import shutil
import tomllib
from pathlib import Path

import pytest

from devrt.testing.conformance import Status, Worker, all_cases, conform
from devrt.testing.conformance.subject import find_subject
from support import sample

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    row
    for file in sorted(Path(__file__).parent.glob("mutants*.toml"))
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]
]
KEYS = {"file", "old", "new", "case", "deadline"}
CASES = {case.id: case for case in all_cases()}


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Copy an example's package, and install the copy before the others; return its folder."""
    pytest.importorskip("devrt_acme", reason="needs the example backend")

    def copy():
        example = "devrt-acme"
        project = tomllib.loads((ROOT / "examples" / example / "pyproject.toml").read_text())
        name, package = project["project"]["name"], example.replace("-", "_")
        source = ROOT / "examples" / example / "src" / package
        shutil.copytree(source, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
        info = tmp_path / f"{package}-0.0.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.0\n")
        points = project["project"]["entry-points"]["devrt_plugins"]
        lines = "".join(f"{platform} = {module}\n" for platform, module in points.items())
        (info / "entry_points.txt").write_text(f"[devrt_plugins]\n{lines}")
        monkeypatch.syspath_prepend(str(tmp_path))
        (reference,) = [r for platform in points if (r := find_subject(f"{platform}@{name}"))]
        assert reference.version == "0.0.0", "the installed example comes before the copy"
        return tmp_path / package, reference

    return copy


def module_of(row):
    return CASES[row["case"]].check.__module__


NAMED = {f"{row['case']}-{number}": row for number, row in enumerate(ROWS)}


@pytest.mark.parametrize("row", sample(NAMED, module_of, pytest.mark.mutants))
def test_a_planted_fault_is_found_by_the_case_named_for_it(copied, row):
    folder, reference = copied()
    file = folder / row["file"]
    text = file.read_text(encoding="utf-8")
    assert text.count(row["old"]) == 1, f"{file.name} has no such text, or has it twice"
    text = text.replace(row["old"], row["new"])
    file.write_text(text, encoding="utf-8")
    case = CASES[row["case"]]
    case = dataclasses.replace(case, deadline=row.get("deadline", case.deadline))
    with Worker(reference, client_deadline=row.get("deadline")) as worker:
        result = worker.run(case)
    assert result.status.is_failure, f"{case.id} {result.status.words} {result.reason}"
    for mistake in ("SyntaxError", "NameError", "ImportError"):
        assert mistake not in result.came, "the row is wrong, not the backend"


def test_the_copy_without_a_fault_passes_the_cases_of_all_faults(copied):
    _, reference = copied()
    named = {row["case"] for row in ROWS}
    report = conform(reference.name, cases=sorted(named))
    assert report.subject["version"] == "0.0.0"
    assert [(found.id, found.came) for found in report.failures] == []
    passed = {found.id for found in report.results if found.status is Status.PASSED}
    assert named <= passed, "a case that does not apply finds nothing"


def test_every_row_is_whole():
    for row in ROWS:
        assert {"file", "old", "new", "case"} <= set(row) <= KEYS, row
        assert row["case"] in CASES
        assert row["old"] != row["new"]

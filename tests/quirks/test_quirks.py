"""The quirks' own cases, and what devrt does about each: with it none shows."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")
pytest.importorskip("devrt_pjrt")
pytest.importorskip("devrt_cpu")
sys.path.insert(0, str(Path(__file__).parent))

import cases
import report

from devrt.compiling.quirks import Quirk
from devrt.errors import UnimplementedError

NAMES = [quirk.case for quirk in report.QUIRKS]


@pytest.fixture(scope="module")
def library():
    return report.installed_library()


@pytest.fixture(params=["devrt_cpu", "devrt_pjrt"])
def client(request, library):
    """A client of the installed compiler, by each of the backends."""
    if request.param == "devrt_cpu":
        import devrt_cpu

        made = devrt_cpu.make_cpu_client()
    else:
        import devrt_pjrt

        made = devrt_pjrt.make_client(devrt_pjrt.library_for("quirks", library), "quirks")
    with made:
        yield made


@pytest.mark.parametrize("quirk", report.QUIRKS, ids=NAMES)
def test_a_quirk_is_there_in_the_version_that_it_names(quirk, library):
    assert report.outcome(quirk, library).startswith("there: ")


@pytest.mark.parametrize("quirk", report.QUIRKS, ids=NAMES)
def test_a_quirk_does_not_show(quirk, client):
    if quirk.subject:
        with pytest.raises(UnimplementedError, match="ends the process over"):
            getattr(cases, quirk.case)(client)
    else:
        getattr(cases, quirk.case)(client)


def test_every_case_belongs_to_a_quirk():
    others = {"main"}
    functions = {n for n, v in vars(cases).items() if callable(v) and v.__module__ == "cases"}
    assert {n for n in functions if n[0].islower()} - others == set(NAMES)


def test_a_quirk_that_is_gone_is_reported(library, monkeypatch, capsys):
    gone = Quirk("lib", (1,), (2,), "is slow", "module_that_does_nothing")
    monkeypatch.setattr(report, "QUIRKS", (gone,))
    assert report.main(library) == 1  # no such case: nothing is known of it
    assert "unknown: KeyError" in capsys.readouterr().out


def test_the_file_can_have_any_name(library, tmp_path):
    import devrt_pjrt

    other = tmp_path / "libother.so"
    other.symlink_to(library)
    with devrt_pjrt.make_client(devrt_pjrt.library_for("other", str(other)), "other") as client:
        cases.product_of_a_new_operand(client)


def test_what_is_not_known_by_its_content_is_left_alone(library, monkeypatch):
    """A library that calls itself by the same platform, of other versions."""
    import devrt_pjrt
    from devrt_pjrt import quirks

    opened = devrt_pjrt.library_for("quirks", library)
    assert quirks.quirks_of(opened, "cpu") == quirks.QUIRKS
    assert quirks.quirks_of(opened, "gpu") == ()
    known = {quirks.Identity("cpu", (0, 81), (1, 14, 0)): None}
    monkeypatch.setattr(quirks, "LIBRARIES", known)
    quirks.quirks_of.cache_clear()
    assert quirks.quirks_of(opened, "cpu") == ()
    quirks.quirks_of.cache_clear()

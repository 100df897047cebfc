"""The quirks' own cases, and what devrt does about each: with it none shows."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("devrt_pjrt")
pytest.importorskip("devrt_cpu")
sys.path.insert(0, str(Path(__file__).parent))

import cases
import report

from devrt.compiling.quirks import Quirk
from devrt.compiling.xla_cpu_quirks import QUIRKS
from devrt.errors import UnimplementedError
from devrt_cpu import _library

pytestmark = pytest.mark.engine
by_quirk = pytest.mark.parametrize(
    "quirk", QUIRKS, ids=[f"{quirk.case}-{quirk.library}" for quirk in QUIRKS]
)

OF_SOME_PROCESSORS = {"product_of_a_new_operand"}


def library_of(quirk):
    """Return the library that a quirk is of, where that is installed in that version."""
    for library in _library.installed():
        if quirk in library.quirks:
            return library
    pytest.skip(f"{quirk.library} is not installed")


@pytest.fixture(params=["devrt_cpu", "devrt_pjrt"])
def client(request, quirk):
    """A client of the quirk's compiler, by each of the backends."""
    library = library_of(quirk)
    if request.param == "devrt_cpu":
        import devrt_cpu

        made = devrt_cpu.make_cpu_client(cpu_engine=library.path)
    else:
        import devrt_pjrt

        made = devrt_pjrt.make_client(devrt_pjrt.library_for("quirks", library.path), "quirks")
    with made:
        yield made


@by_quirk
def test_a_quirk_is_there_in_the_version_that_it_names(quirk):
    found = report.outcome(quirk.case, library_of(quirk).path)
    if found == "gone" and quirk.case in OF_SOME_PROCESSORS:
        pytest.skip("this processor does not show it at any size: the library packs nothing on it")
    assert found.startswith("there: ")


@by_quirk
def test_a_quirk_does_not_show(quirk, client):
    if quirk.subject:
        with pytest.raises(UnimplementedError, match=re.escape(quirk.effect)):
            getattr(cases, quirk.case)(client)
    elif quirk.flags:
        getattr(cases, quirk.case)(client)


def test_every_case_belongs_to_a_quirk():
    others = {"main"}
    functions = {n for n, v in vars(cases).items() if callable(v) and v.__module__ == "cases"}
    assert {n for n in functions if n[0].islower()} - others == {q.case for q in QUIRKS}


def test_a_case_that_is_not_there_is_reported(cpu_library, capsys):
    gone = Quirk("lib", (1,), (2,), "is slow", "module_that_does_nothing")
    assert report.report(cpu_library.path, [gone]) == 1  # no such case: nothing is known of it
    assert "unknown: KeyError" in capsys.readouterr().out


@by_quirk
def test_the_file_can_have_any_name(quirk, tmp_path):
    import devrt_pjrt
    from devrt_pjrt import quirks

    other = tmp_path / "libother.so"
    other.symlink_to(library_of(quirk).path)
    opened = devrt_pjrt.library_for("other", str(other))
    with devrt_pjrt.make_client(opened, "other"):
        assert quirk in quirks.quirks_of(opened, "cpu")
    assert _library.choose(str(other)) == library_of(quirk)
    assert quirk in _library.Library(str(other)).quirks


def test_what_is_not_known_by_its_content_is_left_alone(cpu_library, monkeypatch):
    """A library that calls itself by the same platform, of other versions."""
    import devrt_pjrt
    from devrt_pjrt import quirks

    opened = devrt_pjrt.library_for("quirks", cpu_library.path)
    with devrt_pjrt.make_client(opened, "quirks"):
        assert quirks.quirks_of(opened, "cpu") == cpu_library.quirks
    assert quirks.quirks_of(opened, "gpu") == ()
    known = {quirks.Identity("cpu", opened.version, (1, 99, 0)): None}
    monkeypatch.setattr(quirks, "LIBRARIES", known)
    quirks.quirks_of.cache_clear()
    assert quirks.quirks_of(opened, "cpu") == ()
    quirks.quirks_of.cache_clear()

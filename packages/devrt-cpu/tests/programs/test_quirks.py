"""Which quirks hold: those of the version of the compiler's wheel."""

from importlib import metadata

import pytest

from devrt_cpu import _engine, quirks


@pytest.fixture
def installed(monkeypatch):
    """Return what holds for a version of the wheel; None for no wheel."""

    def answer(version):
        def found(_):
            if version is None:
                raise metadata.PackageNotFoundError
            return version

        monkeypatch.setattr(metadata, "version", found)
        quirks.installed.cache_clear()
        return quirks.installed()

    yield answer
    quirks.installed.cache_clear()


@pytest.mark.parametrize("version", ["0.0.1", "0.0.1.dev3", "0.0.1rc1+local"])
def test_the_version_in_which_they_were_seen_has_them(installed, version):
    assert installed(version) == quirks.QUIRKS


@pytest.mark.parametrize("version", [None, "0.0.2", "1", "nightly"])
def test_nothing_is_refused_of_other_versions_and_no_flag_is_set(installed, version):
    assert installed(version) == ()
    assert _engine._own_flags(_engine.Program(b"x" * 5000)) == {}

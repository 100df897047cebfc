"""What is known of releases of ROCm, by files as an installation has them."""

import importlib.metadata

import pytest

from devrt_rocm import _known_conflicts, _machine
from support import write


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Return a function that reads the release of a tree; XLA's plugin counts as installed."""
    monkeypatch.delenv("DEVRT_IGNORE_CONFLICTS", raising=False)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9.1")

    def read(text):
        write(tmp_path, "opt/rocm/lib/libamdhip64.so.7")
        write(tmp_path, "opt/rocm/.info/version", f"{text}\n")
        return _machine.rocm_release(_machine.runtime_library(tmp_path, {}))

    return read


@pytest.mark.parametrize("text", ["7.2.0", "7.2.0-43"])
def test_a_release_with_a_known_defect(release, text):
    (found,) = _known_conflicts.findings(release(text))
    assert (found.code, found.severity) == ("rocm-7-2-0-xla", "warning")
    assert found.message.startswith(f"ROCm {text}: ")
    assert "https://github.com/ROCm/TheRock/issues/7891" in found.message
    assert "DEVRT_IGNORE_CONFLICTS=rocm-7-2-0-xla" in found.remedy


@pytest.mark.parametrize("text", ["7.1.1-38", "7.2.1", "7.2.01", ""])
def test_others_have_none(release, text):
    assert list(_known_conflicts.findings(release(text))) == []


def test_it_can_be_passed_over(release, monkeypatch):
    monkeypatch.setenv("DEVRT_IGNORE_CONFLICTS", "rocm-7-2-0-xla")
    assert list(_known_conflicts.findings(release("7.2.0"))) == []


def test_it_is_about_programs_and_so_about_the_plugin(release, monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert list(_known_conflicts.findings(release("7.2.0"))) == []

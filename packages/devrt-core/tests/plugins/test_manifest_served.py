"""A manifest against the entry points of its package, and one of a later schema."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from devrt.doctor import diagnose
from devrt.plugins import PluginRegistry

MANIFEST = 'schema = 1\n[[backend]]\nplatform = "acme2"\n'


RAISES = "raise AssertionError"


def test_a_backend_that_no_entry_point_is_called_like_is_refused(plugins):
    module = plugins.package("acme2", MANIFEST.replace("acme2", "acme3"), RAISES)
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert candidate.state.phase == "manifest"
    assert "backend[0] is of platform 'acme3'" in candidate.state.reason
    assert "are called 'acme2'; the two names must be the same" in candidate.state.reason
    assert module not in sys.modules


def loop(path):
    path.symlink_to(path.name)


NO_FILES = {
    "folder": (Path.mkdir, "it is no regular file"),
    "FIFO": (os.mkfifo, "it is no regular file"),
    "link loop": (loop, "it cannot be read"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "it is no regular file"),
}


@pytest.mark.parametrize(("make", "why"), NO_FILES.values(), ids=NO_FILES)
def test_a_manifest_that_is_no_file_is_broken_and_not_read(plugins, make, why):
    module = plugins.package("acme2", "", RAISES)
    make(plugins.path / "acme2_pkg" / "devrt.toml")
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert candidate.state.phase == "manifest"
    assert why in candidate.state.reason
    assert module not in sys.modules


def test_a_manifest_may_say_something_of_each_of_several_entry_points(plugins):
    second = '\n[[backend]]\nplatform = "acme3"\n'
    plugins.package("acme2", MANIFEST + "priority = 3" + second, RAISES)
    points = next(plugins.path.glob("fake_acme2-*")) / "entry_points.txt"
    points.write_text(points.read_text() + "acme3 = acme2_pkg.plugin\n")
    importlib.invalidate_caches()
    registry = PluginRegistry(plugins.refs)
    assert registry.manifest(plugins.ref("acme2")).priority == 3
    assert registry.manifest(plugins.ref("acme3")).platform == "acme3"


def test_a_manifest_of_a_later_schema_asks_for_a_later_devrt(plugins):
    plugins.package("acme2", "schema = 2\nnews = true\n", RAISES)
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert "its schema must be 1, not 2, which is a later one" in candidate.state.reason
    assert candidate.state.remedy.startswith("Upgrade devrt-core with: pip install --upgrade ")
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=plugins.path)
    (found,) = [f for f in report.findings if "schema" in f.message and f.subject != "default"]
    assert "--upgrade" in found.command
    assert "devrt-core" in found.command
    assert "acme2" not in found.command

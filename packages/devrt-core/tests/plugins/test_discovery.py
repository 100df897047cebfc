"""Which plugins are installed: the fast look at folders against importlib.metadata."""

import importlib.metadata
import os
import re
import shutil
import sys
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

import pluggy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import devrt
from devrt.plugins import ENTRY_POINT_GROUP, PluginRef, installed_plugins
from devrt.plugins.discovery import installed
from devrt.plugins.discovery.adopted import is_like
from devrt.plugins.discovery.refs import normalized
from support import run_python

PLATFORM = st.from_regex(r"[a-z][a-z0-9_.\-]{0,8}", fullmatch=True)
DISTRIBUTION = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,4}([._\-][A-Za-z0-9]{1,3})?", fullmatch=True)
MODULE = st.from_regex(r"[a-z_]{1,6}(\.[a-z_]{1,6})?", fullmatch=True)
BLANKS = st.sampled_from(["", " ", "\t", "  "])
EXTRAS = st.sampled_from(["", " [extra]", "[a,b]", " [a, b] "])


@st.composite
def lines(draw):
    """Return one line of a group: an entry point, a comment or nothing."""
    blank = [draw(BLANKS) for _ in range(4)]
    comment = draw(st.sampled_from(["", "#", "# a = b", f"# [{ENTRY_POINT_GROUP}]"]))
    point = "".join(
        (blank[0], draw(PLATFORM), blank[1], "=", blank[2], draw(MODULE), draw(EXTRAS), blank[3])
    )
    return draw(st.sampled_from([point, point, blank[0] + comment]))


@st.composite
def files(draw):
    """Return the text of an ``entry_points.txt`` with several groups."""
    groups = st.sampled_from(
        [ENTRY_POINT_GROUP, ENTRY_POINT_GROUP, "console_scripts", "devrt_plugins2", "x.y"]
    )
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    parts = draw(st.lists(st.tuples(groups, st.lists(lines(), max_size=4)), max_size=4))
    return newline.join(
        text for group, content in parts for text in (draw(BLANKS) + f"[{group}]", *content, "")
    )


def by_standard_library(folders):
    """Return what ``importlib.metadata`` finds, by its own parser and its own rule on names."""
    seen, found = set(), set()
    for dist in importlib.metadata.distributions(path=[str(folder) for folder in folders]):
        key = dist.name.lower().replace("_", "-").replace(".", "-")
        if key in seen:
            continue
        seen.add(key)
        found |= {
            PluginRef(point.name, dist.name, dist.version, point.value.split("[")[0].strip())
            for point in dist.entry_points
            if point.group == ENTRY_POINT_GROUP
        }
    return tuple(sorted(found))


def found(*folders):
    return installed_plugins([str(folder) for folder in folders])


@settings(max_examples=60)
@given(
    folders=st.lists(
        st.dictionaries(
            DISTRIBUTION, st.tuples(files(), st.sampled_from(["dist-info", "egg-info"])), max_size=3
        ),
        min_size=1,
        max_size=3,
    )
)
def test_the_fast_look_equals_the_standard_library(tmp_path_factory, folders, write_distribution):
    root = tmp_path_factory.mktemp("sites")
    paths = []
    for number, distributions in enumerate(folders):
        paths.append(root / str(number))
        paths[-1].mkdir()
        unique = {name.lower().replace("_", "-").replace(".", "-"): name for name in distributions}
        for name in unique.values():
            text, kind = distributions[name]
            write_distribution(paths[-1], name, text, version=f"1.{number}", kind=kind)
    assert found(*paths) == by_standard_library(paths)


def test_a_plugin_is_described_without_being_imported(plugins):
    module = plugins.add("acme2", "raise AssertionError", distribution="My-Acme", version="2.5")
    assert plugins.refs() == (PluginRef("acme2", "My-Acme", "2.5", module),)
    ref = plugins.ref("acme2")
    assert (ref.name, str(ref)) == ("acme2@My-Acme", "My-Acme 2.5")
    assert ref.source == "entry point (devrt_plugins)"
    assert module not in sys.modules


def test_one_distribution_may_bring_several_platforms(tmp_path, write_distribution):
    write_distribution(tmp_path, "two", "[devrt_plugins]\nb = m.b\na = m.a\n")
    assert found(tmp_path) == (
        PluginRef("a", "two", "1.0", "m.a"),
        PluginRef("b", "two", "1.0", "m.b"),
    )


def test_platforms_are_lower_case_as_they_are_requested(tmp_path, write_distribution):
    write_distribution(tmp_path, "loud", "[devrt_plugins]\nLOUD = Mod.Ule\n")
    assert found(tmp_path) == (PluginRef("loud", "loud", "1.0", "Mod.Ule"),)


@pytest.mark.parametrize(
    "text", ["", "[devrt_plugins]", "devrt_plugins", "[devrt_plugins]\nno separator\n", "\x00\n=\n"]
)
def test_a_file_without_entry_points_is_no_plugin(tmp_path, text, write_distribution):
    write_distribution(tmp_path, "empty", text)
    assert found(tmp_path) == ()


def test_bytes_that_are_no_text_hide_nothing_else(tmp_path, write_distribution):
    info = write_distribution(tmp_path, "unusual", "")
    text = b"[other]\n\xff\xfe = \x80\n[devrt_plugins]\nunusual = m\n"
    (info / "entry_points.txt").write_bytes(text)
    write_distribution(tmp_path, "good", "[devrt_plugins]\ngood = g\n")
    assert [ref.platform for ref in found(tmp_path)] == ["good", "unusual"]


def test_names_that_are_not_ascii(tmp_path, write_distribution):
    write_distribution(tmp_path, "gerät", "[devrt_plugins]\ngerät = gerät.modul\n")
    assert found(tmp_path) == (PluginRef("gerät", "gerät", "1.0", "gerät.modul"),)


@pytest.mark.parametrize("other", ["Same.Name", "same_name", "SAME-NAME"])
def test_the_earlier_folder_counts_however_the_name_is_spelt(tmp_path, other, write_distribution):
    first, second = tmp_path / "first", tmp_path / "second"
    write_distribution(first, "same-name", "[devrt_plugins]\na = one\n", version="1.0")
    write_distribution(second, other, "[devrt_plugins]\na = two\n", version="2.0")
    assert found(first, second) == (PluginRef("a", "same-name", "1.0", "one"),)
    assert found(second, first) == (PluginRef("a", other, "2.0", "two"),)
    assert found(second, first) == by_standard_library([second, first])


def test_an_earlier_version_without_the_plugin_hides_a_later_one_with_it(
    tmp_path, write_distribution
):
    write_distribution(tmp_path / "first", "same", "")
    write_distribution(tmp_path / "second", "same", "[devrt_plugins]\na = two\n")
    assert found(tmp_path / "first", tmp_path / "second") == ()


def test_a_folder_named_twice_counts_once(tmp_path, write_distribution):
    write_distribution(tmp_path, "one", "[devrt_plugins]\na = m\n")
    assert len(found(tmp_path, tmp_path)) == 1


def test_folders_that_cannot_be_read_are_passed_over(tmp_path, write_distribution):
    closed = tmp_path / "closed"
    write_distribution(closed, "hidden", "[devrt_plugins]\nhidden = m\n")
    write_distribution(tmp_path / "open", "seen", "[devrt_plugins]\nseen = m\n")
    closed.chmod(0)
    try:
        expected = ["hidden", "seen"] if os.access(closed, os.R_OK) else ["seen"]
        refs = found(tmp_path / "none", closed, tmp_path / "open")
    finally:
        closed.chmod(0o755)
    assert [ref.platform for ref in refs] == expected


def test_metadata_that_is_missing_leaves_the_folder_to_speak(tmp_path, write_distribution):
    info = write_distribution(tmp_path, "bare", "[devrt_plugins]\nbare = m\n", version="3.1")
    (info / "METADATA").unlink()
    assert found(tmp_path) == (PluginRef("bare", "bare", "3.1", "m"),)


def test_metadata_folders_that_are_files(tmp_path):
    (tmp_path / "old-1.0.egg-info").write_text("Name: old\n")
    (tmp_path / "unusual-1.0.dist-info").write_text("")
    assert found(tmp_path) == ()


def zipped(path, root=""):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{root}zipped-1.2.dist-info/METADATA", "Name: zipped\nVersion: 1.2\n")
        archive.writestr(
            f"{root}zipped-1.2.dist-info/entry_points.txt", "[devrt_plugins]\nzip = z [extra]\n"
        )
    return path


def test_a_zip_archive_is_left_to_the_standard_library(tmp_path, write_distribution):
    archive = zipped(tmp_path / "site.zip")
    write_distribution(tmp_path / "plain", "plain", "[devrt_plugins]\nplain = p[extra]\n")
    assert found(tmp_path / "plain", archive) == (
        PluginRef("plain", "plain", "1.0", "p"),
        PluginRef("zip", "zipped", "1.2", "z"),
    )


def test_the_standard_library_sees_into_an_archive(tmp_path, write_distribution):
    source = tmp_path / "source"
    for name, platform in (("one", "acme"), ("Two.Dist", "zap")):
        write_distribution(source, name, f"[devrt_plugins]\n{platform} = m\n")
    archive = shutil.make_archive(str(tmp_path / "site"), "zip", source)
    refs = found(archive)
    assert [(ref.platform, ref.distribution) for ref in refs] == [
        ("acme", "one"),
        ("zap", "Two.Dist"),
    ]


def test_the_library_that_puts_a_finder_in_place_changes_nothing(tmp_path, write_distribution):
    pytest.importorskip("importlib_metadata")
    write_distribution(tmp_path, "one", "[devrt_plugins]\none = m\n")
    assert installed._plain([str(tmp_path)])
    assert [ref.platform for ref in found(tmp_path)] == ["one"]


def test_a_distribution_without_metadata_in_an_archive(tmp_path):
    info = tmp_path / "source" / "unusual-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[devrt_plugins]\nunusual = m\n")
    archive = shutil.make_archive(str(tmp_path / "site"), "zip", tmp_path / "source")
    assert [ref.platform for ref in found(archive)] == ["unusual"]


def test_an_egg_is_left_to_the_standard_library(tmp_path):
    egg = tmp_path / "old-1.0.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    (egg / "EGG-INFO" / "PKG-INFO").write_text("Name: old\nVersion: 1.0\n")
    (egg / "EGG-INFO" / "entry_points.txt").write_text("[devrt_plugins]\nold = m\n")
    assert found(egg) == (PluginRef("old", "old", "1.0", "m"),)


def test_one_broken_file_does_not_keep_the_standard_library_from_the_others(
    tmp_path, write_distribution
):
    archive = zipped(tmp_path / "site.zip")
    write_distribution(tmp_path / "plain", "broken", "[devrt_plugins]\nno separator\n")
    assert [ref.platform for ref in found(tmp_path / "plain", archive)] == ["zip"]


def test_a_foreign_finder_is_queried_too(plugins, monkeypatch, tmp_path, write_distribution):
    plugins.add("here")
    write_distribution(tmp_path / "elsewhere", "away", "[devrt_plugins]\naway = m\n")

    class Finder:
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            return None

        @classmethod
        def find_distributions(cls, context=None):
            folder = str(tmp_path / "elsewhere")
            yield from importlib.metadata.MetadataPathFinder.find_distributions(
                importlib.metadata.DistributionFinder.Context(path=[folder])
            )

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert {"here", "away"} <= {ref.platform for ref in installed_plugins()}


def test_sys_path_is_searched_by_default(plugins):
    plugins.add("here")
    refs = installed_plugins()
    assert "here" in {ref.platform for ref in refs}
    # Wheels that were made for others advertise themselves in groups of their own.
    own = {ref for ref in refs if not ref.library and ref.distribution != "devrt-acme"}
    assert own <= set(by_standard_library(sys.path))


AUDIT = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append((event, args[0]))
                 if event in ("import", "ctypes.dlopen", "exec") else None)
from devrt.plugins import installed_plugins
before, opened[:] = set(sys.modules), []
refs = installed_plugins()
assert {"one", "two"} <= {ref.platform for ref in refs}, refs
print([o for o in opened if o[0] != "import"], sorted(set(sys.modules) - before))
print("importlib.metadata" in sys.modules)
"""


def test_listing_imports_and_opens_nothing(plugins, run_python, tmp_path):
    for platform in ("one", "two"):
        plugins.add(platform, "raise AssertionError('imported')")
    # devrt and what it needs, and none of this environment's wheels: where one of them was made
    # for others, a table is read.
    alone = tmp_path / "alone"
    alone.mkdir()
    for module in (devrt, pluggy):
        folder = os.path.dirname(module.__file__)
        (alone / os.path.basename(folder)).symlink_to(folder)
    standard = [path for path in sys.path if "site-packages" not in path]
    path = [*standard, str(alone), plugins.path]
    result = run_python("-S", "-c", AUDIT, path=path)
    assert result.stdout == "[] []\nFalse\n", result.stderr


@given(st.text("ab*.", max_size=8), st.text("ab*.", max_size=6))
@example("a", "a*a")
def test_names_are_like_patterns_as_fnmatch_says(name, pattern):
    assert is_like(name, pattern) == fnmatchcase(name, pattern)


@given(st.text("aB-_. ", max_size=12))
def test_names_are_normalized_as_the_specification_says(name):
    assert normalized(name) == re.sub(r"[-_.]+", "-", name).lower()


LISTING = """
import sys
sys.path[:0] = [sys.argv[1]]
from devrt.plugins import discover_plugins
found = discover_plugins(sys.argv[2:])
slow = {"re", "enum", "functools", "collections", "typing", "tomllib", "fnmatch"}
print([ref.platform for ref in found if not ref.problem], sorted(slow & set(sys.modules)))
"""


def test_a_listing_imports_nothing_that_takes_longer_than_it(tmp_path, write_distribution):
    write_distribution(tmp_path, "mine", f"[{ENTRY_POINT_GROUP}]\nmine = mine.plugin\n")
    write_distribution(tmp_path, "theirs", "[jax_plugins]\ntheirs = jax_plugins.theirs\n")
    library = tmp_path / "jax_plugins" / "theirs" / "pjrt_plugin_theirs.so"
    library.parent.mkdir(parents=True)
    library.touch()
    source = str(Path(devrt.__file__).parents[1])
    output = run_python("-S", "-E", "-c", LISTING, source, tmp_path)
    assert output.stdout.strip() == "['mine', 'theirs'] []"

"""Which traits count for a library: by its file, its name, what it offers and what it says."""

import os

import pytest

import devrt_pjrt
from devrt.errors import InvalidArgumentError
from devrt.records import PluginTraits
from devrt_pjrt.traits import Traits

ACME = PluginTraits(patterns=("acme*", "libacme*"), extensions=(40,), platforms=("acme",))
ZAP = PluginTraits(patterns=("*zap*",), platforms=("zap",))


def traits(name="x", path="", extensions=()):
    return Traits((ACME, ZAP), name, path, extensions)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (traits("acme"), ACME),
        (traits("ACME1"), ACME),
        (traits("x", "/opt/libacme.so"), ACME),
        (traits("acme", "/opt/the_zap_plugin.so"), ZAP),  # the file's name is the maker's
        (traits(extensions={1, 40}), ACME),
        (traits("zap", extensions={40}), ZAP),
        (traits("x", "/acme/x.so"), PluginTraits()),
    ],
)
def test_traits_count_for_libraries_that_they_are_about(found, wanted):
    assert found.of_library == wanted


def test_the_librarys_own_word_decides_once_it_is_known():
    assert traits("acme").of_platform("zap") is ZAP
    assert traits("acme").of_platform("another") is ACME
    assert traits("acme").of_platform("cpu").runs_on_caller


def test_an_open_library_has_the_traits_that_it_was_opened_with(child):
    done = child(
        """
        from devrt.records import PluginTraits
        fakes = PluginTraits(platforms=("fake",), dlpack_device=7)
        opened = pjrt.library_for("with_traits", FAKE, traits=[fakes])
        print(opened.traits == PluginTraits(), opened.traits_for("fake") is fakes)
        print(library("again") is opened, pjrt.make_client(opened, "x").connection.traits is fakes)
        """
    )
    assert done.stdout == "True True\nTrue True\n", done.stderr


def test_traits_adapt_options_topologies_and_the_environment(child):
    done = child(
        """
        import os
        from devrt.records import PluginTraits
        os.environ["FAKE_SET"] = "mine"
        def refuse(options):
            if "old" in options: raise errors.InvalidArgumentError("old is gone")
            return {}
        made = []
        def named(name, options):
            made.append((name, options))
            raise errors.InvalidArgumentError("no such topology")
        traits = PluginTraits(
            patterns=("fake*",), adapt_options=refuse, adapt_topology=named,
            environment=lambda: {"FAKE_SET": "devrt's", "FAKE_OTHER": "devrt's"},
            client_options={"number": int}, topology_options={"number": int})
        opened = pjrt.library_for("fake", FAKE, traits=[traits])
        print(raised(pjrt.make_client, opened, "fake", {"old": 1}).message)
        print(raised(pjrt.make_topology, opened, "fake", "2x2", {"number": "1"}).option)
        print(raised(pjrt.make_topology, opened, "fake", "2x2", {"number": 1}).message, made)
        pjrt.make_client(opened, "fake", {"number": "1"}).close()
        print(os.environ["FAKE_SET"], os.environ["FAKE_OTHER"])
        """
    )
    assert done.stdout.splitlines() == [
        "old is gone",
        "number",
        "no such topology [('2x2', {'number': 1})]",
        "mine devrt's",
    ], done.stderr


def test_options_of_the_hosts_library_are_refused_whatever_its_file_is_called(
    xla_cpu_library, tmp_path
):
    os.symlink(xla_cpu_library, tmp_path / "other.so")
    library = devrt_pjrt.library_for("other", str(tmp_path / "other.so"))
    for options in ({"bogus": 1}, {"cpu_device_count": 5000}, {"cpu_device_count": -1}):
        with pytest.raises(InvalidArgumentError, match=r"has no option 'bogus'|must be from 1 to"):
            devrt_pjrt.make_client(library, "other", options)

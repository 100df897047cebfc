"""What plugins say of PJRT libraries: found by their manifests, and handed to the loader."""

import sys
import textwrap

import pytest

from devrt.errors import PluginContractError
from devrt.plugins import PluginRegistry
from devrt.plugins.catalogue import Callbacks

TRAITS = """
    from devrt.hookspecs import hookimpl
    from devrt.records import Available, ClientFactory, PluginTraits

    @hookimpl
    def devrt_client_factories():
        return [ClientFactory(platform="{name}", factory=print)]

    @hookimpl
    def devrt_plugin_traits():
        return {traits}
"""
ONE = '[PluginTraits(patterns=("lib{name}*",), platforms=("{name}",))]'


@pytest.fixture
def add_traits(plugins, write_distribution):
    """Return a function that installs a plugin which brings traits."""

    def add(name, traits=ONE, says="true"):
        folder = plugins.path / f"{name}_pkg"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        source = textwrap.dedent(TRAITS).replace("{traits}", traits).replace("{name}", name)
        (folder / "plugin.py").write_text(source)
        manifest = f'schema = 1\n[[backend]]\nplatform = "{name}"\nplugin_traits = {says}\n'
        (folder / "devrt.toml").write_text(manifest)
        points = f"[devrt_plugins]\n{name} = {name}_pkg.plugin\n"
        write_distribution(plugins.path, f"{name}-dist", points)

    return add


def platforms(traits):
    return [one.platforms for one in traits]


def test_only_plugins_whose_manifest_says_so_are_imported_for_traits(plugins, add_traits):
    add_traits("acme")
    add_traits("zap", says="false")
    assert platforms(PluginRegistry(plugins.refs).plugin_traits()) == [("acme",)]
    assert "zap_pkg.plugin" not in sys.modules


def test_a_plugin_that_is_forbidden_or_fails_brings_none(plugins, add_traits):
    add_traits("acme")
    add_traits("bad", traits="[1]")
    add_traits("zap")
    callbacks = Callbacks(forbidden=lambda: ["zap"])
    found = PluginRegistry(plugins.refs, callbacks)
    assert platforms(found.plugin_traits()) == [("acme",)]
    with pytest.raises(PluginContractError, match="must return PluginTraits records, not int"):
        found.load(plugins.ref("bad"))
    assert "zap_pkg.plugin" not in sys.modules


def test_what_traits_cannot_be_is_refused(plugins, add_traits):
    add_traits("acme", traits="[PluginTraits(patterns='libacme')]")
    with pytest.raises(PluginContractError, match=r"PluginTraits.patterns cannot be 'libacme'"):
        PluginRegistry(plugins.refs).load(plugins.ref("acme"))


def test_the_loader_is_handed_what_plugins_say(plugins, add_traits, add_loader):
    add_traits("acme")
    use = "PjrtLoader(make_client=make_client, use_traits=calls.append)"
    module = add_loader(use)
    found = PluginRegistry(plugins.refs)
    found.pjrt_loader()
    (find,) = sys.modules[module].calls
    assert "acme_pkg.plugin" not in sys.modules  # only once a library is opened
    assert platforms(find()) == [("acme",)]

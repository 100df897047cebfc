"""What plugins say of PJRT libraries: found by their manifests, and handed to the loader."""

import sys
import textwrap

import pytest

from devrt.errors import DevrtError, InvalidArgumentError, PluginContractError, PluginError
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
def add_traits(plugins):
    """Return a function that installs a plugin which brings traits."""

    def add(name, traits=ONE, says="true"):
        source = textwrap.dedent(TRAITS).replace("{traits}", traits).replace("{name}", name)
        manifest = f'schema = 1\n[[backend]]\nplatform = "{name}"\nplugin_traits = {says}\n'
        plugins.package(name, manifest, source, distribution=f"{name}-dist")

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


def test_traits_that_no_manifest_tells_of_are_refused_and_the_reverse(plugins, add_traits):
    add_traits("acme", says="false")
    add_traits("zap")
    source = plugins.path / "zap_pkg" / "plugin.py"
    source.write_text(source.read_text().split("@hookimpl\ndef devrt_plugin_traits")[0])
    found = PluginRegistry(plugins.refs)
    with pytest.raises(PluginContractError, match="devrt_plugin_traits and no manifest with plug"):
        found.load(plugins.ref("acme"))
    with pytest.raises(PluginContractError, match="plugin_traits = true, and it has no hook"):
        found.load(plugins.ref("zap"))


@pytest.mark.parametrize("value", ["{'cores': 'int'}", "{1: int}", "{'cores': (int, 'x')}", "7"])
def test_types_of_options_are_types(plugins, add_traits, value):
    add_traits("acme", traits=f"[PluginTraits(client_options={value})]")
    with pytest.raises(PluginContractError, match=r"PluginTraits.client_options cannot be"):
        PluginRegistry(plugins.refs).load(plugins.ref("acme"))


CALLS = {
    "environment": (),
    "adapt_options": ({},),
    "adapt_topology": ("", {}),
    "compiler_flags": (),
}


@pytest.mark.parametrize("field", CALLS)
def test_an_error_in_traits_names_the_plugin_and_the_field(plugins, add_traits, field):
    add_traits("acme", traits=f"[PluginTraits({field}=lambda *_: {{}}['x'])]")
    add_traits("zap", traits=f"[PluginTraits({field}=lambda *_: 7)]")
    raising, returning = PluginRegistry(plugins.refs).plugin_traits()
    with pytest.raises(
        PluginError, match=rf"PluginTraits.{field} .*acme-dist.* KeyError"
    ) as caught:
        getattr(raising, field)(*CALLS[field])
    assert (caught.value.data["plugin"], caught.value.data["field"]) == ("acme-dist", field)
    with pytest.raises(PluginContractError, match=rf"zap-dist.*{field} must return .*, not 7"):
        getattr(returning, field)(*CALLS[field])


def test_errors_of_devrt_that_traits_raise_stay_as_they_are(plugins, add_traits):
    add_traits("acme", traits="[PluginTraits(adapt_options=refuse)]")
    source = plugins.path / "acme_pkg" / "plugin.py"
    refuse = "def refuse(options):\n    from devrt.errors import InvalidArgumentError\n"
    source.write_text(
        f"{refuse}    raise InvalidArgumentError('old is gone')\n{source.read_text()}"
    )
    (traits,) = PluginRegistry(plugins.refs).plugin_traits()
    with pytest.raises(InvalidArgumentError, match="old is gone"):
        traits.adapt_options({})


@pytest.mark.parametrize("explain", ["lambda error: {}['x']", "lambda error: 7", "lambda: None"])
def test_a_compilers_error_stays_where_explaining_it_fails(plugins, add_traits, explain):
    add_traits("acme", traits=f"[PluginTraits(explain={explain})]")
    (traits,) = PluginRegistry(plugins.refs).plugin_traits()
    error = DevrtError("the compiler failed")
    assert traits.explain(error) is error

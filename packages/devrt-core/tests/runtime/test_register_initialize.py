"""What a plugin's loader of PJRT libraries, and a module with initialize(), may do wrong."""

import sys

import pytest

import devrt
from devrt.errors import DiscoveryWarning, PluginContractError, PluginLoadError
from devrt.plugins import PluginRegistry
from devrt.runtime import Runtime, default_runtime

LOADER = "PjrtLoader(make_client=make_client, check=check)"


@pytest.fixture
def runtime(plugins, as_default):
    return as_default(plugins.runtime())


# -- the loader's own contract --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loader", "says", "words"),
    [
        ("None", "true", "devrt_pjrt_loader must return a PjrtLoader, not None"),
        ("[1]", "true", "must return a PjrtLoader, not list"),
        ("PjrtLoader(make_client=5)", "true", "PjrtLoader.make_client cannot be 5"),
        ("PjrtLoader(make_client=print, check=5)", "true", "PjrtLoader.check cannot be 5"),
        ("PjrtLoader(make_client=print, make_topology=5)", "true", "make_topology cannot be 5"),
        (LOADER, "false", "the hook devrt_pjrt_loader and no manifest with pjrt_loader = true"),
        (LOADER, "", "has the hook devrt_pjrt_loader and no manifest with pjrt_loader = true"),
    ],
)
def test_a_loader_that_breaks_the_contract(plugins, add_loader, loader, says, words):
    add_loader(loader, says)
    found = PluginRegistry(plugins.refs)
    with pytest.raises(PluginContractError) as caught:
        found.load(plugins.ref("loading"))
    assert words in str(caught.value)
    assert found.pjrt_loader().reason == "no installed plugin can load PJRT libraries"


# -- modules with initialize() --------------------------------------------------------------------

PORTED = """
    import os, pathlib
    from devrt.runtime import register_plugin
    count = []
    def initialize():
        count.append(1)
        path = pathlib.Path(__file__).with_name("libzap.so")
        register_plugin("zap", priority=7, library_path=str(path), options={"count": 2})
"""


def test_a_module_with_initialize_is_called_and_its_backend_is_its_distributions(
    runtime, plugins, add_loader
):
    add_loader()
    (plugins.path / "libzap.so").write_bytes(b"")
    module = plugins.add("zap", PORTED, version="3.2")
    assert devrt.device_count("zap") == 2
    chosen = runtime.decide("zap").chosen
    assert (str(chosen.ref), chosen.priority) == ("fake-zap 3.2", 7)
    assert sys.modules[module].count == [1]
    assert "zap@(code)" not in {ref.name for ref in runtime.plugins.refs()}
    devrt.clear_backends()
    assert devrt.device_count("zap") == 2
    assert sys.modules[module].count == [1]


def test_a_runtime_that_is_not_the_default_one_gets_what_it_loads(plugins, as_default):
    as_default(Runtime(discover=tuple))
    source = """
        from devrt.runtime import register_backend_factory
        def make():
            from devrt_acme.client import AcmeClient
            return type("ZapClient", (AcmeClient,), {"platform": "zap"})(2)
        def initialize():
            register_backend_factory("zap", make, priority=3, make_topology=dict)
    """
    plugins.add("zap", source)
    with plugins.runtime() as mine:
        assert mine.get_backend("zap").device_count() == 2
        assert [t.platform for t in mine.plugins.load(plugins.ref("zap")).topologies] == ["zap"]
    assert default_runtime().plugins.refs() == ()


@pytest.mark.parametrize(
    ("initialize", "kind", "words"),
    [
        ("pass", PluginContractError, "registered no backend"),
        ("1 / 0", PluginLoadError, "ZeroDivisionError"),
        ("raise SystemExit(3)", PluginLoadError, "SystemExit: 3"),
        ("register_plugin('other', c_api=1)", PluginContractError, "is for 'other'"),
        ("register_plugin('zap')", PluginLoadError, "either a library_path or a c_api"),
        (
            "register_plugin('zap', c_api=1); register_plugin('zap', c_api=1)",
            PluginContractError,
            "two client factories for platform 'zap'",
        ),
        ("register_plugin('zap', priority='top', c_api=1)", PluginLoadError, "not 'top'"),
    ],
)
def test_an_initialize_that_fails(plugins, initialize, kind, words):
    source = f"from devrt.runtime import register_plugin\ndef initialize():\n    {initialize}\n"
    plugins.add("zap", source)
    plugins.add("good")
    with plugins.runtime() as runtime:
        for _ in range(2):
            with pytest.raises(kind) as caught:
                runtime.plugins.load(plugins.ref("zap"))
            assert words in str(caught.value)
        with pytest.warns(DiscoveryWarning, match="fake-zap 1.0") as warned:
            assert runtime.get_backend().platform == "good"
        assert words in str(warned[0].message)
        assert {ref.platform for ref in runtime.plugins.refs()} == {"good", "zap"}


def test_hooks_come_before_initialize(plugins):
    plugins.add("zap", extra="def initialize(): raise AssertionError\n")
    with plugins.runtime() as runtime:
        assert runtime.get_backend("zap").platform == "zap"


def test_one_initialize_for_two_entry_points_is_called_once(plugins, write_distribution):
    source = """
        from devrt.runtime import register_plugin
        count = []
        def initialize():
            count.append(1)
            register_plugin("one", c_api=1)
            register_plugin("two", c_api=2)
    """
    module = plugins.add("one", source)
    write_distribution(plugins.path, "second", f"[devrt_plugins]\ntwo = {module}\n")
    found = PluginRegistry(plugins.refs)
    names = [found.load(ref).client_factory().platform for ref in plugins.refs()]
    assert (names, sys.modules[module].count) == (["one", "two"], [1])

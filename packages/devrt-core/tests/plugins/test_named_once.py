"""What a manifest, a record and an entry point may each say: each thing once."""

from pathlib import Path

import pytest

from devrt.errors import PluginContractError
from devrt.plugins import PluginRef, PluginRegistry, parse_manifest

REF = PluginRef("acme2", "acme-dist", "1.5", "acme2_pkg.plugin")
PATH = Path("somewhere/devrt.toml")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("priority = 3", {"priority": 7}, "says priority = 3 and its record 7"),
        ("", {"aliases": ("a",)}, "says aliases = () and its record ('a',)"),
        ("api_version = '1.0'", {"api_version": "1.1"}, "says api_version = '1.0' and its record"),
    ],
)
def test_a_record_that_says_something_else_than_the_manifest(plugins, text, options, words):
    plugins.package("acme2", f"schema = 1\n[[backend]]\n{text}", **options)
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert candidate.state.phase == "contract"
    assert words in candidate.state.reason
    assert "leave it out of the record" in candidate.state.reason


NAMELESS = """
from devrt.hookspecs import hookimpl
from devrt.records import ClientFactory, MemoryKind, TopologyFactory
def make(context): ...
@hookimpl
def devrt_client_factories():
    return [ClientFactory(factory=make)]
@hookimpl
def devrt_topology_factories():
    return [TopologyFactory(factory=make)]
@hookimpl
def devrt_memory_kinds():
    return [MemoryKind(kind="fast"), MemoryKind(platform="other", kind="slow")]
"""


@pytest.mark.parametrize("manifest", ["", "schema = 1\n[[backend]]\npriority = 3\n"])
def test_the_entry_point_alone_may_name_the_platform(plugins, manifest):
    plugins.package("acme2", manifest, NAMELESS)
    registry = PluginRegistry(plugins.refs)
    ref = plugins.ref("acme2")
    plugin = registry.load(ref)
    assert plugin.client_factory().platform == "acme2"
    assert registry.resolve(ref).manifest.priority == (3 if manifest else 0)
    assert [record.platform for record in plugin.topologies] == ["acme2"]
    assert [kind.platform for kind in plugin.memory_kinds] == ["acme2", "other"]


def test_of_two_backends_each_has_a_name():
    with pytest.raises(PluginContractError, match=r"backend\[0\] lacks platform"):
        parse_manifest("schema = 1\n[[backend]]\n[[backend]]\nplatform = 'b'\n", REF, PATH)

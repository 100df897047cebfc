"""A chosen backend as one object, and a client that is made of it alone."""

import pytest

from devrt._config.layers import Config
from devrt.errors import PluginContractError
from devrt.plugins import PluginRegistry
from devrt.runtime.clients import ClientStore

KINDS = """
@hookimpl
def devrt_memory_kinds():
    return [MemoryKind(platform="acme2", kind={kind!r})]
"""
HEAD = "from devrt.hookspecs import hookimpl\nfrom devrt.records import MemoryKind\n"


def test_it_has_all_that_a_client_needs(plugins):
    plugins.add("acme2", priority=3, options="(OptionSpec(name='acme_count', type=int),)")
    plugins.add("acme2", HEAD + KINDS.format(kind="slow"), distribution="adds-memory")
    registry = PluginRegistry(plugins.refs)
    (ref,) = [candidate.ref for candidate in registry.candidates(("acme2",))]
    backend = registry.resolve(ref)
    assert backend.ref == ref
    assert backend.factory.platform == backend.manifest.platform == "acme2"
    assert backend.manifest.priority == 3
    assert [kind.kind for kind in backend.memory_kinds] == ["slow"]
    assert [spec.name for spec in backend.options] == ["acme_count"]
    assert backend.added is None


def test_memory_kinds_are_found_where_only_one_distribution_was_named(plugins):
    plugins.add("acme2", extra=KINDS.format(kind="fast"))
    plugins.add("acme2", distribution="other", extra=KINDS.format(kind="slow"))
    registry = PluginRegistry(plugins.refs)
    (candidate,) = registry.candidates(("acme2@fake-acme2",))
    kinds = registry.resolve(candidate.ref).memory_kinds
    assert [kind.kind for kind in kinds] == ["fast", "slow"]


def test_a_plugin_that_serves_nothing_cannot_be_resolved(plugins):
    plugins.add("acme2", HEAD + KINDS.format(kind="slow"))
    with pytest.raises(PluginContractError, match="has no client factory for platform 'acme2'"):
        PluginRegistry(plugins.refs).resolve(plugins.ref("acme2"))


def test_a_client_is_made_of_it_alone(plugins):
    plugins.add("acme2")
    backend = PluginRegistry(plugins.refs).resolve(plugins.ref("acme2"))
    store = ClientStore(Config({}))
    client = store.get(backend)
    assert client.platform == "acme2"
    assert store.open(backend.ref) is store.get(backend) is client
    assert store.close_all() == []
    assert store.open(backend.ref) is None

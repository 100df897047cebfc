"""Loading a plugin: what it may do wrong, and what the error says of it."""

import sys

import pytest

from devrt.errors import DevrtError, PluginContractError, PluginError, PluginLoadError
from devrt.plugins import Broken, Plugin, PluginRef, PluginRegistry
from devrt.plugins.loading.load import load_plugin
from devrt.records import Available, ClientFactory, OptionSpec, Unavailable

HEAD = """
from devrt.hookspecs import hookimpl
from devrt.records import *
def make(context): ...
def record(platform="acme2", **fields):
    return ClientFactory(**{"platform": platform, "factory": make} | fields)
"""


def returning(expression, hook="devrt_client_factories"):
    return f"{HEAD}\n@hookimpl\ndef {hook}():\n    return {expression}\n"


IMPORT_FAILURES = {
    "raises": ("raise ValueError('no driver')", "raised ValueError: no driver"),
    "exits": ("raise SystemExit(3)", "raised SystemExit: 3"),
    "needs a package": ("import no_such_package.part", "it needs, 'no_such_package'"),
    "needs a name": ("from json import no_such_name", "raised ImportError: cannot import name"),
    "is no Python": ("def (", "raised SyntaxError"),
    "is recursive": ("def f(): f()\nf()", "raised RecursionError"),
}

HOOK_FAILURES = {
    "a hook raises": (returning("1 / 0"), "ZeroDivisionError: division by zero"),
    "a hook exits": (f"{HEAD}\n@hookimpl\ndef devrt_client_factories(): exit(4)", "SystemExit: 4"),
    "a generator raises": (
        f"{HEAD}\n@hookimpl\ndef devrt_client_factories():\n    yield record()\n    1 / 0",
        "ZeroDivisionError",
    ),
    "a hook takes arguments": (
        f"{HEAD}\n@hookimpl\ndef devrt_client_factories(runtime): return []",
        "PluginValidationError",
    ),
}

CONTRACT_BREACHES = {
    "no hook": ("x = 1", "implements no hook"),
    "an unmarked hook": (
        f"{HEAD}\ndef devrt_client_factories(): return []",
        "implements no hook of devrt_client_factories",
    ),
    "a misspelt hook": (
        returning("[]", "devrt_client_factory"),
        r"unknown hooks devrt_client_factory; hooks are devrt_client_factories, "
        r"devrt_doctor_findings, devrt_memory_kinds, devrt_pjrt_loader, devrt_plugin_traits, "
        r"devrt_topology_factories\.",
    ),
    "None": (returning("None"), "must return a list of ClientFactory, not None"),
    "a bare record": (returning("record()"), "must return a list of ClientFactory, not ClientF"),
    "a number": (returning("5"), "must return a list of ClientFactory, not int"),
    "a string": (returning("'acme2'"), "must return ClientFactory records, not str"),
    "a dict": (returning("{'acme2': record()}"), "must return ClientFactory records, not str"),
    "another record": (
        returning("[MemoryKind(platform='acme2', kind='x')]"),
        "must return ClientFactory records, not MemoryKind",
    ),
    "a wrong memory kind": (
        returning("[record()]", "devrt_memory_kinds"),
        "devrt_memory_kinds must return MemoryKind records, not ClientFactory",
    ),
    "a wrong topology": (
        returning("[make]", "devrt_topology_factories"),
        "devrt_topology_factories must return TopologyFactory records, not function",
    ),
    "a later version": (
        returning("[record(api_version='2.0')]"),
        r"built against plugin contract 2\.0, .* 1\.0 to 1\.x\. Upgrade devrt-core with",
    ),
    "a topology of another version": (
        returning(
            "[TopologyFactory(platform='acme2', factory=make, api_version=0)]",
            "devrt_topology_factories",
        ),
        r"built against plugin contract 0\.0, .* Upgrade fake-acme2 with: pip",
    ),
    "another platform": (returning("[record('other')]"), "called 'acme2', but .* is for 'other'"),
    "capital letters": (returning("[record('ACME2')]"), r"ClientFactory\.platform .*'ACME2'"),
    "two factories": (returning("[record(), record()]"), "two client factories .*'acme2'"),
    "no platform": (returning("[record(None)]"), r"ClientFactory\.platform cannot be None"),
    "a priority in words": (returning("[record(priority='top')]"), "priority cannot be 'top'"),
    "aliases as a string": (returning("[record(aliases='gpu')]"), "aliases cannot be 'gpu'"),
    "an alias that is no name": (returning("[record(aliases=(5,))]"), "aliases cannot be"),
    "no factory": (returning("[record(factory=None)]"), "a factory or a library, and has neither"),
    "a number as factory": (returning("[record(factory=5)]"), "factory cannot be 5"),
    "a probe that is an answer": (returning("[record(probe=Available())]"), "probe cannot be"),
    "options as names": (returning("[record(options=('a',))]"), "options cannot be"),
    "a memory kind without a name": (
        returning("[MemoryKind(platform='acme2', kind='')]", "devrt_memory_kinds"),
        r"MemoryKind\.kind cannot be ''",
    ),
}


def failure(plugins, source):
    """Load the plugin twice through a registry and return the error, checked for its facts."""
    plugins.add("acme2", source, version="4.2")
    registry = PluginRegistry(plugins.refs)
    errors = []
    for _ in range(2):
        with pytest.raises(PluginError) as caught:
            registry.load(plugins.ref("acme2"))
        errors.append(caught.value)
    first, second = errors
    assert first is not second
    assert (str(first), type(first), first.data) == (str(second), type(second), second.data)
    assert first.__cause__ is second.__cause__
    assert (first.plugin, first.version, first.platform) == ("fake-acme2", "4.2", "acme2")
    assert "fake-acme2 4.2" in str(first)
    assert registry.load_errors()[0].message == str(first)
    return first


def test_a_missing_dependency_is_named(plugins):
    assert failure(plugins, "import no_such_package.part").missing == "no_such_package"


@pytest.mark.parametrize("module", ["gone", "gone.plugin"])
def test_a_module_that_is_gone(plugins, write_distribution, module):
    write_distribution(plugins.path, "stale", f"[devrt_plugins]\nstale = {module}\n")
    with pytest.raises(PluginLoadError, match="its own module, 'gone', is not installed") as caught:
        PluginRegistry(plugins.refs).load(plugins.ref("stale"))
    assert caught.value.missing == "gone"
    assert "pip install --force-reinstall stale" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"), [("m:object", "must name a module, not 'm:object'"), ("", "Empty module")]
)
def test_an_entry_point_that_names_no_module(plugins, write_distribution, value, words):
    write_distribution(plugins.path, "wrong", f"[devrt_plugins]\nwrong = {value}\n")
    with pytest.raises(PluginError, match=words) as caught:
        PluginRegistry(plugins.refs).load(plugins.ref("wrong"))
    assert caught.value.plugin == "wrong"


@pytest.mark.parametrize("what", [*IMPORT_FAILURES, *HOOK_FAILURES])
def test_a_module_that_cannot_be_imported_or_a_hook_that_fails(plugins, what):
    source, words = (IMPORT_FAILURES | HOOK_FAILURES)[what]
    error = failure(plugins, source)
    assert type(error) is PluginLoadError
    assert error.phase == "load"
    assert words in str(error)
    assert "einstall" in str(error) or what in HOOK_FAILURES
    assert error.__cause__ is not None


@pytest.mark.parametrize("what", CONTRACT_BREACHES)
def test_a_plugin_that_breaks_the_contract(plugins, what):
    source, words = CONTRACT_BREACHES[what]
    error = failure(plugins, source)
    assert type(error) is PluginContractError
    assert error.phase == "contract"
    with pytest.raises(PluginContractError, match=words):
        raise error


def test_what_failed_once_does_not_become_a_hook(plugins):
    plugins.add("bad", returning("[]", "devrt_misspelt"))
    plugins.add("worse", returning("[]", "devrt_misspelt_too"))
    registry = PluginRegistry(plugins.refs)
    for platform in ("bad", "worse"):
        with pytest.raises(PluginContractError) as caught:
            registry.load(plugins.ref(platform))
    assert "devrt_misspelt," not in str(caught.value)
    assert "devrt_misspelt_too;" in str(caught.value)


def test_repeated_failures_grow_no_traceback(plugins):
    plugins.add("acme2", "raise ValueError")
    registry = PluginRegistry(plugins.refs)
    depths = []
    for _ in range(5):
        with pytest.raises(PluginLoadError) as caught:
            registry.load(plugins.ref("acme2"))
        depths.append(len(caught.traceback))
    assert len(set(depths[1:])) == 1


def test_an_optional_hook_of_a_later_devrt_is_allowed(plugins):
    extra = "\n@hookimpl(optionalhook=True)\ndef devrt_of_the_future(): ...\n"
    plugins.add("acme2", returning("[record()]") + extra)
    plugin = PluginRegistry(plugins.refs).load(plugins.ref("acme2"))
    assert plugin.client_factory().platform == "acme2"


def test_all_records_of_a_plugin(plugins):
    source = (
        returning("(r for r in [record(aliases=['a2'], priority=7)])")
        + "\n@hookimpl\ndef devrt_memory_kinds():\n"
        "    return (MemoryKind(platform='acme2', kind='slow'),)"
        "\n@hookimpl\ndef devrt_topology_factories():\n"
        "    return [TopologyFactory(platform='acme2', factory=make)]"
    )
    plugins.add("acme2", source)
    plugin = load_plugin(plugins.ref("acme2"))
    assert plugin.client_factory() is plugin.clients[0]
    assert [kind.kind for kind in plugin.memory_kinds] == ["slow"]
    assert [topology.platform for topology in plugin.topologies] == ["acme2"]


def test_one_module_for_two_entry_points(plugins, write_distribution):
    module = plugins.add("one", returning("[record('one'), record('two')]"), distribution="pair")
    write_distribution(plugins.path, "second", f"[devrt_plugins]\ntwo = {module}\n")
    registry = PluginRegistry(plugins.refs)
    candidates = registry.candidates()
    assert [(c.ref.platform, c.state) for c in candidates] == [
        ("one", Available()),
        ("two", Available()),
    ]


def test_a_bad_second_entry_point_leaves_the_first_at_work(plugins, write_distribution):
    module = plugins.add("one", returning("[record('one')]"))
    write_distribution(plugins.path, "second", f"[devrt_plugins]\ntwo = {module}\n")
    good, bad = PluginRegistry(plugins.refs).candidates()
    assert good.state == Available()
    assert bad.state.phase == "contract"
    assert "'two'" in bad.state.reason


def test_one_name_for_two_modules(plugins, write_distribution):
    for module in ("first", "second"):
        (plugins.path / f"{module}_m.py").write_text(returning("[record()]"))
    write_distribution(
        plugins.path, "twice", "[devrt_plugins]\nacme2 = second_m\nacme2 = first_m\n"
    )
    candidates = PluginRegistry(plugins.refs).candidates()
    assert [(c.ref.module, c.state) for c in candidates] == [
        ("first_m", Available()),
        ("second_m", Available()),
    ]


@pytest.mark.parametrize(
    ("probe", "state"),
    [
        ("return Unavailable('no card', 'Buy one.')", Unavailable("no card", "Buy one.")),
        ("raise OSError('gone')", Broken("probe", "its probe raised OSError: gone", "")),
        ("raise SystemExit(1)", Broken("probe", "its probe raised SystemExit: 1", "")),
        ("return True", Broken("contract", "its probe returned bool, not", "")),
        ("return None", Broken("contract", "its probe returned NoneType, not", "")),
    ],
)
def test_a_probe_says_it_or_is_to_blame(plugins, probe, state):
    plugins.add("acme2", probe=f"calls.append(1); {probe}", extra="calls = []")
    registry = PluginRegistry(plugins.refs)
    found = [registry.candidates(("acme2",))[0].state for _ in range(2)]
    assert found[0] is found[1]
    assert sys.modules[plugins.ref("acme2").module].calls == [1]
    if isinstance(state, Unavailable):
        assert found[0] == state
    else:
        assert found[0].phase == state.phase
        assert found[0].reason.startswith(state.reason)
        assert "fake-acme2" in found[0].remedy


def test_only_the_plugins_of_a_platform_are_loaded(plugins):
    modules = {platform: plugins.add(platform) for platform in ("one", "two")}
    registry = PluginRegistry(plugins.refs)
    assert [c.ref.platform for c in registry.candidates(("two",))] == ["two"]
    assert modules["two"] in sys.modules
    assert modules["one"] not in sys.modules


def test_an_alias_is_found_among_all(plugins):
    plugins.add("one", aliases=("both", "first"))
    plugins.add("two", aliases=("both",))
    plugins.add("bad", "raise ValueError")
    registry = PluginRegistry(plugins.refs)
    assert [ref.platform for ref in registry.refs_for(("both",))] == ["one", "two"]
    assert [ref.platform for ref in registry.refs_for(("first",))] == ["one"]
    assert [ref.platform for ref in registry.refs_for(("two@fake-two",))] == ["two"]


def test_a_plugin_added_by_a_call_replaces_the_earlier_one():
    registry = PluginRegistry(tuple)
    ref = PluginRef("acme2", "(code)")
    for priority in (1, 2):
        factory = ClientFactory(platform="acme2", factory=print, priority=priority)
        registry.add(Plugin(ref, (factory,)))
    assert [candidate.priority for candidate in registry.candidates()] == [2]


def test_refresh_discovers_loads_and_probes_again(plugins):
    plugins.add("bad", "import fixed_later\n" + returning("[record('bad')]"))
    plugins.add(
        "off",
        probe="import os; return Available() if answers.pop() else 0",
        extra="""
        answers = [True, False]
    """,
    )
    registry = PluginRegistry(plugins.refs)
    assert [type(c.state) for c in registry.candidates()] == [Broken, Broken]
    (plugins.path / "fixed_later.py").write_text("")
    plugins.add("late")
    assert [type(c.state) for c in registry.candidates()] == [Broken, Broken]
    registry.refresh()
    assert [type(c.state) for c in registry.candidates()] == [Available] * 3


def test_a_plugin_whose_option_clashes_is_broken(plugins):
    runtime = plugins.runtime()
    for platform, kind in (("one", int), ("two", str)):
        spec = f"OptionSpec(name='shared', type={kind.__name__})"
        plugins.add(platform, returning(f"[record({platform!r}, options=[{spec}])]"))
    one, two = runtime.plugins.candidates()
    assert one.state == Available()
    assert two.state.phase == "contract"
    words = "option 'shared' is declared otherwise by plugin fake-one 1.0, which was loaded before"
    assert words in two.state.reason
    assert "(type: 'int' there, 'str' here)" in two.state.reason
    assert "leave one plugin out" in two.state.remedy
    assert runtime.config.spec("shared") == OptionSpec(name="shared", type=int)


def test_errors_of_plugins_are_devrt_errors():
    assert issubclass(PluginError, DevrtError)


def test_a_loader_without_all_members_breaks_the_contract(plugins, add_loader):
    add_loader("Broken()")
    source = plugins.path / "loading_pkg" / "plugin.py"
    broken = "from devrt import contract\nclass Broken(contract.PjrtLoader): pass\n"
    source.write_text(f"{broken}{source.read_text()}")
    with pytest.raises(PluginContractError, match=r"Broken \(PjrtLoader\) lacks make_client"):
        load_plugin(plugins.ref("loading"))

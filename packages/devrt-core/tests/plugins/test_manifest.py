"""The static manifest: read instead of importing, checked, and held against the record."""

import contextlib
import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.errors import DiscoveryWarning, PluginContractError
from devrt.plugins import PluginRef, PluginRegistry, installed_plugins, parse_manifest
from devrt.plugins.loading import api_version
from devrt.records import Available, Unavailable

REF = PluginRef("acme2", "acme-dist", "1.5", "acme2_pkg.plugin")
PATH = Path("somewhere/devrt.toml")

FULL = """
schema = 1
[[backend]]
platform = "acme2"
aliases = ["fast"]
priority = 7
experimental = true
fail_quietly = true
api_version = 1
exclusive = true
init_timeout = 30
init_warning = 1.5
pjrt_loader = true
[[backend.requires]]
path = "/dev/acme*"
reason = "no card"
remedy = "Buy one."
[[backend.requires]]
library = ["liba.so.1", "libb.so.2"]
pci_vendor = 0x1234
reason = "no driver"
remedy = "Install it."
[[backend.conflicts]]
distribution = "other"
versions = "<2.1"
reason = "other before 2.1 is wrong"
remedy = "Upgrade it."
"""


def test_every_key_is_read():
    (backend,) = parse_manifest(FULL, REF, PATH)
    assert (backend.platform, backend.aliases, backend.priority) == ("acme2", ("fast",), 7)
    assert (backend.experimental, backend.fail_quietly, backend.exclusive) == (True, True, True)
    assert (backend.init_timeout, backend.init_warning, backend.pjrt_loader) == (30.0, 1.5, True)
    first, second = backend.requires
    assert (first.path, first.library, first.pci_vendor) == (("/dev/acme*",), (), -1)
    assert (second.library, second.pci_vendor) == (("liba.so.1", "libb.so.2"), 0x1234)
    assert backend.conflicts[0].versions == "<2.1"


def test_the_least_manifest():
    (backend,) = parse_manifest('schema = 1\n[[backend]]\nplatform = "a"\n', REF, PATH)
    assert (backend.priority, backend.aliases, backend.api_version) == (0, (), "1.0")
    assert (backend.exclusive, backend.init_timeout, backend.requires) == (False, None, ())


def backend(text):
    return f'schema = 1\n[[backend]]\nplatform = "acme2"\n{text}'


WORDS = 'reason = "r"\nremedy = "d"\n'
INVALID = {
    "no TOML": ("schema = ", "it is no TOML"),
    "no schema": ("[[backend]]\nplatform = 'a'", "schema must be 1, not None"),
    "a later schema": ("schema = 2", "schema must be 1, not 2"),
    "a key at the top": ("schema = 1\nbackends = []", "no key 'backends'; did you mean 'backend'?"),
    "a table": ("schema = 1\n[backend]\nplatform = 'a'", "must be an array of tables"),
    "an empty platform": ("schema = 1\n[[backend]]\nplatform = ''", "must be in lower case"),
    "capitals": ("schema = 1\n[[backend]]\nplatform = 'A'", "the name 'A' must be in lower case"),
    "two of a platform": (backend("[[backend]]\nplatform = 'acme2'"), "two backends of platform"),
    "an unknown key": (backend("prioriti = 1"), "no key 'prioriti'; did you mean 'priority'?"),
    "a priority in words": (backend("priority = '1'"), "backend[0].priority must be an integer"),
    "a true priority": (
        backend("priority = true"),
        "priority must be an integer of 64 bits, not True",
    ),
    "a number for a flag": (backend("exclusive = 1"), "exclusive must be true or false"),
    "aliases as a string": (backend("aliases = 'a'"), "aliases must be a list of strings"),
    "an alias in capitals": (backend("aliases = ['A']"), "the name 'A' must be in lower case"),
    "no time": (backend("init_timeout = 0"), "init_timeout must be a number above zero"),
    "not a number": (backend("init_warning = nan"), "init_warning must be a number above zero"),
    "a requirement of nothing": (
        backend(f"[[backend.requires]]\n{WORDS}"),
        "requires[0] needs one of path, library, pci_vendor",
    ),
    "an empty list": (backend(f"[[backend.requires]]\npath = []\n{WORDS}"), "needs one of"),
    "a requirement without a reason": (
        backend("[[backend.requires]]\npath = 'x'"),
        "requires[0] lacks reason, remedy",
    ),
    "a path that is a number": (backend(f"[[backend.requires]]\npath = 5\n{WORDS}"), "path must"),
    "a vendor of 17 bits": (
        backend(f"[[backend.requires]]\npci_vendor = 0x10000\n{WORDS}"),
        "pci_vendor must be a number of 16 bits",
    ),
    "an unknown key of a requirement": (
        backend(f"[[backend.requires]]\npaht = 'x'\npath = 'x'\n{WORDS}"),
        "did you mean 'path'?",
    ),
    "a conflict with nothing": (backend(f"[[backend.conflicts]]\n{WORDS}"), "lacks distribution"),
    "no specifier": (
        backend(f"[[backend.conflicts]]\ndistribution = 'x'\nversions = 'old'\n{WORDS}"),
        "versions must be a version specifier",
    ),
}


@pytest.mark.parametrize("what", INVALID)
def test_a_manifest_that_is_not_valid(what):
    text, words = INVALID[what]
    with pytest.raises(PluginContractError) as caught:
        parse_manifest(text, REF, PATH)
    assert words in str(caught.value)
    assert str(PATH) in str(caught.value)
    assert "acme-dist 1.5" in str(caught.value)
    assert (caught.value.phase, caught.value.plugin) == ("manifest", "acme-dist")


@given(st.text())
def test_no_text_gives_another_error(text):
    with contextlib.suppress(PluginContractError):
        parse_manifest(text, REF, PATH)


def test_requirements_are_looked_for_below_a_root(tmp_path):
    (found,) = parse_manifest(FULL, REF, PATH)
    assert found.missing(tmp_path) == Unavailable("no card", "Buy one.")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "acme0").touch()
    assert found.missing(tmp_path) == Unavailable("no driver", "Install it.")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libb.so.2").touch()
    assert found.missing(tmp_path) is None
    (tmp_path / "lib" / "libb.so.2").unlink()
    device = tmp_path / "sys/bus/pci/devices/0000:00:01.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x1234\n")
    assert found.missing(tmp_path) is None


# -- plugins with a manifest ----------------------------------------------------------------------


ABSENT = '[[backend.requires]]\npath = "/no/such/device"\nreason = "no card"\nremedy = "Buy one."\n'


def test_what_the_machine_lacks_is_known_without_an_import(plugins):
    manifest = backend(f'aliases = ["fast"]\npriority = 7\nexperimental = true\n{ABSENT}')
    module = plugins.package("acme2", manifest, "raise AssertionError")
    registry = PluginRegistry(plugins.refs)
    (candidate,) = registry.candidates(("fast",))
    assert candidate.state == Unavailable("no card", "Buy one.")
    assert (candidate.priority, candidate.aliases, candidate.experimental) == (7, ("fast",), True)
    assert not {module, "acme2_pkg"} & sys.modules.keys()
    assert registry.manifest(plugins.ref("acme2")).priority == 7


def test_an_alias_of_one_plugin_does_not_import_the_others(plugins):
    plugins.package("one", backend("").replace("acme2", "one"), "raise AssertionError")
    plugins.package("two", backend('aliases = ["fast"]').replace("acme2", "two"), aliases=("fast",))
    with plugins.runtime() as runtime:
        assert runtime.get_backend("fast").platform == "two"
    assert "one_pkg" not in sys.modules


def test_a_manifest_that_agrees_changes_nothing(plugins):
    plugins.package("acme2", backend("priority = 3"), priority=3)
    with plugins.runtime() as runtime:
        assert runtime.get_backend().platform == "acme2"
        assert runtime.decide().chosen.priority == 3
    assert PluginRegistry(plugins.refs).manifest(plugins.ref("acme2")).exclusive is False


COUNTS = {
    "priority": ("priority = 3", {}, 3),
    "aliases": ("aliases = ['a']", {"aliases": ["a"]}, ("a",)),
    "experimental": ("experimental = true", {}, True),
    "fail_quietly": ("fail_quietly = true", {}, True),
}


@pytest.mark.parametrize("field", COUNTS)
def test_what_a_manifest_says_counts_and_the_record_need_not_repeat_it(plugins, field):
    text, options, value = COUNTS[field]
    plugins.package("acme2", backend(text), **options)
    registry = PluginRegistry(plugins.refs)
    (candidate,) = registry.candidates()
    assert isinstance(candidate.state, Available)
    backend_ = registry.resolve(plugins.ref("acme2"))
    assert getattr(backend_.factory, field) == getattr(backend_.manifest, field) == value
    if field != "fail_quietly":
        assert getattr(candidate, field) == value


def test_a_plugin_without_a_manifest_is_what_its_record_says(plugins):
    plugins.add("acme2", priority=3, aliases=("a",), fail_quietly=True)
    registry = PluginRegistry(plugins.refs)
    (candidate,) = registry.candidates(("a",))
    manifest = registry.resolve(candidate.ref).manifest
    assert (candidate.priority, manifest.priority, manifest.aliases) == (3, 3, ("a",))
    assert manifest.fail_quietly
    assert not manifest.exclusive


def test_a_manifest_that_tells_of_a_loader_that_is_not_there(plugins):
    plugins.package("acme2", backend("pjrt_loader = true"))
    registry = PluginRegistry(plugins.refs)
    (candidate,) = registry.candidates()
    assert candidate.state.phase == "contract"
    assert "says pjrt_loader = true, and it has no hook" in candidate.state.reason
    assert registry.load_errors()


def test_a_manifest_for_another_contract_is_refused_without_an_import(plugins):
    plugins.package("acme2", backend("api_version = 2"), "raise AssertionError")
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert candidate.state.phase == "contract"
    words = "was built against plugin contract 2.0, and the installed devrt-core"
    assert words in candidate.state.reason
    assert candidate.state.remedy.startswith("Upgrade devrt-core with: pip install --upgrade ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"schema = 1\n" + b"#" * (10 << 20), "bytes, and at most 65536 are read"),
        (b"\xff\xfe", "it cannot be read"),
        (b"schema = 1\n[[backend]]\nplatform = 'acme2'\ncolour = 1", "no key 'colour'"),
    ],
    ids=["ten megabytes", "no text", "an unknown key"],
)
def test_a_bad_manifest_costs_its_own_plugin_only(plugins, content, words):
    module = plugins.package("acme2", content, "raise AssertionError")
    plugins.add("good")
    with plugins.runtime() as runtime:
        with pytest.warns(DiscoveryWarning, match="of plugin fake-acme2 1.0 is not valid"):
            assert runtime.get_backend().platform == "good"
        broken = {v.candidate.ref.platform: v for v in runtime.decide().verdicts}["acme2"]
        assert broken.candidate.state.phase == "manifest"
        assert words in broken.reason
        assert "Upgrade fake-acme2" in broken.candidate.state.remedy
    assert module not in sys.modules


def test_a_manifest_is_read_again_after_a_refresh(plugins):
    plugins.package("acme2", backend(ABSENT))
    registry = PluginRegistry(plugins.refs)
    assert isinstance(registry.candidates()[0].state, Unavailable)
    (plugins.path / "acme2_pkg/devrt.toml").write_text(backend(""))
    assert isinstance(registry.candidates()[0].state, Unavailable)
    registry.refresh()
    assert isinstance(registry.candidates()[0].state, Available)


def test_a_manifest_of_a_module_in_a_namespace_package(plugins):
    folder = plugins.path / "devrt_plugins/acme2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError")
    (folder / "devrt.toml").write_text(backend(ABSENT))
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert candidate.state == Unavailable("no card", "Buy one.")


@pytest.mark.parametrize(("version", "conflicts"), [("2.0", True), ("2.1", False), (None, False)])
def test_a_conflict_with_an_installed_distribution(plugins, write_distribution, version, conflicts):
    text = (
        '[[backend.conflicts]]\ndistribution = "Acme.Runtime"\nversions = "<2.1"\n'
        'reason = "its sums are wrong"\nremedy = "Upgrade it."\n'
    )
    plugins.package("acme2", backend(text))
    if version:
        write_distribution(plugins.path, "acme-runtime", "", version=version)
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    expected = Unavailable("its sums are wrong", "Upgrade it.") if conflicts else Available
    assert candidate.state == expected or isinstance(candidate.state, expected)


NAMED = 'distribution = "acme-runtime"\nreason = "its sums are wrong"\nremedy = "Upgrade it."\n'


@pytest.mark.parametrize("ignored", ["", "other", "other, acme-sums"])
def test_a_conflict_with_an_id_can_be_passed_over(
    plugins, write_distribution, monkeypatch, ignored
):
    monkeypatch.setenv("DEVRT_IGNORE_CONFLICTS", ignored)
    plugins.package("acme2", backend(f'[[backend.conflicts]]\n{NAMED}id = "acme-sums"\n'))
    write_distribution(plugins.path, "acme-runtime", "", version="2.0")
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert isinstance(candidate.state, Available) == ("acme-sums" in ignored)
    if not isinstance(candidate.state, Available):
        assert candidate.state.remedy.endswith(
            "DEVRT_IGNORE_CONFLICTS=acme-sums goes on all the same."
        )


def test_a_conflict_that_only_warns_leaves_the_backend_usable(plugins, write_distribution):
    plugins.package("acme2", backend(f'[[backend.conflicts]]\n{NAMED}severity = "warning"\n'))
    write_distribution(plugins.path, "acme-runtime", "", version="2.0")
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    assert isinstance(candidate.state, Available)


# -- devrt's own backends -------------------------------------------------------------------------


def own_backends():
    return [ref for ref in installed_plugins() if ref.distribution.startswith("devrt-")]


@pytest.mark.parametrize("ref", own_backends(), ids=str)
def test_devrts_own_backends_say_each_thing_once(ref):
    registry = PluginRegistry(lambda: [ref])
    manifest = registry.manifest(ref)
    if manifest is None:
        assert ref.distribution not in {"devrt-cpu", "devrt-cuda", "devrt-rocm", "devrt-tpu"}
        return
    module = importlib.import_module(ref.module)
    (factory,) = module.devrt_client_factories()
    for field in ("aliases", "priority", "experimental", "fail_quietly", "api_version"):
        assert getattr(factory, field) in ((), 0, False, None), f"the manifest says {field}"
    assert registry.load(ref).client_factory().priority == manifest.priority
    assert manifest.api_version == api_version.as_text(api_version.CURRENT)


@pytest.mark.parametrize("ref", own_backends(), ids=str)
def test_what_a_manifest_lacks_the_probe_reports_alike(ref, tmp_path):
    manifest = PluginRegistry(lambda: [ref]).manifest(ref)
    if manifest is None or not manifest.requires:
        return
    machine = importlib.import_module(f"{ref.module.partition('.')[0]}._machine")
    assert manifest.missing(tmp_path) == machine.probe(tmp_path, {})


REQUIRES = '[[backend.requires]]\nreason = "r"\nremedy = "m"\n{}'
CONFLICTS = '[[backend.conflicts]]\ndistribution = "d"\nreason = "r"\nremedy = "m"\n{}'
SECONDS = "a number above zero, at most 1000000 seconds"
PRINTABLE = "printable text of at most 255 characters"


@pytest.mark.parametrize(
    ("body", "key", "accepted"),
    [
        ("priority = " + "1" * 5000, "priority", "a number of 64 bits"),
        ("priority = 0x" + "f" * 5000, "priority", "an integer of 64 bits"),
        ("priority = 9223372036854775808", "priority", "an integer of 64 bits"),
        ("init_timeout = 1e400", "init_timeout", SECONDS),
        ("init_timeout = 1e300", "init_timeout", SECONDS),
        ("init_timeout = inf", "init_timeout", SECONDS),
        ("init_timeout = nan", "init_timeout", SECONDS),
        ("init_warning = 1" + "0" * 400, "init_warning", SECONDS),
        ("init_timeout = 1" + "0" * 5000, "init_timeout", "a number of 64 bits"),
        ("experimental = 0x" + "f" * 5000, "experimental", "true or false"),
        (REQUIRES.format('path = "a\\u0000b"'), "requires[0].path", PRINTABLE),
        (REQUIRES.format(f'library = "{"a" * 5000}"'), "requires[0].library", PRINTABLE),
        (REQUIRES.format('library = "\ud800"'), "requires[0].library", PRINTABLE),
        (CONFLICTS.format(f'versions = "<{"9" * 5000}"'), "versions", "a version specifier of"),
        (CONFLICTS.format('severity = "bad"'), "severity", "'error' or 'warning'"),
        (CONFLICTS.format('id = "a,b"'), "id", "no comma"),
    ],
    ids=lambda value: value[:30],
)
def test_values_beyond_what_can_be_used_name_the_key(body, key, accepted):
    text = f'schema = 1\n[[backend]]\nplatform = "acme2"\n{body}\n'
    with pytest.raises(PluginContractError) as caught:
        parse_manifest(text, REF, PATH)
    message = str(caught.value)
    assert str(PATH) in message
    assert key in message
    assert accepted in message
    assert len(message) < 500


def test_the_largest_integer_is_read():
    text = 'schema = 1\n[[backend]]\nplatform = "acme2"\npriority = 9223372036854775807\n'
    assert parse_manifest(text, REF, PATH)[0].priority == (1 << 63) - 1

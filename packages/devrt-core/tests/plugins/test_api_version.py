"""Which plugin contract a wheel was built against, whichever devrt it is installed beside."""

from importlib import metadata

import pytest

from devrt import records
from devrt.contract import CONTRACT_VERSION, OLDEST_CONTRACT_VERSION
from devrt.doctor import diagnose
from devrt.errors import ConfigError, PluginContractError, PluginLoadError
from devrt.plugins import PluginRegistry
from devrt.plugins.loading import api_version

RECORD = """
from devrt.hookspecs import hookimpl
from devrt.records import ClientFactory
def make(context): ...
@hookimpl
def devrt_client_factories():
    return [ClientFactory(platform="acme2", factory=make, {fields})]
"""
INSTALLED = f"devrt-core {metadata.version('devrt-core')}"
COMMAND = "pip install --upgrade ./packages/devrt-core"
CORE = f"Upgrade devrt-core with: {COMMAND} (in devrt's checkout)"
MANIFEST = 'schema = 1\n[[backend]]\nplatform = "acme2"\n'


@pytest.fixture
def add(plugins):
    """Return a function that installs a plugin with a manifest, and returns its error."""

    def add(fields="", manifest="", *, source=RECORD, requires=""):
        manifest = MANIFEST + manifest if manifest else ""
        plugins.package(
            "acme2", manifest, source.replace("{fields}", fields), distribution="acme2-dist"
        )
        if requires:
            with (plugins.path / "acme2_dist-1.0.dist-info" / "METADATA").open("a") as file:
                file.write(f"Requires-Dist: numpy\nRequires-Dist: {requires}\n")
        return PluginRegistry(plugins.refs), plugins.ref("acme2")

    return add


def refused(registry, ref):
    (candidate,) = registry.candidates()
    assert candidate.state.phase == "contract"
    return candidate.state


def later(monkeypatch, current, oldest):
    monkeypatch.setattr(api_version, "CURRENT", current)
    monkeypatch.setattr(api_version, "OLDEST", oldest)


def test_the_installed_contract_is_no_name_that_a_record_could_repeat():
    assert not hasattr(records, "API_VERSION")
    assert records.ClientFactory(platform="a", factory=print).api_version is None


@pytest.mark.parametrize("message", ["", 'api_version = "1.0"', "api_version = 1"])
def test_a_plugin_of_an_older_contract_is_the_one_to_upgrade(add, monkeypatch, message):
    registry, ref = add(message.replace(" = ", "="), message and message + "\n")
    later(monkeypatch, (2, 3), (2, 0))
    state = refused(registry, ref)
    words = f"built against plugin contract 1.0, and the installed {INSTALLED} supports 2.0 to 2.x"
    assert words in state.reason
    assert state.remedy == "Upgrade acme2-dist with: pip install --upgrade acme2-dist"


@pytest.mark.parametrize("version", ["1.0", "1.4", "2.0", "2.9"])
def test_versions_between_the_oldest_and_the_newest_are_taken(add, monkeypatch, version):
    registry, ref = add(f"api_version={version!r}", f"api_version = '{version}'\n")
    later(monkeypatch, (2, 3), (1, 0))
    assert registry.load(ref).client_factory().platform == "acme2"


@pytest.mark.parametrize("where", ["record", "manifest"])
def test_a_plugin_of_a_later_contract_says_that_devrt_is_to_be_upgraded(add, where):
    manifest = 'api_version = "2.1"\n' if where == "manifest" else ""
    requires = "devrt_core<0.4,>=0.3; python_version > '3'"
    registry, ref = add("" if manifest else "api_version='2.1'", manifest, requires=requires)
    state = refused(registry, ref)
    words = f"built against plugin contract 2.1, and the installed {INSTALLED} supports 1.0 to 1.x"
    assert words in state.reason
    assert state.remedy == CORE.replace(
        "devrt-core with", "devrt-core (acme2-dist requires devrt_core<0.4,>=0.3) with"
    )


@pytest.mark.parametrize("where", ["record", "manifest"])
def test_an_unknown_field_of_a_newer_minor(add, where):
    manifest = 'api_version = "1.1"\n' if where == "manifest" else ""
    fields = "colour=1" + ("" if manifest else ", api_version='1.1'")
    state = refused(*add(fields, manifest))
    words = "built against plugin contract 1.1, and ClientFactory has no field 'colour' in 1.0, "
    words += f"which {INSTALLED} has"
    assert words in state.reason
    assert state.remedy == CORE


def test_an_unknown_field_of_this_contract_is_the_plugins_mistake(add):
    registry, ref = add("colour=1")
    with pytest.raises(PluginContractError, match=r"no field 'colour' in 1\.0, which it was built"):
        registry.load(ref)
    (candidate,) = registry.candidates()
    assert "devrt-core" not in candidate.state.remedy


@pytest.mark.parametrize("line", ["colour = 1", "aliases = {deep = 1}", "[[backend.wants]]\na = 1"])
def test_what_a_newer_manifest_has_more(add, line):
    state = refused(*add("", f'api_version = "1.1"\n{line}\n'))
    assert "cannot read its manifest" in state.reason
    assert state.remedy == CORE


def test_a_newer_plugin_that_needs_a_newer_name(add):
    source = "from devrt.records import Novelty\n" + RECORD
    registry, ref = add("", 'api_version = "1.1"\n', source=source)
    with pytest.raises(PluginLoadError) as caught:
        registry.load(ref)
    assert caught.value.remedy == CORE


@pytest.mark.parametrize(
    "value", ["1", "1.0.0", "one", "-1.0", "1.x", "", 1.0, True, -1, "1.99999"]
)
def test_what_is_no_version(add, value):
    registry, ref = add(f"api_version={value!r}")
    with pytest.raises(PluginContractError, match=r"ClientFactory\.api_version cannot be"):
        registry.load(ref)


@pytest.mark.parametrize("value", ["1.0", "true", "'1'", "[1, 0]"])
def test_what_is_no_version_in_a_manifest(add, value):
    registry, ref = add("", f"api_version = {value}\n")
    with pytest.raises(PluginContractError, match=r"must be a version in quotes, such as \"1\.0\""):
        registry.manifest(ref)


@pytest.mark.parametrize("record", ["'1.0'", "1"])
def test_a_record_may_repeat_the_version_of_the_manifest(add, record):
    registry, ref = add(f"api_version={record}", "api_version = '1.0'\n")
    registry.load(ref)
    assert registry.resolve(ref).manifest.api_version == "1.0"


def test_the_contracts_version_is_public():
    assert tuple(map(api_version.as_text, (api_version.CURRENT, api_version.OLDEST))) == (
        CONTRACT_VERSION,
        OLDEST_CONTRACT_VERSION,
    )


@pytest.mark.parametrize("manifest", ["", 'api_version = "2.1"\n'])
def test_the_doctor_names_the_one_to_upgrade(add, plugins, tmp_path, manifest):
    add("" if manifest else "api_version='2.1'", manifest)
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    finding = next(f for f in report.findings if f.subject == "acme2@acme2-dist")
    assert finding.code == "version-mismatch"
    assert finding.command == COMMAND
    assert finding.remedy == CORE


def test_a_question_about_options_imports_nothing_of_another_contract(add, plugins):
    registry, ref = add(source="assert 0, 'imported'", manifest='api_version = "2.0"')
    with pytest.raises(PluginContractError, match=r"built against plugin contract 2\.0"):
        registry.load(ref)
    with plugins.runtime() as runtime:
        with pytest.raises(ConfigError):
            runtime.config.update("bogus", 1)
        (error,) = runtime.plugins.load_errors()
    assert "plugin contract 2.0" in error.message

"""Plugins that simulate their devices where the configuration says so, whatever the machine has."""

import pytest

from devrt.doctor import examine
from devrt.errors import BackendUnavailableError, ConfigError
from devrt.plugins import PluginRegistry
from devrt.probing.isolated import Level
from devrt.records import Available, Unavailable

MANIFEST = """
schema = 1
[[backend]]
platform = "acme2"
[[backend.requires]]
path = "/no/such/device"
unless_set = "{variable}"
reason = "no card"
remedy = "Buy one."
"""
OPTION = "(OptionSpec(name='acme2_mock', type=str, default='', help='Simulated cards.'),)"
FINDINGS = """
from devrt.records import DoctorFinding

@hookimpl
def devrt_doctor_findings():
    return [DoctorFinding(code="card", message="The card is old.", remedy="Buy one.")]
"""


@pytest.fixture
def acme(plugins):
    """Return a function that installs the plugin, whose probe finds nothing."""

    def add(variable="DEVRT_ACME2_MOCK", simulates=True):
        plugins.package(
            "acme2",
            MANIFEST.format(variable=variable),
            probe="return Unavailable('the card does not answer', 'Reset it.')",
            options=OPTION,
            extra=FINDINGS,
            simulates=simulates,
        )
        return plugins

    return add


def is_usable(runtime):
    return bool(runtime.decide("acme2").usable)


def test_a_call_asks_for_simulated_devices_and_takes_it_back(acme):
    with acme().runtime() as runtime:
        assert not is_usable(runtime)
        runtime.config.update("acme2_mock", "4")
        assert is_usable(runtime)
        assert runtime.get_backend("acme2").platform == "acme2"
        runtime.clear_backends()
        runtime.config.update("acme2_mock", "")
        assert not is_usable(runtime)


def test_a_block_asks_for_them_inside_it_only(acme):
    with acme().runtime() as runtime:
        with runtime.config.override(acme2_mock="4"):
            assert is_usable(runtime)
        assert not is_usable(runtime)


def test_the_environment_asks_before_the_plugin_is_loaded(acme):
    with acme().runtime(DEVRT_ACME2_MOCK="4") as runtime:
        assert is_usable(runtime)
        with runtime.config.override(acme2_mock=""):
            assert not is_usable(runtime)


def test_a_file_asks_before_the_plugin_is_loaded(acme, tmp_path):
    file = tmp_path / "devrt.toml"
    file.write_text('acme2_mock = "4"\n')
    with acme().runtime(DEVRT_CONFIG_FILE=str(file)) as runtime:
        assert is_usable(runtime)


def test_a_wrong_value_in_a_file_is_an_error_that_names_file_and_key(acme, tmp_path):
    file = tmp_path / "devrt.toml"
    file.write_text("acme2_mock = 3\n")
    installed = acme()
    installed.add("host")
    with installed.runtime(DEVRT_CONFIG_FILE=str(file)) as runtime:
        with pytest.raises(ConfigError, match=r"devrt[.]toml: option 'acme2_mock' takes text"):
            runtime.get_backend("acme2")
        assert runtime.decide().chosen.ref.platform == "acme2"


@pytest.mark.parametrize(
    "given", [{"acme2_mock": "4"}, {"mock_num_gpus": 4}, {"mock": True}], ids=str
)
def test_the_options_of_a_call_ask_for_simulated_devices(acme, given):
    with acme().runtime() as runtime:
        client = runtime.make_client("acme2", given)
        assert client.platform == "acme2"
        client.close()


@pytest.mark.parametrize(
    "given", [{"acme2_mock": ""}, {"mock": False, "mock_num_gpus": 4}], ids=str
)
def test_the_options_of_a_call_ask_for_the_machines_devices(acme, given):
    with acme().runtime() as runtime, pytest.raises(BackendUnavailableError, match="no card"):
        runtime.make_client("acme2", given)


def test_a_variable_that_is_no_options_is_read_from_the_environment(acme):
    installed = acme("ACME_CARDS")
    with installed.runtime(ACME_CARDS="4") as runtime:
        assert is_usable(runtime)
    with installed.runtime() as runtime:
        assert not is_usable(runtime)


def test_a_plugin_that_does_not_simulate_is_probed_all_the_same(acme):
    with acme(simulates=False).runtime(DEVRT_ACME2_MOCK="4") as runtime:
        (candidate,) = runtime.plugins.candidates(("acme2",))
    assert candidate.state == Unavailable("the card does not answer", "Reset it.")


def test_without_a_runtime_the_environment_counts(acme, monkeypatch):
    refs = acme().refs
    (before,) = PluginRegistry(refs).candidates()
    monkeypatch.setenv("DEVRT_ACME2_MOCK", "4")
    (after,) = PluginRegistry(refs).candidates()
    assert (before.state, after.state) == (
        Unavailable("no card", "Buy one."),
        Available("simulated"),
    )


@pytest.mark.parametrize("simulated", [True, False])
def test_the_child_of_a_doctor_knows_of_the_call(acme, monkeypatch, simulated):
    runtime = acme().runtime()
    with runtime:
        if simulated:
            runtime.config.update("acme2_mock", "4")
        found = examine(runtime, platforms=["acme2"], level=Level.CLIENT, findings=True)
    (examined,) = found.examined
    assert (found.chosen is not None, examined.lacks is None) == (simulated, simulated)
    if simulated:
        assert examined.report.facts["detail"] == "simulated"
        assert not examined.report.findings  # they would be about the machine

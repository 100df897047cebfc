"""JAX's registry under its own names: functions of the runtime, and copies of what it has."""

import json
import logging
import threading

import pytest

import devrt
from devrt import runtime, xla_bridge, xla_client
from devrt.errors import ConfigError

pytest.importorskip("devrt_cpu", reason="needs devrt-cpu")


def test_the_module_can_be_imported_as_jax_has_it():
    import devrt.xla_bridge as imported

    assert imported is xla_bridge is devrt.xla_bridge
    assert xla_bridge.XlaBackend is xla_client.Client


def test_public_functions_are_the_runtimes():
    for name in ("get_backend", "register_plugin", "is_known_platform", "make_pjrt_topology"):
        assert getattr(xla_bridge, name) is getattr(runtime, name)
        assert name in dir(xla_bridge)


def test_state_is_what_the_default_runtime_has():
    client = runtime.get_backend("cpu")
    assert xla_bridge._backends["cpu"] is client
    assert xla_bridge._default_backend is runtime.get_backend()
    xla_bridge._backends.clear()
    assert xla_bridge._backends["cpu"] is client


def test_registrations_make_the_platforms_client():
    found = xla_bridge._backend_factories["cpu"]
    assert isinstance(found, xla_bridge.BackendRegistration)
    assert (found.priority, found.fail_quietly, found.experimental) == (0, False, False)
    assert found.factory() is runtime.get_backend("cpu")


def test_aliases_lead_to_platforms_and_back():
    aliases, platforms = xla_bridge._platform_aliases, xla_bridge._alias_to_platforms
    assert all(platform in platforms[alias] for platform, alias in aliases.items())
    assert {p for found in platforms.values() for p in found} == set(aliases)


def test_errors_are_those_of_clients_that_failed():
    assert xla_bridge._backend_errors == {
        ref.platform: error.message for ref, error in runtime.default_runtime().failures().items()
    }


def test_a_client_of_the_host_is_the_callers_own():
    client = xla_bridge.make_cpu_client()
    assert client.platform == "cpu"
    assert client is not runtime.get_backend("cpu")
    client.close()


def test_values_of_the_environment_are_read(tmp_path, monkeypatch):
    read = xla_bridge._get_pjrt_plugin_names_and_library_paths
    assert read("a:/x.so,b:/y.so") == {"a": "/x.so", "b": "/y.so"}
    assert read("") == {}
    with pytest.raises(ConfigError, match="entry 2"):
        read("a:/x.so,b")
    file = tmp_path / "plugin.json"
    file.write_text(json.dumps({"library_path": "x.so", "create_options": {"n": 1}}))
    assert xla_bridge._get_pjrt_plugin_config(str(file))[1] == {"n": 1}


def test_what_jax_keeps_to_itself_and_devrt_does_not_have_is_absent():
    with pytest.raises(AttributeError, match="_backend_lock"):
        _ = xla_bridge._backend_lock


@pytest.fixture
def logged(monkeypatch):
    """Return what is logged, and an event that is set with the first record."""
    found, was_logged, handler = [], threading.Event(), logging.Handler()
    handler.emit = lambda record: (found.append(record.getMessage()), was_logged.set())
    monkeypatch.setattr(logging.getLogger("devrt"), "handlers", [handler])
    return found, was_logged


def test_that_a_client_takes_long_is_logged_and_no_thread_warns(monkeypatch, logged):
    found, was_logged = logged
    monkeypatch.setattr(xla_client, "make_tpu_client", lambda _: was_logged.wait(30))
    assert xla_bridge.tpu_client_timer_callback(0.01) is True
    assert "takes more than 0.01 seconds" in found[0]


def test_a_client_that_takes_no_time_is_not_logged(monkeypatch, logged):
    monkeypatch.setattr(xla_client, "make_tpu_client", lambda _: "client")
    assert xla_bridge.tpu_client_timer_callback(600) == "client"
    assert logged[0] == []

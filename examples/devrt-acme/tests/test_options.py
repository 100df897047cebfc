"""What is the example's own: that it is found, its manifest, its option, its finding."""

import contextlib

import pytest

from devrt.contract import Client
from devrt.errors import ConfigError, DevrtWarning
from devrt.runtime import Runtime


@contextlib.contextmanager
def acme(**environ):
    with Runtime(environ={"DEVRT_PLATFORMS": "acme", **environ}) as runtime:
        with pytest.warns(DevrtWarning, match="acme.* is experimental"):
            client = runtime.get_backend()
        yield runtime, client


def test_it_is_found_and_chosen_by_name():
    with acme() as (runtime, client):
        assert isinstance(client, Client)
        assert (client.platform, client.device_count(), client.process_index()) == ("acme", 2, 0)
        assert [str(device) for device in client.devices()] == ["acme:0", "acme:1"]
        (verdict,) = runtime.decide("acme").verdicts
        assert verdict.candidate.ref.distribution == "devrt-acme"
        assert verdict.candidate.experimental


def test_it_is_not_the_default_beside_a_backend_of_the_host():
    runtime = Runtime(environ={})
    candidates = {c.ref.platform: c for c in runtime.plugins.candidates(("acme",))}
    assert candidates["acme"].priority < 0


def test_its_manifest_is_read_without_an_import():
    with Runtime(environ={}) as runtime:
        (ref,) = runtime.plugins.refs_for(("acme",))
        manifest = runtime.plugins.manifest(ref)
        assert not runtime.plugins.is_loaded(ref)
    assert (manifest.priority, manifest.experimental, manifest.api_version) == (-10, True, "1.0")


@pytest.mark.parametrize("count", [1, 5])
def test_its_option_is_read(count):
    with acme(DEVRT_NUM_ACME_DEVICES=str(count)) as (runtime, client):
        assert client.device_count() == count
        with pytest.raises(ConfigError, match="the acme client of devrt-acme"):
            runtime.config.update("num_acme_devices", count + 1)


def test_a_bad_option_is_refused():
    for value, words in (("0", "at least 1"), ("9999", "at most 1024, not '9999'")):
        runtime = Runtime(environ={"DEVRT_NUM_ACME_DEVICES": value})
        source = "environment variable DEVRT_NUM_ACME_DEVICES: option 'num_acme_devices'"
        with pytest.warns(DevrtWarning), pytest.raises(ConfigError, match=f"{source}.*{words}"):
            runtime.get_backend("acme")


def test_it_has_something_to_say_to_the_doctor(tmp_path):
    from devrt.doctor import diagnose

    with Runtime(environ={"DEVRT_PLATFORMS": "acme"}) as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    (finding,) = [f for f in report.findings if f.code.startswith("devrt-acme/")]
    assert (finding.code, finding.severity) == ("devrt-acme/simulated", "info")
    assert (finding.subject, report.status) == ("acme@devrt-acme", 0)

"""The example backend, through the door that any backend uses."""

import contextlib
from pathlib import Path

import numpy as np
import pytest

from devrt.contract import Client
from devrt.errors import (
    ClosedError,
    ConfigError,
    DeletedError,
    DevrtWarning,
    InvalidArgumentError,
    InvalidTypeError,
)
from devrt.runtime import Runtime
from devrt.testing import import_findings

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@contextlib.contextmanager
def acme(**environ):
    with Runtime(environ={"DEVRT_PLATFORMS": "acme", **environ}) as runtime:
        with pytest.warns(DevrtWarning, match="acme.* is experimental"):
            client = runtime.get_backend()
        yield runtime, client


@pytest.fixture
def client():
    with acme() as (_, client):
        yield client


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


@pytest.mark.parametrize("where", [None, "device", "memory"])
def test_values_come_back_as_they_went(client, where):
    device = client.devices()[1]
    target = {None: None, "device": device, "memory": device.memory("device")}[where]
    buffer = client.buffer_from_pyval(X, target)
    assert buffer.device is (device if where else client.devices()[0])
    assert buffer.memory is buffer.device.default_memory()
    assert (buffer.shape, buffer.dtype, buffer.is_ready()) == (X.shape, X.dtype, True)
    back = np.asarray(buffer.block_until_ready())
    assert back.tobytes() == X.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        back[0, 0] = 1


def test_the_source_may_change_at_once(client):
    source = X.copy()
    buffer = client.buffer_from_pyval(source)
    source[:] = 0
    np.testing.assert_array_equal(np.asarray(buffer), X)


def test_blocks_go_to_their_devices(client):
    blocks = client.batched_buffer_from_pyval(X, client.devices(), [(0, 0), (1, 0)], (1, 3))
    for row, (block, device) in enumerate(zip(blocks, client.devices(), strict=True)):
        assert block.device is device
        np.testing.assert_array_equal(np.asarray(block), X[row : row + 1])


def test_copies_between_devices(client):
    buffer = client.buffer_from_pyval(X)
    other = buffer.copy_to_memory(client.devices()[1].default_memory())
    assert other.device is client.devices()[1]
    assert other.unsafe_buffer_pointer() != buffer.unsafe_buffer_pointer()
    same = buffer.copy_to_memory(buffer.memory, may_alias=True)
    assert same.unsafe_buffer_pointer() == buffer.unsafe_buffer_pointer()
    assert buffer.clone().unsafe_buffer_pointer() == buffer.unsafe_buffer_pointer()
    buffer.delete()
    np.testing.assert_array_equal(np.asarray(same), X)


def test_statistics_count_what_lives(client):
    first, second = client.devices()
    buffers = [client.buffer_from_pyval(X, first) for _ in range(3)]
    assert first.memory_stats() == {"bytes_in_use": 3 * X.nbytes, "num_allocs": 3}
    assert second.memory_stats() == {"bytes_in_use": 0, "num_allocs": 0}
    assert set(first.live_buffers()) == set(buffers) == set(client.live_buffers())
    buffers.pop().delete()
    assert first.memory_stats()["num_allocs"] == 2
    del buffers
    assert client.live_buffers() == []


def test_a_deleted_buffer_says_so_and_keeps_its_shape(client):
    buffer = client.buffer_from_pyval(X)
    buffer.delete()
    buffer.delete()
    assert buffer.is_deleted()
    assert (buffer.shape, buffer.dtype) == (X.shape, X.dtype)
    for use in (buffer.block_until_ready, buffer.is_ready, buffer.clone, buffer.__array__):
        with pytest.raises(DeletedError, match=r"shape \(2, 3\) on acme:0 was deleted"):
            use()


def test_a_closed_client_says_so():
    with acme() as (runtime, client):
        buffer = client.buffer_from_pyval(X)
        runtime.clear_backends()
        assert client.is_closed
        assert client.live_buffers() == []
        client.close()
        with pytest.raises(ClosedError):
            client.buffer_from_pyval(X)
        with pytest.raises(ClosedError):
            buffer.block_until_ready()


@pytest.mark.parametrize("value", [object(), "text", [{}], np.array(["a"]), np.datetime64("now")])
def test_what_no_device_holds(client, value):
    with pytest.raises(InvalidTypeError, match="cannot be held by a device"):
        client.buffer_from_pyval(value)


def test_places_that_are_not_there(client):
    device = client.devices()[0]
    with pytest.raises(InvalidArgumentError, match="no memory of kind 'fast'; it has 'device'"):
        device.memory("fast")
    with pytest.raises(InvalidArgumentError, match="no device of this acme client"):
        client.buffer_from_pyval(X, "acme:0")
    with acme() as (_, other):
        with pytest.raises(InvalidArgumentError, match="no device of this acme client"):
            client.buffer_from_pyval(X, other.devices()[0])
        with pytest.raises(InvalidArgumentError, match="cannot be copied"):
            client.buffer_from_pyval(X).copy_to_memory(other.devices()[0].default_memory())


def test_it_imports_what_a_backend_may():
    assert import_findings(Path(__file__).parents[1]) == []

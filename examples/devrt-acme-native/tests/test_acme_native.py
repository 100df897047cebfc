"""What is the backend's own; `pytest --devrt-plugin=acme_native` holds it to the contract."""

import contextlib
from pathlib import Path

import numpy as np
import pytest

from devrt.contract import Buffer, Client, Device, Memory
from devrt.errors import ClosedError, DeletedError, DevrtWarning, InvalidArgumentError
from devrt.runtime import Runtime
from devrt.testing import import_findings

pytest.importorskip("devrt_acme_native", reason="devrt-acme-native is not installed")

X = np.arange(6, dtype=np.float32).reshape(2, 3)
LATE = str(300_000)  # microseconds


@contextlib.contextmanager
def acme(**environ):
    with Runtime(environ={"DEVRT_PLATFORMS": "acme_native", **environ}) as runtime:
        with pytest.warns(DevrtWarning, match="acme_native.* is experimental"):
            client = runtime.get_backend()
        yield client


@pytest.fixture
def client():
    with acme() as client:
        yield client


def memory_of(client, number, kind="device"):
    return client.devices()[number].memory(kind)


def test_its_classes_are_those_of_the_contract(client):
    buffer = client.buffer_from_pyval(X)
    members = (client, client.devices()[0], buffer.memory, buffer)
    for member, abstract in zip(members, (Client, Device, Memory, Buffer), strict=True):
        assert isinstance(member, abstract)
        assert type(member).__name__ == f"Acme{abstract.__name__}"
        assert type(member).__module__ == "devrt_acme_native._ext"


def test_it_says_what_it_is(client):
    assert (client.platform, client.runtime_type) == ("acme_native", "native")
    assert client.platform_version.startswith("devrt-acme-native 0.1.0 ")
    assert [str(d) for d in client.devices()] == ["acme_native:0", "acme_native:1"]
    assert {d.platform for d in client.devices()} == {"acme_native"}
    assert client.devices()[0].device_kind == "Acme Simulator 2"
    assert client.program_formats == ()


def test_its_memories_are_apart(client):
    kinds = [m.kind for m in client.devices()[0].addressable_memories()]
    assert kinds[0] == "device"
    assert "pinned_host" in kinds
    assert not memory_of(client, 0).is_host_visible
    assert memory_of(client, 0, "pinned_host").is_host_visible
    spaces = [memory_of(client, n).address_space for n in (0, 1)]
    assert spaces[0] != spaces[1]


@pytest.mark.parametrize("kind", ["device", "pinned_host"])
@pytest.mark.parametrize("value", [X, X.T, X[:, ::-1], np.float64(3), np.zeros((0, 4), np.int8)])
def test_values_come_back_as_they_went(client, kind, value):
    buffer = client.buffer_from_pyval(value, memory_of(client, 1, kind))
    back = np.asarray(buffer)
    assert back.dtype == np.asarray(value).dtype
    np.testing.assert_array_equal(back, value)
    with pytest.raises(ValueError, match="read-only"):
        back[...] = 1


@pytest.mark.parametrize("semantics", [0, 1, 2, 3])
def test_a_copy_runs_behind_the_callers_back(semantics):
    with acme(DEVRT_ACME_NATIVE_DELAY=LATE) as client:
        buffer = client.buffer_from_pyval(X, host_buffer_semantics=semantics)
        assert not buffer.is_ready()
        np.testing.assert_array_equal(np.asarray(buffer.block_until_ready()), X)
        assert buffer.is_ready()


def test_the_source_may_change_at_once():
    with acme(DEVRT_ACME_NATIVE_DELAY=LATE) as client:
        source = X.copy()
        buffer = client.buffer_from_pyval(source)
        source[:] = 0
        np.testing.assert_array_equal(np.asarray(buffer), X)


def test_a_buffer_may_be_deleted_while_it_is_copied():
    with acme(DEVRT_ACME_NATIVE_DELAY=LATE) as client:
        buffer = client.buffer_from_pyval(X)
        copied = buffer.copy_to_memory(memory_of(client, 1))
        buffer.delete()
        np.testing.assert_array_equal(np.asarray(copied), X)


def test_copies_between_all_memories(client):
    buffer = client.buffer_from_pyval(X)
    for number in (1, 0):
        for kind in ("device", "pinned_host"):
            buffer = buffer.copy_to_memory(memory_of(client, number, kind))
            assert buffer.memory is memory_of(client, number, kind)
            np.testing.assert_array_equal(np.asarray(buffer), X)


def test_blocks_go_to_their_devices_and_back(client):
    blocks = client.batched_buffer_from_pyval(X, client.devices(), [(0, 0), (1, 0)], (1, 3))
    assert [b.device for b in blocks] == client.devices()
    out = np.empty_like(X)
    client.batched_copy_to_host(blocks, [(0, 0), (1, 0)], out)
    np.testing.assert_array_equal(out, X)


def test_dlpack_of_host_memory_shares_and_of_the_devices_copies(client):
    on_host = client.buffer_from_pyval(X, memory_of(client, 0, "pinned_host"))
    view = np.from_dlpack(on_host)
    assert view.__array_interface__["data"][0] == on_host.unsafe_buffer_pointer()
    on_device = client.buffer_from_pyval(X)
    assert on_device.__dlpack_device__() != (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(on_device, device="cpu"), X)
    with pytest.raises(BufferError, match="by a copy only"):
        on_device.__dlpack__(dl_device=(1, 0), copy=False, max_version=(1, 0))


def test_it_compiles_nothing_and_says_so(client):
    from devrt.errors import UnimplementedError

    assert client.capabilities.formats == ()
    with pytest.raises(UnimplementedError):
        client.compile_and_load("func.func @main() { return }")


def test_ends_are_typed(client):
    buffer = client.buffer_from_pyval(X)
    buffer.delete()
    with pytest.raises(DeletedError):
        np.asarray(buffer)
    with pytest.raises(InvalidArgumentError, match="no memory of kind 'fast'"):
        memory_of(client, 0, "fast")
    client.close()
    with pytest.raises(ClosedError, match="the acme_native client is closed"):
        client.buffer_from_pyval(X)


def test_it_imports_what_a_backend_may():
    assert import_findings(Path(__file__).parents[1]) == []

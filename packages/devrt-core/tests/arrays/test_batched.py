"""jaxlib's batched operations: what they make, and that each is one call into a client."""

import types

import numpy as np
import pytest

import devrt
from devrt import xla_client
from devrt._config.layers import Config
from devrt.errors import ClosedError, DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.sharding import DeviceList, Mesh, NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P
from devrt.xla_client import ArrayCopySemantics
from devrt_acme.client import AcmeClient
from support import aligned

pytest.importorskip("devrt_cpu")

X = np.arange(32, dtype=np.float32).reshape(8, 4)
AVAL = types.SimpleNamespace(shape=X.shape, dtype=X.dtype)
REUSE, COPY, DONATE = (
    ArrayCopySemantics.REUSE_INPUT,
    ArrayCopySemantics.ALWAYS_COPY,
    ArrayCopySemantics.DONATE_INPUT,
)


@pytest.fixture
def rows(cpu):
    return NamedSharding(Mesh(np.array(cpu, dtype=object), ("x",)), P("x"))


@pytest.fixture
def backwards(cpu):
    return NamedSharding(Mesh(np.array(cpu[::-1], dtype=object), ("x",)), P("x"))


class OneCallClient(AcmeClient):
    """Notes its batched calls."""

    def __init__(self):
        super().__init__(8)
        self.calls = []


def noting(name):
    def method(self, *arguments):
        self.calls.append(name)
        return getattr(super(OneCallClient, self), name)(*arguments)

    return method


for name in (
    "buffers_from_pyvals",
    "batched_copy_to_memory",
    "batched_buffer_from_pyval",
    "batched_block_until_ready",
):
    setattr(OneCallClient, name, noting(name))


def test_shards_of_the_host_become_an_array(cpu, rows):
    shards = [X[i : i + 1] for i in range(8)]
    for committed in (True, False):
        a = xla_client.batched_device_put(AVAL, rows, shards, cpu, committed)
        assert a.committed is committed
        assert a.sharding is rows
        np.testing.assert_array_equal(np.asarray(a), X)
    a = xla_client.batched_device_put(AVAL, rows, shards[::-1], cpu[::-1], True)
    np.testing.assert_array_equal(np.asarray(a), X)


def test_one_value_for_all_devices_is_put_once(cpu, rows):
    a = xla_client.batched_device_put(AVAL, rows.with_spec(P()), [X] * 8, cpu)
    assert a.is_fully_replicated
    assert len({s.data.unsafe_buffer_pointer() for s in a.addressable_shards}) == 1
    np.testing.assert_array_equal(np.asarray(a), X)


def test_shards_on_devices_are_shared_or_copied(cpu, rows):
    parts = [devrt.device_put(X[i : i + 1], cpu[i]) for i in range(8)]
    elsewhere = [devrt.device_put(X[i : i + 1], cpu[0]) for i in range(8)]
    shared = xla_client.batched_device_put(AVAL, rows, parts, cpu)
    copied = xla_client.batched_device_put(AVAL, rows, parts, cpu, force_copy=True)
    moved = xla_client.batched_device_put(AVAL, rows, elsewhere, cpu)
    for a in (shared, copied, moved):
        np.testing.assert_array_equal(np.asarray(a), X)
        assert [s.data.device for s in a.addressable_shards] == cpu
    pointer = parts[3].unsafe_buffer_pointer()
    assert shared.addressable_data(3).unsafe_buffer_pointer() == pointer
    assert copied.addressable_data(3).unsafe_buffer_pointer() != pointer


def test_shards_of_the_host_and_of_devices_may_be_mixed(cpu, rows):
    shards = [devrt.device_put(X[i : i + 1], cpu[i]) if i % 2 else X[i : i + 1] for i in range(8)]
    a = xla_client.batched_device_put(AVAL, rows, shards, cpu)
    np.testing.assert_array_equal(np.asarray(a), X)


def test_aliasing_as_the_caller_promises(cpu):
    x = aligned(1024)
    aval = types.SimpleNamespace(shape=x.shape, dtype=x.dtype)
    zero_copy = xla_client.HostBufferSemantics.ZERO_COPY
    sharding = SingleDeviceSharding(cpu[0])
    aliased = xla_client.batched_device_put(
        aval, sharding, [x], cpu[:1], host_buffer_semantics=zero_copy
    )
    forced = xla_client.batched_device_put(
        aval, sharding, [x], cpu[:1], force_copy=True, host_buffer_semantics=zero_copy
    )
    assert aliased.unsafe_buffer_pointer() == x.ctypes.data
    assert forced.unsafe_buffer_pointer() != x.ctypes.data


def test_wrong_shards_are_named(cpu, rows):
    put = xla_client.batched_device_put
    with pytest.raises(InvalidArgumentError, match="7 for 8"):
        put(AVAL, rows, [X] * 7, cpu)
    with pytest.raises(InvalidArgumentError, match=r"\(1, 4\)"):
        put(AVAL, rows, [X] * 8, cpu)
    with pytest.raises(InvalidArgumentError, match="float64"):
        put(AVAL, rows, [X[:1].astype(np.float64)] * 8, cpu)
    with pytest.raises(InvalidArgumentError, match="one shard on each"):
        put(AVAL, rows, [X[:1]] * 8, [cpu[0]] * 8)
    with pytest.raises(InvalidTypeError):
        xla_client.array_result_handler(AVAL, rows, True)([X] * 8)


def test_a_result_handler_takes_arrays_and_buffers_in_any_order(cpu, rows):
    a = devrt.device_put(X, rows)
    handle = xla_client.array_result_handler(AVAL, rows, committed=False)
    parts = [s.data for s in a.addressable_shards]
    for shards in (parts, parts[::-1], a._arrays, a._arrays[::-1]):
        made = handle(shards)
        assert not made.committed
        np.testing.assert_array_equal(np.asarray(made), X)
    fast = xla_client.array_result_handler(AVAL, rows, True, _skip_checks=True)
    np.testing.assert_array_equal(np.asarray(fast(a._arrays)), X)


@pytest.mark.parametrize("semantics", list(ArrayCopySemantics))
def test_copies_to_other_devices(cpu, rows, backwards, semantics):
    a, b = devrt.device_put(X, rows), devrt.device_put(X * 2, rows)
    pointer = a.addressable_data(0).unsafe_buffer_pointer()
    copied = xla_client.batched_copy_array_to_devices_with_sharding(
        [a, b], [DeviceList(cpu[::-1]), cpu], [backwards, rows], [semantics, REUSE]
    )
    assert a.is_deleted() is (semantics is DONATE)
    assert not b.is_deleted()
    assert [s.device for s in copied[0].addressable_shards] == cpu[::-1]
    assert copied[0].sharding is backwards
    np.testing.assert_array_equal(np.asarray(copied[0]), X)
    np.testing.assert_array_equal(np.asarray(copied[1]), X * 2)
    is_shared = copied[0].addressable_data(0).unsafe_buffer_pointer() == pointer
    assert is_shared is (semantics is not COPY)


@pytest.mark.parametrize("semantics", list(ArrayCopySemantics))
def test_reordering_leaves_each_shard_on_its_device(cpu, rows, backwards, semantics):
    a = devrt.device_put(X, rows)
    on = {s.device: np.array(s.data) for s in a.addressable_shards}
    b = xla_client.reorder_shards(a, backwards, semantics)
    assert a.is_deleted() is (semantics is DONATE)
    for shard in b.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), on[shard.device])
    np.testing.assert_array_equal(np.asarray(b), X[::-1])


def test_what_does_not_fit_is_refused(cpu, rows):
    a = devrt.device_put(X, rows)
    copy = xla_client.batched_copy_array_to_devices_with_sharding
    with pytest.raises(InvalidArgumentError, match="as many arrays"):
        copy([a], [cpu], [rows], [])
    with pytest.raises(InvalidArgumentError, match="do not fit"):
        copy([a], [cpu[:4]], [rows], [REUSE])
    with pytest.raises(InvalidArgumentError, match="do not fit"):
        copy([a], [cpu], [rows.with_spec(P())], [REUSE])
    half = NamedSharding(Mesh(np.array(cpu[:4], dtype=object), ("x",)), P("x"))
    with pytest.raises(InvalidArgumentError, match="moves no shard"):
        xla_client.reorder_shards(a, half, REUSE)
    a.delete()
    with pytest.raises(DeletedError, match="deleted"):
        copy([a], [cpu], [rows], [REUSE])


def test_each_operation_is_one_call_to_its_client(monkeypatch):
    monkeypatch.setattr(Config, "guards_are_set", False)  # guarded, each leaf is checked
    client = OneCallClient()
    devices = client.devices()
    rows = NamedSharding(Mesh(np.array(devices, dtype=object), ("x",)), P("x"))
    flat = NamedSharding(Mesh(np.array(devices[::-1], dtype=object), ("x",)), P("x"))
    a = xla_client.batched_device_put(AVAL, rows, [X[i : i + 1] for i in range(8)], devices)
    assert client.calls == ["buffers_from_pyvals"]
    client.calls.clear()
    xla_client.batched_copy_array_to_devices_with_sharding(
        [a, a], [devices[::-1], devices], [flat, rows], [REUSE, REUSE]
    )
    xla_client.reorder_shards(a, flat, COPY)
    assert client.calls == ["batched_copy_to_memory"] * 2
    client.calls.clear()
    xla_client.batched_block_until_ready([a, a, a._arrays[0]])
    assert client.calls == ["batched_block_until_ready"]
    client.calls.clear()
    devrt.device_put([np.ones(2)] * 5, devices[0])
    devrt.device_put(X, rows)
    assert client.calls == ["buffers_from_pyvals", "batched_buffer_from_pyval"]


def test_waiting_takes_arrays_buffers_and_what_else_can_wait(cpu, rows):
    class Waiting:
        waited = False

        def block_until_ready(self):
            self.waited = True

    other = Waiting()
    a = devrt.device_put(X, rows)
    xla_client.batched_block_until_ready(iter([a, a._arrays[0], other]))
    assert other.waited
    a.delete()
    with pytest.raises(DeletedError):
        xla_client.batched_block_until_ready([a])


@pytest.mark.parametrize(("given", "says"), [([1], "entry 0 is of type int"), (1, "not one of")])
def test_only_arrays_and_buffers_can_be_waited_for(given, says):
    with pytest.raises(InvalidTypeError, match=says):
        xla_client.batched_block_until_ready(given)


@pytest.mark.parametrize("given", [[1], 1])
def test_a_client_without_a_way_of_its_own_waits_for_buffers_only(given):
    with pytest.raises(InvalidArgumentError, match="1 of type int is none"):
        AcmeClient(1).batched_block_until_ready(given)


def test_an_array_of_a_closed_client_says_so():
    client = AcmeClient(2)
    x = devrt.device_put(np.ones(2), client.devices()[0])
    client.close()
    with pytest.raises(ClosedError, match="was closed, and its data went with it"):
        devrt.device_put(x, client.devices()[1])

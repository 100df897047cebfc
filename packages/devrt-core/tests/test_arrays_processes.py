"""Arrays over devices of several processes, seen from one of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import devrt
from devrt.errors import InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding
from devrt.sharding import PartitionSpec as P

devrt_cpu = pytest.importorskip("devrt_cpu")

X = np.arange(64, dtype=np.float32).reshape(16, 4)


@pytest.fixture(scope="module", params=[0, 1])
def client(request):
    """The client of one of two processes with four devices each."""
    client = devrt_cpu.make_cpu_client(num_devices=4, node_id=request.param, num_nodes=2)
    yield client
    client.close()


ROWS = P("x")


def over(client, shape=(8,), names=("x",), spec=ROWS):
    grid = np.array(client.devices(), dtype=object).reshape(shape)
    return NamedSharding(Mesh(grid, names), spec)


def test_shards_of_other_processes_are_known_and_have_no_data(client):
    a = devrt.device_put(X, over(client))
    assert a.shape == X.shape
    assert not a.is_fully_addressable
    assert len(a.devices()) == 8
    assert len(a.global_shards) == 8
    assert len(a.addressable_shards) == 4
    mine = client.process_index()
    for number, shard in enumerate(a.global_shards):
        assert shard.device.process_index == number // 4
        assert shard.index == (slice(2 * number, 2 * number + 2), slice(None))
        if shard.device.process_index == mine:
            np.testing.assert_array_equal(np.asarray(shard.data), X[shard.index])
        else:
            assert shard.data is None


@pytest.mark.parametrize(
    "touch", [np.asarray, devrt.device_get, lambda a: a.item(0), lambda a: a.tolist()]
)
def test_touching_what_others_hold_is_a_clear_error(client, touch):
    a = devrt.device_put(X, over(client))
    with pytest.raises(InvalidArgumentError, match="4 of its shards are held elsewhere"):
        touch(a)
    assert "sharding" in repr(a)


def test_what_is_replicated_can_be_read_everywhere(client):
    a = devrt.device_put(X, over(client, spec=P()))
    assert not a.is_fully_addressable
    np.testing.assert_array_equal(np.asarray(a), X)
    out = np.zeros_like(X)
    devrt.device_get(a, out=out)
    np.testing.assert_array_equal(out, X)


def test_resharding_needs_the_parts_to_be_here(client):
    a = devrt.device_put(X, over(client))
    with pytest.raises(InvalidArgumentError, match="held by other processes"):
        devrt.device_put(a, over(client, spec=P()))
    b = devrt.device_put(a, over(client, spec=P(("x",))))
    assert [s.index for s in b.addressable_shards] == [s.index for s in a.addressable_shards]
    whole = devrt.device_put(X, over(client, spec=P()))
    np.testing.assert_array_equal(
        np.asarray(devrt.device_put(whole, over(client)).addressable_data(0)),
        np.asarray(a.addressable_data(0)),
    )


def test_only_addressable_parts_are_asked_of_a_callback(client):
    asked = []

    def part(index):
        asked.append(index)
        return X[index]

    sharding = over(client, (4, 2), ("x", "y"), P("x"))
    a = devrt.make_array_from_callback(X.shape, sharding, part)
    assert len(asked) == 2
    first = 2 * client.process_index()
    assert [index[0] for index in asked] == [slice(4 * n, 4 * n + 4) for n in (first, first + 1)]
    assert len(a.addressable_shards) == 4


CASES = [
    ((8,), ("x",), P("x")),
    ((8,), ("x",), P(None, "x")),
    ((8,), ("x",), P()),
    ((2, 4), ("p", "d"), P("p")),
    ((2, 4), ("p", "d"), P("d", "p")),
    ((2, 4), ("p", "d"), P(("p", "d"))),
    ((2, 4), ("p", "d"), P(("d", "p"))),
    ((2, 4), ("p", "d"), P(None, ("d", "p"))),
]


@pytest.mark.parametrize(("mesh", "names", "spec"), CASES, ids=str)
@given(data=st.data())
def test_process_local_data_is_what_the_process_holds(client, mesh, names, spec, data):
    shape = (8 * data.draw(st.integers(1, 3)), 8 * data.draw(st.integers(1, 3)))
    x = np.arange(shape[0] * shape[1]).reshape(shape)
    sharding = over(client, mesh, names, spec)
    held = sharding.addressable_devices_indices_map(shape).values()
    rows = sorted({i for index in held for i in range(*index[0].indices(shape[0]))})
    columns = sorted({i for index in held for i in range(*index[1].indices(shape[1]))})
    local = x[np.ix_(rows, columns)]
    makes = [
        devrt.make_array_from_process_local_data(sharding, local),
        devrt.make_array_from_process_local_data(sharding, local, shape),
        devrt.make_array_from_process_local_data(sharding, local, (None, shape[1])),
        devrt.make_array_from_process_local_data(sharding, x, shape),
    ]
    for a in makes:
        assert a.shape == shape
        for shard in a.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])


def test_process_local_data_of_the_wrong_size_is_named(client):
    sharding = over(client)
    with pytest.raises(InvalidArgumentError, match="dimension 0 must be 8"):
        devrt.make_array_from_process_local_data(sharding, X[:6], (16, 4))
    with pytest.raises(InvalidArgumentError, match="dimensions"):
        devrt.make_array_from_process_local_data(sharding, X, (16, 4, 1))
    with pytest.raises(InvalidArgumentError, match="'x'"):
        devrt.make_array_from_process_local_data(sharding, X[:3])


def test_parts_that_form_no_block_are_refused(client):
    devices = client.devices()
    if client.process_index():
        devices = devices[::-1]
    # Of this process: the corners (0, 0), (0, 1), (1, 1) and (2, 2) of a grid of four by two...
    grid = np.array([devices[i] for i in (0, 1, 2, 4, 5, 6, 7, 3)], dtype=object).reshape(4, 2)
    sharding = NamedSharding(Mesh(grid, ("x", "y")), P("x", "y"))
    with pytest.raises(InvalidArgumentError, match="make_array_from_callback"):
        devrt.make_array_from_process_local_data(sharding, np.zeros((4, 2)), (4, 2))


def test_a_mesh_without_devices_of_this_process_holds_nothing(client):
    mine = client.process_index()
    others = [d for d in client.devices() if d.process_index != mine]
    sharding = NamedSharding(Mesh(np.array(others, dtype=object), ("x",)), P("x"))
    makes = [
        lambda: devrt.device_put(X, sharding),
        lambda: devrt.make_array_from_process_local_data(sharding, X),
        lambda: devrt.make_array_from_callback(X.shape, sharding, lambda i: X[i]),
        lambda: devrt.device_put(devrt.device_put(X, client.local_devices()[0]), sharding),
    ]
    for make in makes:
        with pytest.raises(InvalidArgumentError, match="no device of"):
            make()

"""Arrays over devices of several processes, seen from one of them."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import devrt
from devrt.errors import (
    ClosedError,
    DeletedError,
    InvalidArgumentError,
    InvalidTypeError,
    UnimplementedError,
)
from devrt.programs import load_program
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


def parts(a):
    return [np.asarray(shard.data) for shard in a.addressable_shards]


def test_each_process_computes_what_needs_no_other(client):
    rows = over(client)
    a = devrt.device_put(X, rows)
    mine = parts(a)
    doubled = devrt.jit(lambda x: (x + 1) * np.float32(2) + np.arange(4))(a)
    assert doubled.sharding == rows
    np.testing.assert_array_equal(parts(doubled), [(x + 1) * 2 + np.arange(4) for x in mine])
    cut = devrt.jit(lambda: X, out_shardings=rows)()
    np.testing.assert_array_equal(parts(cut), mine)
    turned = a.T
    assert turned.sharding.spec == P(None, "x")
    np.testing.assert_array_equal(parts(turned), [x.T for x in mine])
    grid = over(client, (2, 4), ("x", "y"), P(("x", "y")))  # the same rows, by other names
    np.testing.assert_array_equal(parts(a + devrt.device_put(X, grid)), np.multiply(mine, 2))


def test_meshes_may_have_the_devices_in_other_orders(client):
    rows = over(client)
    back = NamedSharding(Mesh(rows.mesh.devices[::-1], ("x",)), ROWS)
    a = devrt.device_put(X, rows)
    kept, cut = devrt.jit(lambda x: (x, X), out_shardings=(rows, back))(a)
    for made in (kept, cut):
        for shard in made.addressable_shards:
            np.testing.assert_array_equal(shard.data, X[shard.index])
    with pytest.raises(UnimplementedError, match="divided as"):
        kept + cut


def test_what_needs_another_process_is_refused(client):
    a = devrt.device_put(X, over(client))
    whole = devrt.device_put(X, over(client, spec=P()))
    columns = devrt.device_put(X, over(client, (2, 4), ("x", "y"), P(None, "y")))
    for call, what in (
        (lambda: a.sum(), r"reduce \(.*test_processes.*shard_map"),
        (lambda: a[::-1], "shard_map"),
        (lambda: a + columns, "divided as PartitionSpec"),
        (lambda: devrt.jit(lambda x: x, out_shardings=whole.sharding)(a), "a result takes"),
    ):
        with pytest.raises(UnimplementedError, match=what):
            call()
    assert np.asarray(whole.sum()) == X.sum()
    total = devrt.shard_map(
        lambda x: devrt.lax.psum(x, "x"), a.sharding.mesh, in_specs=ROWS, out_specs=P()
    )
    with pytest.raises(UnimplementedError, match=r"devices of several processes.*shard_map"):
        load_program(devrt.jit(total).lower(a).as_text(), mesh=a.sharding.mesh)
    with pytest.raises(UnimplementedError, match=r"has none\. Call devrt.distributed.initialize"):
        total(a)


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


def test_only_addressable_parts_are_requested_of_a_callback(client):
    requests = []

    def part(index):
        requests.append(index)
        return X[index]

    sharding = over(client, (4, 2), ("x", "y"), P("x"))
    a = devrt.make_array_from_callback(X.shape, sharding, part)
    assert len(requests) == 2
    first = 2 * client.process_index()
    assert [index[0] for index in requests] == [slice(4 * n, 4 * n + 4) for n in (first, first + 1)]
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


@pytest.fixture
def elsewhere(client):
    """A sharding over the devices of the other process alone."""
    mine = client.process_index()
    others = [d for d in client.devices() if d.process_index != mine]
    return NamedSharding(Mesh(np.array(others, dtype=object), ("x",)), P("x"))


def test_an_array_without_a_shard_here_is_known(client, elsewhere):
    here = devrt.device_put(X, client.local_devices()[0])
    makes = [
        devrt.device_put(X, elsewhere),
        devrt.device_put(here, elsewhere),
        devrt.make_array_from_callback(X.shape, elsewhere, lambda i: X[i], dtype=np.float32),
        devrt.make_array_from_single_device_arrays(X.shape, elsewhere, [], dtype=np.float32),
    ]
    makes += [makes[0].clone(), makes[0].copy()]
    for a in makes:
        assert (a.shape, a.dtype, a.ndim, a.nbytes) == (X.shape, X.dtype, 2, X.nbytes)
        assert a.sharding is elsewhere
        assert a.device is elsewhere
        assert len(a.devices()) == len(a.global_shards) == 4
        assert all(shard.data is None for shard in a.global_shards)
        assert a.addressable_shards == a._arrays == []
        assert (a.is_fully_addressable, a.is_fully_replicated) == (False, False)
        assert a.on_device_size_in_bytes() == 0
        assert a.block_until_ready() is a
        assert devrt.block_until_ready([a]) == [a]
        assert a.is_ready()
        assert "sharding" in repr(a)
        assert any(a is live for live in devrt.live_arrays())
        a.delete()
        assert a.is_deleted()
        assert "deleted" in repr(a)
        for use in (a.clone, a.copy, lambda a=a: devrt.device_put(a, elsewhere)):
            with pytest.raises(DeletedError):
                use()


TOUCHES = [
    np.asarray,
    devrt.device_get,
    lambda a: a.item(0),
    lambda a: a.unsafe_buffer_pointer(),
    lambda a: a.__dlpack__(),
    pickle.dumps,
    lambda a: devrt.device_get(a, out=np.zeros_like(X)),
]


@pytest.mark.parametrize("spec", [P("x"), P()], ids=str)
@pytest.mark.parametrize("touch", TOUCHES)
def test_touching_an_array_without_a_shard_here_is_a_clear_error(client, elsewhere, spec, touch):
    a = devrt.device_put(X, elsewhere.with_spec(spec))
    with pytest.raises(InvalidArgumentError, match="this process holds none"):
        touch(a)


@pytest.mark.parametrize("spec", [P("x"), P()], ids=str)
def test_it_cannot_come_to_devices_of_this_process(client, elsewhere, spec):
    a = devrt.device_put(X, elsewhere.with_spec(spec))
    mine = client.local_devices()
    targets = [mine[0], mine[0].memory("pinned_host"), over(client), over(client, spec=P())]
    for target in targets:
        with pytest.raises(InvalidArgumentError, match="this process holds none"):
            devrt.device_put(a, target)
    b = devrt.device_put(a, elsewhere.with_memory_kind("pinned_host"))
    assert b.sharding.memory_kind == "pinned_host"
    assert b._arrays == []


def test_what_no_part_can_tell_must_be_given(client, elsewhere):
    with pytest.raises(InvalidArgumentError, match="pass the global shape and dtype"):
        devrt.make_array_from_callback(X.shape, elsewhere, lambda i: X[i])
    with pytest.raises(InvalidArgumentError, match="pass the global shape and dtype"):
        devrt.make_array_from_single_device_arrays([], elsewhere)
    with pytest.raises(InvalidArgumentError, match="'x'"):
        devrt.make_array_from_callback((3, 4), elsewhere, lambda i: X[i], dtype=np.float32)
    with pytest.raises(InvalidArgumentError, match="no device of"):
        devrt.make_array_from_process_local_data(elsewhere, X)
    with pytest.raises(InvalidTypeError):
        devrt.device_put(np.array(["text"] * 16), elsewhere)


def test_parts_are_of_the_dtype_that_was_requested(client):
    device = client.local_devices()[0]
    part = devrt.device_put(X, device)
    one = NamedSharding(Mesh(np.array([device], dtype=object), ("x",)), P())
    make = devrt.make_array_from_single_device_arrays
    assert make(X.shape, one, [part], dtype=np.float32).dtype == np.float32
    with pytest.raises(InvalidArgumentError, match="dtype int8"):
        make(X.shape, one, [part], dtype=np.int8)


def test_a_shape_is_checked_where_no_part_can_tell_it(client, elsewhere):
    makes = [
        lambda shape: devrt.make_array_from_single_device_arrays(shape, elsewhere, [], dtype="f4"),
        lambda shape: devrt.make_array_from_callback(shape, elsewhere, None.__eq__, dtype="f4"),
    ]
    for make in makes:
        with pytest.raises(InvalidArgumentError, match=r"\(-4,\), whose dimension 0 is negative"):
            make((-4,))
        for wrong in (4, (4.0,), "ab", b"ab", (None,)):
            with pytest.raises(InvalidTypeError, match="takes a global shape, a tuple of integers"):
                make(wrong)
        assert make([np.int64(4), 0]).shape == (4, 0)


def test_memory_kinds_of_other_processes_are_those_of_this_one(client, elsewhere):
    a = devrt.device_put(devrt.device_put(X, elsewhere), "pinned_host")
    assert a.sharding == elsewhere.with_memory_kind("pinned_host")
    with pytest.raises(InvalidArgumentError, match=r"\(.*pinned_host.* on cpu:\d\), and 'paper'"):
        devrt.device_put(a, "paper")


def test_an_array_without_a_shard_here_goes_with_its_client():
    closed = devrt_cpu.make_cpu_client(num_devices=1, node_id=0, num_nodes=2)
    (other,) = [d for d in closed.devices() if d.process_index]
    sharding = NamedSharding(Mesh(np.array([other], dtype=object), ("x",)), P("x"))
    a, deleted = devrt.device_put(X, sharding), devrt.device_put(X, sharding)
    deleted.delete()
    assert not a.is_deleted()
    closed.close()
    assert a.is_deleted()
    assert "deleted" in repr(a)
    assert not any(a is live for live in devrt.live_arrays())
    uses = [*TOUCHES, devrt.Array.clone, devrt.Array.copy, lambda a: devrt.device_put(a, sharding)]
    for use in uses:
        with pytest.raises(ClosedError, match="failed: the client of this array of shape"):
            use(a)
        with pytest.raises(DeletedError):
            use(deleted)

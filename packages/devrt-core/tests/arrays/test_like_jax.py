"""Random meshes and specs, put to JAX and to devrt in one process: the same shards and errors."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import devrt
from devrt import sharding as ours

# Read when jax is imported and when its first client is made; not left for other tests to see.
with pytest.MonkeyPatch.context() as _environ:
    _environ.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
    jax = pytest.importorskip("jax")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
pytest.importorskip("devrt_cpu")
DuplicateSpecError = pytest.importorskip("jax._src.named_sharding").DuplicateSpecError

MESHES = [(8,), (4, 2), (2, 4), (2, 2, 2), (8, 1), (1, 8), (2,), (3,), (3, 2), (1,)]
NAMES = "abc"


@pytest.fixture(scope="module", autouse=True)
def _jax_has_eight_devices():
    if len(jax.devices("cpu")) != 8:
        pytest.skip("JAX was set up with another number of devices before this test")


@st.composite
def cases(draw):
    """A mesh, the order of its devices, a spec, and a shape that need not fit."""
    sizes = draw(st.sampled_from(MESHES))
    count = int(np.prod(sizes))
    order = draw(st.permutations(range(8)))[:count]
    names = list(NAMES[: len(sizes)])
    left = draw(st.permutations(names))
    entries = []
    for _ in range(draw(st.integers(0, 3))):
        taken = draw(st.integers(0, min(2, len(left))))
        axes, left = tuple(left[:taken]), left[taken:]
        entries.append(axes if taken > 1 else (axes[0] if taken else None))
    rank = max(draw(st.integers(1, 3)), len(entries))
    divisors = st.sampled_from([1, 2, 3, 4, 6, 8, 16, 24, 0])
    return sizes, order, entries, tuple(draw(divisors) for _ in range(rank))


def both(case):
    sizes, order, entries, shape = case
    names = tuple(NAMES[: len(sizes)])
    made = []
    for library, devices in ((jax.sharding, jax.devices("cpu")), (ours, devrt.devices("cpu"))):
        grid = np.empty(len(order), dtype=object)
        grid[:] = [devices[i] for i in order]
        mesh = library.Mesh(grid.reshape(sizes), names)
        made.append(library.NamedSharding(mesh, library.PartitionSpec(*entries)))
    return *made, shape


def shape_of(sharding, shape):
    try:
        return sharding.shard_shape(shape)
    except ValueError:
        return "error"


def bounds(index, shape):
    return [cut.indices(size)[:2] for cut, size in zip(index, shape, strict=True)]


@given(cases())
def test_index_maps_and_shard_shapes(case):
    theirs, mine, shape = both(case)
    assert shape_of(theirs, shape) == shape_of(mine, shape)
    if shape_of(mine, shape) == "error":
        return
    expected = {d.id: bounds(i, shape) for d, i in theirs.devices_indices_map(shape).items()}
    assert {d.id: bounds(i, shape) for d, i in mine.devices_indices_map(shape).items()} == expected
    assert theirs.is_fully_replicated == mine.is_fully_replicated
    assert [d.id for d in theirs._device_assignment] == [d.id for d in mine._device_assignment]


@settings(max_examples=40)
@given(cases())
def test_shards_of_an_array(case):
    theirs, mine, shape = both(case)
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    if shape_of(mine, shape) == "error":
        for put, target in ((jax.device_put, theirs), (devrt.device_put, mine)):
            with pytest.raises(ValueError, match=r".+"):
                put(x, target)
        return
    a, b = jax.device_put(x, theirs), devrt.device_put(x, mine)
    for s, t in zip(a.addressable_shards, b.addressable_shards, strict=True):
        assert s.device.id == t.device.id
        assert s.replica_id == t.replica_id
        assert bounds(s.index, shape) == bounds(t.index, shape)
        np.testing.assert_array_equal(np.asarray(s.data), np.asarray(t.data))
    assert a.is_fully_replicated == b.is_fully_replicated
    assert a.is_fully_addressable == b.is_fully_addressable


@settings(max_examples=25)
@given(cases(), st.data())
def test_resharding(case, data):
    theirs, mine, shape = both(case)
    sizes, order, _, _ = case
    if shape_of(mine, shape) == "error":
        return
    names = NAMES[: len(sizes)]
    entries = data.draw(st.sampled_from([[], [names[0]], [None, names[-1]][: len(shape)]]))
    their_target, my_target, _ = both((sizes, order, entries, shape))
    if shape_of(my_target, shape) == "error":
        return
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    a = jax.device_put(jax.device_put(x, theirs), their_target)
    b = devrt.device_put(devrt.device_put(x, mine), my_target)
    for s, t in zip(a.addressable_shards, b.addressable_shards, strict=True):
        assert s.device.id == t.device.id
        np.testing.assert_array_equal(np.asarray(s.data), np.asarray(t.data))


@pytest.mark.parametrize(
    "make",
    [
        lambda lib, d, s: lib.Mesh(np.array([d[0], d[1]]), ("x", "x")),
        lambda lib, d, s: lib.Mesh(np.array([d[0], d[1]]), ("x", "y")),
        lambda lib, d, s: lib.NamedSharding(s, lib.PartitionSpec("nowhere")),
        lambda lib, d, s: lib.NamedSharding(s, lib.PartitionSpec("x", "x")),
        lambda lib, d, s: lib.NamedSharding(s, lib.PartitionSpec(("x", "x"))),
        lambda lib, d, s: lib.NamedSharding(s, lib.PartitionSpec("x")).shard_shape((3,)),
        lambda lib, d, s: lib.NamedSharding(s, lib.PartitionSpec("x"), memory_kind="nowhere"),
        lambda lib, d, s: lib.SingleDeviceSharding(d[0], memory_kind="nowhere"),
    ],
)
def test_both_refuse(make):
    for library, devices in ((jax.sharding, jax.devices("cpu")), (ours, devrt.devices("cpu"))):
        mesh = library.Mesh(np.array(devices[:2], dtype=object), ("x",))
        # JAX's own error for an axis that is used twice is no ValueError.
        error = ValueError if library is ours else (ValueError, DuplicateSpecError)
        with pytest.raises(error, match=r".+"):
            make(library, devices, mesh)


GUARDED = {
    "device_put": lambda api, d, s: api.device_put(np.ones(8, np.float32), d[0]),
    "over a mesh": lambda api, d, s: api.device_put(np.ones(8, np.float32), s),
    "numpy.array": lambda api, d, s: api.numpy.array(np.ones(8, np.float32)),
    "callback": lambda api, d, s: api.make_array_from_callback(
        (8,), s, lambda i: np.ones(8, np.float32)[i]
    ),
    "process local": lambda api, d, s: api.make_array_from_process_local_data(
        s, np.ones(8, np.float32)
    ),
    "another device": lambda api, d, s: api.device_put(HELD[api], d[1]),
    "where it is": lambda api, d, s: api.device_put(HELD[api], d[0]),
    "to a mesh": lambda api, d, s: api.device_put(HELD[api], s),
    "read": lambda api, d, s: np.asarray(HELD[api]),
    "device_get": lambda api, d, s: api.device_get(HELD[api]),
    "a copy": lambda api, d, s: HELD[api].copy(),
}
HELD = {}


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("level", ["allow", "log", "disallow", "log_explicit", "disallow_explicit"])
@pytest.mark.parametrize("direction", ["host_to_device", "device_to_device", "device_to_host"])
def test_guards_refuse_alike(name, level, direction):
    outcomes = []
    for api, library in ((jax, jax.sharding), (devrt, ours)):
        devices = api.devices("cpu")
        mesh = library.Mesh(np.array(devices, dtype=object), ("x",))
        HELD[api] = api.device_put(np.ones(8, np.float32), devices[0])
        try:
            with getattr(api, f"transfer_guard_{direction}")(level):
                GUARDED[name](api, devices, library.NamedSharding(mesh, library.PartitionSpec("x")))
            outcomes.append("passed")
        except RuntimeError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]

"""Ways in which arrays were once made to go wrong."""

import gc
import threading
import weakref

import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.sharding import NamedSharding, Sharding
from devrt.sharding import PartitionSpec as P

pytest.importorskip("devrt_cpu")


@pytest.fixture
def rows(cpu):
    return NamedSharding(devrt.make_mesh((8,), ("x",), devices=cpu), P("x"))


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, -(2**31) - 1, 2**31])
def test_integers_that_do_not_fit_in_32_bits_keep_their_value(cpu, rows, value):
    replicated = NamedSharding(rows.mesh, P())
    for array in (jnp.array([value]), jnp.full(1, value), devrt.device_put(value, replicated)):
        assert array.dtype == np.int64
        assert np.asarray(array).ravel()[0] == value


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1, 0])
def test_integers_that_fit_become_32_bit(value):
    assert jnp.array([value]).dtype == np.int32


def test_a_gathered_array_can_never_be_written_to(rows):
    x = devrt.device_put(np.zeros(16), rows)
    view = np.asarray(x)
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.setflags(write=True)
    assert np.asarray(devrt.device_put(np.zeros((0, 8)), rows.with_spec(P()))).shape == (0, 8)


def test_a_sharding_that_leaves_elements_out_is_reported(cpu):
    class Half(Sharding):
        is_fully_replicated = False
        memory_kind = None
        _device_assignment = tuple(cpu[:2])

        def devices_indices_map(self, shape):
            return {cpu[0]: (slice(0, 2),), cpu[1]: (slice(0, 2),)}

    with pytest.raises(InvalidArgumentError, match="2 elements of an array of 4"):
        np.asarray(devrt.device_put(np.arange(4), Half()))


def test_one_deleted_shard_ends_the_kept_copy(rows):
    x = devrt.device_put(np.zeros(16), rows)
    np.asarray(x)
    x._arrays[1].delete()
    with pytest.raises(devrt.errors.DeletedError):
        np.asarray(x)


NUMPY_CALLS = {
    "ndarray on the left": lambda x: np.ones(2) + x,
    "scalar on the left": lambda x: np.float64(1) + x,
    "comparison": lambda x: np.ones(2) == x,
    "ufunc": lambda x: np.add(np.ones(2), x),
    "reduction": np.sum,
    "reduction with options": lambda x: np.sum(x, axis=0, keepdims=True),
}


@pytest.mark.parametrize("call", NUMPY_CALLS.values(), ids=NUMPY_CALLS)
def test_numpy_leaves_computing_to_arrays_and_does_not_keep_them(cpu, call):
    x = devrt.device_put(np.ones(2), cpu[0])
    assert isinstance(call(x), devrt.Array)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_numpy_writes_into_its_own_arrays_alone(cpu):
    x = devrt.device_put(np.ones(2), cpu[0])
    y = np.ones(2)
    y += x
    assert y.tolist() == [2, 2]
    with pytest.raises(UnimplementedError, match=r"numpy\.add on a devrt array.*numpy\.asarray"):
        np.add(1, 2, out=x)


def test_objects_are_not_taken_at_their_word(rows):
    class Liar:
        shape = (8,)

        def __array__(self, dtype=None, copy=None):
            return np.arange(16)

    assert devrt.device_put(Liar(), rows).shape == (16,)
    assert devrt.device_put(b"abcdefgh", rows).shape == (8,)


def test_shards_are_counted_by_integers(rows):
    x = devrt.device_put(np.zeros(16), rows)
    with pytest.raises(InvalidArgumentError, match="slice"):
        x.addressable_data(slice(0, 2))


def test_live_arrays_while_others_make_some(cpu):
    stop = threading.Event()

    def make():
        while not stop.is_set():
            devrt.device_put(1.0, cpu[0])

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        half_made = devrt.Array.__new__(devrt.Array)
        for _ in range(20):
            assert all(x is not half_made for x in devrt.live_arrays())
    finally:
        stop.set()
        for thread in threads:
            thread.join()

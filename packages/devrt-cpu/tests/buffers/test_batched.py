"""One call that puts a block of an array on each of several devices."""

import numpy as np
import pytest

from devrt import errors
from devrt.contract import Client
from devrt_cpu import make_cpu_client


@pytest.fixture
def eight():
    with make_cpu_client(num_devices=8) as client:
        yield client


@pytest.mark.parametrize("semantics", [0, 1, 2, 3])
@pytest.mark.parametrize("rows", [8, 4096])
@pytest.mark.parametrize("dtype", ["float32", ">i8"])
def test_blocks_equal_those_of_the_contract(eight, semantics, rows, dtype):
    host = np.arange(rows * 64).astype(dtype).reshape(rows, 64)
    offsets = [(rows // 4 * (i // 2), 32 * (i % 2)) for i in range(8)]
    shape = (rows // 4, 32)
    made = eight.batched_buffer_from_pyval(host, eight.devices(), offsets, shape, semantics)
    model = Client.batched_buffer_from_pyval(eight, host, eight.devices(), offsets, shape)
    assert [b.device for b in made] == eight.devices()
    for buffer, expected in zip(made, model, strict=True):
        assert buffer.shape == shape
        assert np.asarray(buffer).tobytes() == np.asarray(expected).tobytes()


def test_equal_blocks_are_copied_once_for_each_kind(eight):
    host = np.arange(64, dtype=np.float32)
    pinned = [d.memory("pinned_host") for d in eight.devices()[:4]]
    targets = [*eight.devices()[4:], *pinned]
    made = eight.batched_buffer_from_pyval(host, targets, [(0,)] * 8, (64,))
    pointers = [b.unsafe_buffer_pointer() for b in made]
    assert len(set(pointers[:4])) == len(set(pointers[4:])) == 1
    assert pointers[0] != pointers[4]
    assert sum(d.memory_stats()["num_allocs"] for d in eight.devices()) == 2
    made[0].delete()
    for buffer in made[1:]:
        assert np.array_equal(np.asarray(buffer), host)


def test_source_may_change_after_the_call(eight):
    host = np.arange(1 << 20, dtype=np.float32)
    block = len(host) // 8
    offsets = [(i * block,) for i in range(8)]
    made = eight.batched_buffer_from_pyval(host, eight.devices(), offsets, (block,))
    host[:] = -1
    joined = np.concatenate([np.asarray(b) for b in made])
    assert np.array_equal(joined, np.arange(1 << 20, dtype=np.float32))


@pytest.mark.parametrize("semantics", [1, 2])
def test_source_may_be_dropped(eight, semantics):
    host = np.arange(1 << 20, dtype=np.float32)
    block = len(host) // 8
    offsets = [(i * block,) for i in range(8)]
    made = eight.batched_buffer_from_pyval(host, eight.devices(), offsets, (block,), semantics)
    del host
    joined = np.concatenate([np.asarray(b) for b in made])
    assert np.array_equal(joined, np.arange(1 << 20, dtype=np.float32))


def test_empty_and_scalar_batches(eight):
    assert eight.batched_buffer_from_pyval(np.zeros(3), [], [], (1,)) == []
    made = eight.batched_buffer_from_pyval(np.float64(2), eight.devices(), [()] * 8, ())
    assert [float(np.asarray(b)) for b in made] == [2.0] * 8
    made = eight.batched_buffer_from_pyval(np.zeros((3, 2)), eight.devices()[:1], [(3, 0)], (0, 2))
    assert made[0].shape == (0, 2)


def test_lists_are_offsets_too(eight):
    (made,) = eight.batched_buffer_from_pyval(np.arange(4), eight.devices()[:1], [[1]], [2])
    assert np.array_equal(np.asarray(made), [1, 2])


@pytest.mark.parametrize(
    ("offsets", "shape"),
    [
        ([(3,)], (2,)),
        ([(-1,)], (2,)),
        ([(0, 0)], (2,)),
        ([(0,)], (2, 1)),
        ([(0,)], (-1,)),
        ([(2**63 - 1,)], (2,)),
        ([(2**64,)], (2,)),
        ([(0,), (1,)], (2,)),
        ([(0.5,)], (2,)),
    ],
)
def test_wrong_blocks_are_refused(eight, offsets, shape):
    with pytest.raises(errors.InvalidArgumentError):
        eight.batched_buffer_from_pyval(np.arange(4), eight.devices()[:1], offsets, shape)
    assert eight.live_buffers() == []

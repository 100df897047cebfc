"""Blocks made of pieces of buffers, batched copies, gathering and waiting, natively."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt import errors
from devrt.contract import Assembly, Client, Piece
from devrt_cpu import make_cpu_client


@pytest.fixture(scope="module")
def eight():
    with make_cpu_client(num_devices=8) as client:
        yield client


def one_block(source_shape, start, extent):
    """A block that is one box of one source."""
    return Assembly(extent, 1, ((Piece(0, start, (0,) * len(extent), extent),),), (0,))


@given(data=st.data())
def test_any_grid_of_pieces_in_any_rank(eight, data):
    """Cut a block along random lines, each piece from a source of its own with a margin around."""
    rank = data.draw(st.integers(0, 7))
    shape = tuple(data.draw(st.integers(1, 5)) for _ in range(rank))
    cuts = [sorted({0, n, data.draw(st.integers(0, n))}) for n in shape]
    rng = np.random.default_rng(0)
    block = rng.integers(0, 100, shape).astype(np.int16)
    pieces, sources = [], []
    for cell in itertools.product(*(list(itertools.pairwise(cut)) for cut in cuts)):
        extent = tuple(b - a for a, b in cell)
        start = tuple(a for a, _ in cell)
        margin = tuple(data.draw(st.integers(0, 2)) for _ in extent)
        padded = rng.integers(0, 100, [m + n + m for m, n in zip(margin, extent, strict=True)])
        inside = tuple(slice(m, m + n) for m, n in zip(margin, extent, strict=True))
        padded = np.asarray(padded, np.int16)
        padded[inside] = block[tuple(slice(a, b) for a, b in cell)]
        pieces.append(Piece(len(sources), margin, start, extent))
        sources.append(eight.buffer_from_pyval(padded, eight.devices()[len(sources) % 8]))
    assembly = Assembly(shape, len(sources), (tuple(pieces),), (0, 0))
    targets = [eight.devices()[0], eight.devices()[1].memory("pinned_host")]
    for made in eight.assemble_buffers(sources, assembly, targets):
        np.testing.assert_array_equal(np.asarray(made), block)


@pytest.mark.parametrize("dtype", [np.bool_, ml_dtypes.bfloat16, np.float32, np.complex128])
@pytest.mark.parametrize("rows", [8, 1 << 16])
def test_row_blocks_become_column_blocks(eight, dtype, rows):
    x = (np.arange(rows * 8) % 100).astype(dtype).reshape(rows, 8)
    n = rows // 8
    held = eight.batched_buffer_from_pyval(
        x, eight.devices(), [(n * i, 0) for i in range(8)], (n, 8)
    )
    columns = tuple(
        tuple(Piece(i, (0, 4 * j), (n * i, 0), (n, 4)) for i in range(8)) for j in range(2)
    )
    assembly = Assembly((rows, 4), 8, columns, (0, 1, 0, 1))
    native = eight.assemble_buffers(held, assembly, eight.devices()[:4])
    model = Client.assemble_buffers(eight, held, assembly, eight.devices()[:4])
    for number, (mine, theirs) in enumerate(zip(native, model, strict=True)):
        assert mine.device is eight.devices()[number]
        expected = x[:, 4 * (number % 2) : 4 * (number % 2) + 4]
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes() == expected.tobytes()
    assert native[0].unsafe_buffer_pointer() == native[2].unsafe_buffer_pointer()


def test_a_run_within_a_source_is_shown_and_not_copied(eight):
    x = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    source = eight.buffer_from_pyval(x, eight.devices()[0])
    rows = one_block(x.shape, (16, 0), (8, 16))
    target = eight.devices()[5:6]
    (shown,) = eight.assemble_buffers([source], rows, target)
    (copied,) = eight.assemble_buffers([source], rows, target, may_alias=False)
    (pinned,) = eight.assemble_buffers([source], rows, [target[0].memory("pinned_host")])
    offset = shown.unsafe_buffer_pointer() - source.unsafe_buffer_pointer()
    assert offset == 16 * 16 * 4
    assert copied.unsafe_buffer_pointer() - source.unsafe_buffer_pointer() != offset
    assert pinned.memory.kind == "pinned_host"
    (part,) = eight.assemble_buffers([source], one_block(x.shape, (0, 3), (1, 4)), target)
    (column,) = eight.assemble_buffers([source], one_block(x.shape, (0, 0), (64, 4)), target)
    source.delete()
    for made in (shown, copied, pinned):
        np.testing.assert_array_equal(np.asarray(made), x[16:24])
    np.testing.assert_array_equal(np.asarray(part), x[:1, 3:7])
    np.testing.assert_array_equal(np.asarray(column), x[:, :4])


def test_large_blocks_do_not_wait_for_unready_sources(eight):
    x = np.arange(1 << 21, dtype=np.float64)
    source = eight.buffer_from_pyval(x, eight.devices()[0], False, 1)
    half = one_block(x.shape, (1 << 20,), (1 << 20,))
    (made,) = eight.assemble_buffers([source], half, eight.devices()[3:4])
    source.delete()
    np.testing.assert_array_equal(np.asarray(made), x[1 << 20 :])


def test_gathering_into_an_array(eight):
    for rows in (8, 1 << 18):
        x = np.arange(rows * 2, dtype=np.int32).reshape(rows, 2)
        n = rows // 4
        offsets = [(n * (i // 2), i % 2) for i in range(8)]
        held = eight.batched_buffer_from_pyval(x, eight.devices(), offsets, (n, 1))
        out = np.zeros_like(x)
        eight.batched_copy_to_host(held, offsets, out)
        np.testing.assert_array_equal(out, x)


def test_batched_copies_share_or_not(eight):
    held = eight.batched_buffer_from_pyval(
        np.arange(8), eight.devices(), [(i,) for i in range(8)], (1,)
    )
    shared = eight.batched_copy_to_memory(held, eight.devices()[::-1])
    apart = eight.batched_copy_to_memory(held, eight.devices()[::-1], may_alias=False)
    for source, alias, copy in zip(held, shared, apart, strict=True):
        assert source.unsafe_buffer_pointer() == alias.unsafe_buffer_pointer()
        assert source.unsafe_buffer_pointer() != copy.unsafe_buffer_pointer()
        assert np.asarray(source) == np.asarray(alias) == np.asarray(copy)
    assert [b.device for b in shared] == eight.devices()[::-1]


def test_waiting_for_many(eight):
    held = [eight.buffer_from_pyval(np.zeros(1 << 18), d, False, 1) for d in eight.devices()]
    eight.batched_block_until_ready(held)
    assert all(buffer.is_ready() for buffer in held)
    held[3].delete()
    with pytest.raises(errors.DeletedError):
        eight.batched_block_until_ready(held)


@pytest.mark.parametrize(
    ("start", "extent"),
    [((3,), (2,)), ((-1,), (1,)), ((0,), (5,)), ((2**63 - 1,), (2,)), ((0,), (-1,))],
)
def test_pieces_beyond_a_source_are_refused(eight, start, extent):
    source = eight.buffer_from_pyval(np.zeros(4))
    with pytest.raises(errors.InvalidArgumentError):
        eight.assemble_buffers([source], one_block((4,), start, extent), eight.devices()[:1])


class Forged:
    """What claims to be an assembly."""

    def __init__(self, packed):
        self.packed = packed


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [1],
        [65, 1, 1, 1],
        [-1, 1, 1, 1],
        [1, 1, 1, 1, 2, 5, 1, 0, 0, 0, 2],
        [1, 1, 1, 1, 2, 0, 1, 3, 0, 0, 2],
        [1, 1, 1, 1, 2, 0, 2**62, 0, 0, 0, 2],
        [1, 1, 1, 1, 2, 0, 1, 0, 0, 0, 2, 7],
        [1, 1, 1, 1, 2, 0, 1, 0, 0, 1, 2],
        [1, 1, 1, 1, 3, 0, 1, 0, 0, 0, 2],
        [1, 2, 1, 1, 2, 0, 1, 0, 0, 0, 2],
        [1, 1, 1, 2, 2, 0, 0, 1, 0, 0, 0, 2],
    ],
)
def test_forged_numbers_are_an_error_and_no_crash(eight, numbers):
    source = eight.buffer_from_pyval(np.zeros(2))
    forged = Forged(np.array(numbers, np.int64).tobytes())
    with pytest.raises(errors.InvalidArgumentError):
        eight.assemble_buffers([source], forged, eight.devices()[:1])


def test_what_is_no_buffer_of_this_client_is_named(eight):
    with make_cpu_client() as other:
        theirs = other.buffer_from_pyval(np.zeros(2))
        eight.batched_block_until_ready([theirs])  # waits for those of other cpu clients too
        with pytest.raises(errors.InvalidArgumentError, match="takes buffers"):
            eight.batched_block_until_ready([3])
        for wrong in (theirs, 3, None):
            for call in (
                lambda b: eight.batched_copy_to_memory([b], eight.devices()[:1]),
                lambda b: eight.batched_copy_to_host([b], [(0,)], np.zeros(2)),
                lambda b: eight.assemble_buffers(
                    [b], one_block((2,), (0,), (2,)), eight.devices()[:1]
                ),
            ):
                with pytest.raises(errors.InvalidArgumentError, match="of this client"):
                    call(wrong)


def test_what_does_not_fit_is_refused(eight):
    held = [eight.buffer_from_pyval(np.zeros(2, np.float32))]
    for offsets, out in (
        ([(0,), (0,)], np.zeros(2, np.float32)),
        ([(1,)], np.zeros(2, np.float32)),
        ([(0, 0)], np.zeros(2, np.float32)),
        ([(0,)], np.zeros(2, np.float64)),
        ([(0,)], np.zeros(2, ">f4")),
        ([(-1,)], np.zeros(2, np.float32)),
    ):
        with pytest.raises(errors.InvalidArgumentError):
            eight.batched_copy_to_host(held, offsets, out)
    frozen = np.zeros(2, np.float32)
    frozen.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        eight.batched_copy_to_host(held, [(0,)], frozen)
    with pytest.raises((ValueError, BufferError)):
        eight.batched_copy_to_host(held, [(0,)], np.zeros(4, np.float32)[::2])
    with pytest.raises(errors.InvalidArgumentError, match="same length"):
        eight.batched_copy_to_memory(held, [])
    mixed = [*held, eight.buffer_from_pyval(np.zeros(2, np.int8))]
    pieces = (Piece(0, (0,), (0,), (2,)), Piece(1, (0,), (2,), (2,)))
    with pytest.raises(errors.InvalidArgumentError, match="one element type"):
        eight.assemble_buffers(mixed, Assembly((4,), 2, (pieces,), (0,)), eight.devices()[:1])


def test_closed_clients_refuse():
    client = make_cpu_client()
    held = [client.buffer_from_pyval(np.zeros(2))]
    client.close()
    with pytest.raises(errors.ClosedError):
        client.batched_copy_to_memory(held, client.devices())
    with pytest.raises(errors.ClosedError):
        client.assemble_buffers(held, one_block((2,), (0,), (2,)), client.devices())

"""Boxes of arrays, between all memories of both vendors' simulated devices: NumPy's bits, and few
calls of the driver."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devrt.contract import Assembly, Piece
from devrt.layout import Layout
from gpu_library import Driver, simulated_platform

KINDS = ("device", "pinned_host", "unpinned_host", "managed")
DTYPES = (np.uint8, np.int16, np.float32, np.float64, np.complex128)
COPIES = (
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyPeerAsync",
)
PLACES = st.tuples(st.integers(0, 1), st.sampled_from(KINDS))
CHUNK = 4 << 20  # of what pageable memory is copied through


@pytest.fixture(scope="module")
def driver(vendor):
    return Driver(vendor.platform)


@pytest.fixture(scope="module")
def devices(vendor, driver):
    with simulated_platform(vendor.platform) as found:
        driver.reports()
        yield found
        assert driver.reports() == []


def numbered(shape, dtype, first=0):
    """Return an array whose elements differ in their bytes, as far as there are so many."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return ((np.arange(count) * 37 + first) % 251).astype(np.uint8).view(dtype).reshape(shape)


def same_bits(came, expected):
    return np.asarray(came).tobytes() == np.ascontiguousarray(expected).tobytes()


@st.composite
def cuts(draw, length, most):
    """Cut a length into pieces."""
    inner = draw(st.sets(st.integers(1, length - 1), max_size=most)) if length > 1 else set()
    return list(itertools.pairwise([0, *sorted(inner), length]))


@st.composite
def boxed(draw):
    """Describe a block: the range of each piece, and of its source the margins, order and place."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)))
    most = 2 if len(shape) < 4 else 1
    axes = len(shape)
    margin = st.tuples(st.integers(0, 2), st.integers(0, 2))
    pieces = [
        (
            ranges,
            draw(st.lists(margin, min_size=axes, max_size=axes)),
            draw(st.permutations(range(axes))),
            draw(PLACES),
        )
        for ranges in itertools.product(*[draw(cuts(length, most)) for length in shape])
    ]
    return shape, draw(st.sampled_from(DTYPES)), pieces, draw(PLACES)


def memory(devices, place):
    number, kind = place
    return devices[number].memory(kind)


def box_of(whole, start, extent):
    return whole[tuple(slice(at, at + size) for at, size in zip(start, extent, strict=True))]


@settings(max_examples=60)
@given(boxed())
def test_blocks_of_boxes_have_the_bits_of_numpy(devices, example):
    shape, dtype, boxes, target = example
    client = devices[0].client
    expected = np.zeros(shape, dtype)
    sources, pieces = [], []
    for number, (ranges, margins, order, place) in enumerate(boxes):
        extent = tuple(end - begin for begin, end in ranges)
        start = tuple(before for before, _ in margins)
        sizes = [size + sum(around) for size, around in zip(extent, margins, strict=True)]
        whole, layout = numbered(sizes, dtype, number), Layout(order)
        sources.append(client.buffer_from_pyval(whole, memory(devices, place), layout=layout))
        first = tuple(begin for begin, _ in ranges)
        box_of(expected, first, extent)[...] = box_of(whole, start, extent)
        pieces.append(Piece(number, start, first, extent))
    assembly = Assembly(shape, len(sources), (tuple(pieces),), (0,))
    (came,) = client.assemble_buffers(sources, assembly, [memory(devices, target)])
    assert same_bits(came, expected)


@st.composite
def views(draw):
    """Describe a strided view: a shape, a step of each axis, and their order."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    steps = [draw(st.sampled_from((1, 2, 3, -1, -2))) for _ in shape]
    return shape, steps, draw(st.permutations(range(len(shape)))), draw(st.sampled_from(DTYPES))


@settings(max_examples=60)
@given(views(), st.sampled_from(KINDS))
def test_strided_arrays_are_put_and_fetched(devices, example, kind):
    shape, steps, order, dtype = example
    whole = numbered([size * abs(step) for size, step in zip(shape, steps, strict=True)], dtype)
    view = whole[tuple(slice(None, None, step) for step in steps)].transpose(order)
    put = devices[1].client.buffer_from_pyval(view, devices[1].memory(kind))
    assert same_bits(put, view)


def cut(devices, whole, start, extent, source, target):
    """Return a box of an array, copied from one memory into another."""
    client = devices[0].client
    held = client.buffer_from_pyval(whole, memory(devices, source))
    held.block_until_ready()
    piece = Piece(0, start, (0,) * len(extent), extent)
    assembly = Assembly(extent, 1, ((piece,),), (0,))
    (came,) = client.assemble_buffers([held], assembly, [memory(devices, target)])
    return came.block_until_ready()


def box_calls(driver):
    return driver.calls("cuMemcpy3DAsync_v2" if driver.platform == "cuda" else "cuMemcpy2DAsync")


HERE, THERE = (0, "device"), (1, "device")
PINNED, HEAP, MANAGED = (0, "pinned_host"), (0, "unpinned_host"), (1, "managed")
PATHS = [(HERE, THERE), (HERE, HERE), (HERE, MANAGED), (MANAGED, HERE), (HERE, PINNED)]
PATHS += [(PINNED, HERE), (HERE, HEAP), (HEAP, HERE)]


@pytest.mark.parametrize(("source", "target"), PATHS)
@pytest.mark.parametrize(
    ("shape", "start", "extent", "planes"),
    [((9, 8), (1, 2), (7, 5), 1), ((6, 9, 8), (1, 1, 2), (4, 7, 5), 4)],
)
def test_a_box_is_one_call(driver, devices, shape, start, extent, planes, source, target):
    whole = numbered(shape, np.float32)
    rows, others = box_calls(driver), [driver.calls(name) for name in COPIES]
    came = cut(devices, whole, start, extent, source, target)
    rows = box_calls(driver) - rows
    others = [driver.calls(name) - count for name, count in zip(COPIES, others, strict=True)]
    put = 1 if source[1] == "device" else 0
    assert rows == (1 if driver.platform == "cuda" else planes)
    assert sum(others) == put
    box = box_of(whole, start, extent)
    assert same_bits(came, box)


@pytest.mark.parametrize(("source", "target"), PATHS[-2:])
@pytest.mark.parametrize(
    ("shape", "start", "extent"),
    [
        ((5000, 1500), (3, 250), (4990, 1000)),  # rows, many to a chunk
        ((40, 300, 600), (1, 50, 77), (38, 240, 500)),  # planes
        ((3, 1 << 21), (0, 5), (3, (1 << 21) - 9)),  # each row is more than a chunk
    ],
)
def test_boxes_through_chunks(driver, devices, shape, start, extent, source, target):
    whole = numbered(shape, np.float32)
    calls = box_calls(driver)
    came = cut(devices, whole, start, extent, source, target)
    box = box_of(whole, start, extent)
    assert same_bits(came, box)
    if driver.platform == "cuda" and len(shape) * shape[-1] < CHUNK:
        assert box_calls(driver) - calls <= 2 * box.nbytes // CHUNK + 2


def test_a_block_of_the_host_has_parts_of_a_device_and_of_the_host(devices):
    client = devices[0].client
    parts = [numbered((3, 5), np.int16, number) for number in range(3)]
    places = [(1, "device"), (0, "pinned_host"), (0, "device")]
    sources = [
        client.buffer_from_pyval(part, memory(devices, place))
        for part, place in zip(parts, places, strict=True)
    ]
    pieces = tuple(Piece(n, (0, 0), (3 * n, 0), (3, 5)) for n in range(3))
    for kind in ("pinned_host", "unpinned_host"):
        assembly = Assembly((9, 5), 3, (pieces,), (0,))
        (came,) = client.assemble_buffers(sources, assembly, [devices[0].memory(kind)])
        assert same_bits(came, np.concatenate(parts))

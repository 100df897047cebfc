"""make_mesh: the devices it takes, their order, and its errors."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import make_mesh, make_mesh_from_devices, order_by_topology


@pytest.fixture(scope="session")
def box(make_client):
    """Make devices that fill a box of coordinates, x counted first, with cores."""

    def make(*extents, cores=1, order=None):
        places = [
            (tuple(reversed(place[:-1])), place[-1])
            for place in itertools.product(*map(range, reversed(extents)), range(cores))
        ]
        if order is not None:
            order.shuffle(places)
        return make_client(processes=(0,) * len(places), coords=places).devices()

    return make


def test_explicit_devices_keep_their_order(devices):
    mesh = make_mesh((2, 2), ("a", "b"), devices=devices[3::-1])
    assert mesh.device_ids.tolist() == [[3, 2], [1, 0]]


def test_the_first_devices_are_taken(devices):
    assert make_mesh((2,), "a", devices=devices[::-1]).device_ids.tolist() == [15, 14]
    assert make_mesh_from_devices((3,), "a", devices, by_topology=True).size == 3


def test_takes_the_shape_under_both_names(devices):
    assert make_mesh(axis_shapes=(2,), axis_names="a", devices=devices).axis_sizes == (2,)
    assert make_mesh(mesh_shape=[np.int64(2)], axis_names="a", devices=devices).axis_sizes == (2,)
    for wrong in ({}, {"mesh_shape": (2,), "axis_shapes": (2,)}):
        with pytest.raises(InvalidTypeError, match="mesh_shape or as axis_shapes"):
            make_mesh(axis_names="a", devices=devices, **wrong)


def test_the_default_backends_devices_are_laid_out_by_topology(box, monkeypatch):
    devices = box(2, 2)
    monkeypatch.setattr("devrt.runtime.devices", lambda: devices)
    assert make_mesh((4,), "a").device_ids.tolist() == [0, 1, 3, 2]


def test_no_axes_is_one_device(devices):
    assert make_mesh((), (), devices=devices).size == 1


def test_too_few_devices(devices):
    with pytest.raises(InvalidArgumentError, match="needs 32 devices, but only 16 fake") as caught:
        make_mesh((8, 4), ("a", "b"), devices=devices)
    assert caught.value.needed == 32
    assert caught.value.available == 16
    assert "num_fake_devices" not in str(caught.value)  # there is no such option
    with pytest.raises(InvalidArgumentError, match="only 0 devices"):
        make_mesh((1,), "a", devices=[])


@pytest.mark.parametrize("shape", [(-1,), (0,), (2, -1)])
def test_sizes_must_be_positive(devices, shape):
    with pytest.raises(InvalidArgumentError, match="positive"):
        make_mesh(shape, ("a", "b")[: len(shape)], devices=devices)


def test_names_must_match(devices):
    with pytest.raises(InvalidArgumentError, match="2 axes, but 1 axis name was given"):
        make_mesh((2, 2), ("a",), devices=devices)


def test_without_coordinates_the_ids_order(devices):
    assert order_by_topology(devices[::-1], (4, 4)) == devices


def test_doubtful_coordinates_are_not_used(make_client):
    twice = make_client(processes=(0, 0), coords=[((0, 0),), ((0, 0),)]).devices()
    assert order_by_topology(twice[::-1]) == twice
    mixed = make_client(processes=(0, 0), coords=[((0, 0),), ((1,),)]).devices()
    assert order_by_topology(mixed[::-1]) == mixed
    assert order_by_topology([]) == []


def test_coordinates_that_count_gpus_are_no_places_of_chips(make_client):
    places = [((process, 0, number),) for process in range(3) for number in range(2)]
    devices = make_client(processes=(0, 0, 1, 1, 2, 2), coords=places).devices()
    assert order_by_topology(devices) != devices
    for device in devices:
        device.partition_index = device.process_index
    assert order_by_topology(devices[::-1], (3, 2)) == devices


def _place(device):
    return (*device.coords, device.core_on_chip)


def _distance(one, other):
    return sum(abs(a - b) for a, b in zip(_place(one), _place(other), strict=True))


@pytest.mark.parametrize(
    ("extents", "cores", "shape"),
    [
        ((4, 4), 1, (4, 4)),
        ((4, 4), 1, (16,)),
        ((2, 2, 4), 1, (4, 4)),
        ((2, 2, 4), 1, (2, 8)),
        ((4, 2, 1), 2, (8, 2)),
        ((4, 4, 4), 1, (4, 16)),
        ((4, 4), 1, (1, 16, 1)),
        ((3, 5), 1, (5, 3)),
    ],
)
def test_neighbours_along_axes_are_neighbours_in_hardware(box, extents, cores, shape):
    devices = box(*extents, cores=cores)
    names = tuple("abc"[: len(shape)])
    grid = make_mesh_from_devices(shape, names, devices, by_topology=True).devices
    assert len(set(grid.flat)) == math.prod(shape)
    for axis in range(grid.ndim):
        lines = np.moveaxis(grid, axis, -1).reshape(-1, grid.shape[axis])
        for line in lines:
            assert all(_distance(a, b) == 1 for a, b in itertools.pairwise(line))


def test_a_shape_that_fits_no_dimensions_gets_one_walk(box):
    ordered = order_by_topology(box(4, 3), (2, 6))
    assert all(_distance(a, b) == 1 for a, b in itertools.pairwise(ordered))


def test_a_box_with_a_hole_is_walked_in_order_of_coordinates(box):
    devices = box(3, 3)
    ordered = order_by_topology(devices[:4] + devices[5:], (8,))
    assert [device.coords for device in ordered] == [
        (0, 0), (1, 0), (2, 0), (2, 1), (0, 1), (0, 2), (1, 2), (2, 2),
    ]  # fmt: skip


@settings(deadline=None)
@given(
    extents=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    cores=st.integers(1, 2),
    random=st.randoms(use_true_random=False),
)
def test_order_does_not_depend_on_the_order_given(box, extents, cores, random):
    devices = box(*extents, cores=cores, order=random)
    shuffled = random.sample(devices, len(devices))
    ordered = order_by_topology(shuffled, (len(devices),))
    assert sorted(map(_place, ordered)) == sorted(map(_place, devices))
    assert ordered == order_by_topology(devices, (len(devices),))
    assert all(_distance(a, b) == 1 for a, b in itertools.pairwise(ordered))

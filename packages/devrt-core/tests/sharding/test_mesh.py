"""Meshes: attributes, identity, the current mesh, and every wrong way to make one."""

import contextvars
import gc
import pickle
import weakref

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import AbstractMesh, Mesh, current_mesh
from support import together


@pytest.fixture
def mesh(devices):
    return Mesh(np.array(devices[:8], dtype=object).reshape(4, 2), ("x", "y"))


def test_attributes(mesh, devices):
    assert mesh.axis_names == ("x", "y")
    assert mesh.axis_sizes == (4, 2)
    assert dict(mesh.shape) == {"x": 4, "y": 2}
    assert list(mesh.shape) == ["x", "y"]
    assert mesh.shape_tuple == (("x", 4), ("y", 2))
    assert mesh.size == 8
    assert not mesh.empty
    assert mesh.devices.shape == (4, 2)
    assert mesh.devices[1, 0] is devices[2]
    assert mesh.device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert mesh.local_mesh is mesh
    assert mesh.local_devices == devices[:8]
    assert not mesh.is_multi_process


def test_text(mesh):
    assert repr(mesh) == "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'))"
    assert str(mesh) == "Mesh('x': 4, 'y': 2)"
    assert str(mesh.abstract_mesh) == "AbstractMesh('x': 4, 'y': 2)"


def test_devices_cannot_be_changed(mesh, devices):
    with pytest.raises(ValueError, match="read-only"):
        mesh.devices[0, 0] = devices[9]
    with pytest.raises(AttributeError):
        mesh.devices = None


def test_the_array_given_is_copied(devices):
    given = np.array(devices[:4], dtype=object)
    mesh = Mesh(given, "x")
    given[0] = devices[9]
    assert mesh.devices[0] is devices[0]


def test_nested_lists_and_single_names(devices):
    assert Mesh([devices[:2], devices[2:4]], ["a", "b"]).axis_sizes == (2, 2)
    assert Mesh(devices[:2], "abc").axis_names == ("abc",)
    assert Mesh(devices[0], ()).shape == {}


def test_equality_and_hash(mesh, devices):
    same = Mesh(mesh.devices, mesh.axis_names)
    assert mesh == same
    assert hash(mesh) == hash(same)
    assert mesh != Mesh(mesh.devices, ("y", "x"))
    assert mesh != Mesh(mesh.devices[::-1], ("x", "y"))
    assert mesh != Mesh(mesh.devices.reshape(2, 4), ("x", "y"))
    assert mesh != mesh.abstract_mesh
    assert mesh != 3


def test_pickles_where_devices_do(mesh):
    assert pickle.loads(pickle.dumps(mesh)) == mesh


def test_keeps_no_cycle(devices):
    mesh = Mesh(devices[:2], "x")
    for name in ("local_mesh", "local_devices", "device_ids", "abstract_mesh"):
        getattr(mesh, name)
    gone = weakref.ref(mesh)
    gc.disable()
    try:
        del mesh
        assert gone() is None
    finally:
        gc.enable()


def test_abstract_mesh(mesh):
    abstract = mesh.abstract_mesh
    assert abstract == AbstractMesh((4, 2), ("x", "y"))
    assert hash(abstract) == hash(AbstractMesh((4, 2), ("x", "y")))
    assert abstract != AbstractMesh((2, 4), ("x", "y"))
    assert abstract != 3
    assert abstract.size == 8
    assert pickle.loads(pickle.dumps(abstract)) == abstract


def test_local_mesh_is_the_block_of_this_process(make_client):
    devices = make_client(processes=(0, 0, 1, 1, 0, 0, 1, 1), process_index=1).devices()
    mesh = Mesh(np.array(devices, dtype=object).reshape(2, 4), ("x", "y"))
    assert mesh.is_multi_process
    assert mesh.local_mesh.device_ids.tolist() == [[2, 3], [6, 7]]
    assert mesh.local_mesh.axis_names == ("x", "y")
    assert mesh.local_devices == [devices[i] for i in (2, 3, 6, 7)]


@pytest.mark.parametrize("process_index", [1, 5])
def test_local_mesh_must_be_a_block(make_client, process_index):
    devices = make_client(processes=(0, 1, 1, 0), process_index=process_index).devices()
    mesh = Mesh([devices[:2], devices[2:]], ("x", "y"))
    with pytest.raises(InvalidArgumentError, match="do not form a block"):
        _ = mesh.local_mesh


def test_entered_meshes_nest(mesh, devices):
    inner = Mesh(devices[:2], "i")
    assert current_mesh() is None
    with mesh as entered:
        assert entered is mesh
        with inner, mesh:
            assert current_mesh() is mesh
        assert current_mesh() is mesh
    assert current_mesh() is None


def test_a_mesh_decorates_functions(mesh):
    assert mesh(current_mesh)() is mesh
    assert current_mesh() is None


def test_leaving_on_an_error(mesh):
    with pytest.raises(KeyError), mesh:
        raise KeyError
    assert current_mesh() is None


def test_the_current_mesh_is_a_threads_own(mesh):
    seen = []
    with mesh:
        together(lambda _: contextvars.Context().run(lambda: seen.append(current_mesh())), [0])
    assert seen == [None]


def _bad(devices, make_client):
    other = make_client("other").devices()
    return {
        "more axes than names": (devices[:4], ("x", "y"), "1 axis, but 2 axis names were"),
        "names used twice": ([devices[:2], devices[2:4]], ("x", "x"), "'x' is used more than once"),
        "a device twice": ([devices[0], devices[1], devices[0]], "x", "fake:0 is in the mesh more"),
        "two platforms": ([devices[0], other[0]], "x", "one platform, but got fake, other"),
        "no devices": ([], "x", "at least one device"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "more axes than names",
        "names used twice",
        "a device twice",
        "two platforms",
        "no devices",
    ],
)
def test_bad_meshes(case, devices, make_client):
    given, names, message = _bad(devices, make_client)[case]
    with pytest.raises(InvalidArgumentError, match=message):
        Mesh(given, names)


@pytest.mark.parametrize("entry", [1, "cpu:0", None])
def test_entries_that_are_no_devices(devices, entry):
    with pytest.raises(InvalidTypeError, match="made of devices") as caught:
        Mesh([devices[0], entry], "x")
    assert caught.value.entry == entry


def test_ragged_lists(devices):
    with pytest.raises(InvalidArgumentError):
        Mesh([devices[:2], devices[2:3]], ("x", "y"))


@pytest.mark.parametrize("name", [1, None])
def test_names_are_str(devices, name):
    with pytest.raises(InvalidTypeError, match="axis names are str"):
        Mesh([devices[:2]], ("x", name))


@pytest.mark.parametrize("sizes", [3, (2.0,), (True,), "4"])
def test_sizes_are_integers(sizes):
    with pytest.raises(InvalidTypeError):
        AbstractMesh(sizes, "x")

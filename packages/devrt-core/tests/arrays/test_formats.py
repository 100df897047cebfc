"""Arrays in layouts of their own: what has one, what is put in one, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.layout import AutoLayout, Format, Layout
from devrt.sharding import NamedSharding, P, SingleDeviceSharding

pytest.importorskip("devrt_cpu")

COLUMNS = Layout(major_to_minor=(1, 0))
ROWS = Layout(major_to_minor=(0, 1))


@pytest.fixture
def sharded(cpu):
    return NamedSharding(devrt.make_mesh((4, 2), ("x", "y"), devices=cpu), P("x", "y"))


def value():
    return np.arange(64, dtype=np.float32).reshape(8, 8)


def test_a_layout_takes_its_dimensions_either_way():
    assert Layout(major_to_minor=(2, 0, 1)) == Layout((1, 0, 2))
    assert Layout((1, 0, 2)).major_to_minor == (2, 0, 1)
    assert Layout(major_to_minor=(0, 1), tiling=None).tiling() == []
    for wrong in ({}, {"minor_to_major": (0,), "major_to_minor": (0,)}):
        with pytest.raises(InvalidTypeError, match="once"):
            Layout(**wrong)
    with pytest.raises(InvalidArgumentError, match="major_to_minor must name"):
        Layout(major_to_minor=(0, 2))
    assert repr(Layout.AUTO) == "AUTO"
    assert pickle.loads(pickle.dumps(Layout.AUTO)) is Layout.AUTO is AutoLayout.AUTO


def test_a_format_is_a_layout_and_a_sharding(cpu):
    sharding = SingleDeviceSharding(cpu[0])
    form = Format(COLUMNS, sharding)
    assert form == Format(Layout((0, 1)), sharding)
    assert form != Format(ROWS, sharding)
    assert hash(form) == hash(Format(COLUMNS, sharding))
    assert pickle.loads(pickle.dumps(form)) == form
    assert repr(Format()) == "Format(layout=None, sharding=None)"
    with pytest.raises(InvalidArgumentError, match="Sharding has to be concrete"):
        Format(COLUMNS)
    with pytest.raises(InvalidTypeError, match="layout argument"):
        Format("{0,1}", sharding)
    with pytest.raises(InvalidTypeError, match="sharding argument"):
        Format(None, "cpu")


@pytest.mark.parametrize("source", ["host", "array", "list"])
def test_values_are_put_in_a_layout(cpu, sharded, source):
    x = value()
    given = {"host": x, "array": devrt.device_put(x, cpu[1]), "list": [x, {"a": x}]}[source]
    for sharding in (
        SingleDeviceSharding(cpu[2]),
        sharded,
        sharded.with_memory_kind("pinned_host"),
    ):
        form = Format(COLUMNS, sharding)
        for placed in devrt.tree.leaves(devrt.device_put(given, form)):
            assert placed.format == form
            assert placed.committed
            np.testing.assert_array_equal(placed, x)
            for shard in placed.addressable_shards:
                assert shard.data.format.layout == COLUMNS
                assert np.asarray(shard.data).flags.f_contiguous
                np.testing.assert_array_equal(shard.data, x[shard.index])


def test_arrays_have_a_format_and_keep_it_where_it_fits(cpu, sharded):
    rows = devrt.device_put(value(), sharded)
    assert rows.format == Format(ROWS, sharded)
    columns = devrt.device_put(rows, Format(COLUMNS, sharded))
    assert devrt.device_put(columns, Format(None, sharded)).format == columns.format
    back = devrt.device_put(columns, Format(ROWS, sharded))
    assert back.format == rows.format
    np.testing.assert_array_equal(back, value())
    gone = devrt.device_put(columns, Format(ROWS, sharded), donate=True)
    assert columns.is_deleted()
    np.testing.assert_array_equal(gone, value())


def test_parts_of_a_callback_are_put_in_a_layout(sharded):
    form = Format(COLUMNS, sharded)
    made = devrt.make_array_from_callback((8, 8), form, lambda index: value()[index])
    assert made.format == form
    np.testing.assert_array_equal(made, value())
    with pytest.raises(InvalidTypeError, match=r"`Layout.AUTO` cannot be used"):
        devrt.make_array_from_callback((8, 8), Format(Layout.AUTO, sharded), lambda index: None)
    with pytest.raises(InvalidTypeError, match="takes a sharding"):
        devrt.make_array_from_callback((8, 8), Format(), lambda index: None)


def test_what_no_value_can_be_put_in_is_refused(cpu, sharded):
    for given in (value(), devrt.device_put(value(), cpu[0])):
        for form in (Format(Layout.AUTO, sharded), Format(Layout.AUTO), Format()):
            with pytest.raises(InvalidArgumentError, match="should be concrete"):
                devrt.device_put(given, form)
        with pytest.raises(InvalidArgumentError, match="Length of major_to_minor and the rank"):
            devrt.device_put(given, Format(Layout(major_to_minor=(0, 1, 2)), sharded))
        with pytest.raises(InvalidArgumentError, match="tiles"):
            devrt.device_put(given, Format(Layout((1, 0), [(8, 8)]), sharded))
        with pytest.raises(InvalidArgumentError, match="divide"):
            devrt.device_put(
                given[:7] if type(given) is not devrt.Array else value()[:7],
                Format(COLUMNS, sharded),
            )


def test_a_guard_counts_a_change_of_layout(cpu):
    rows = devrt.device_put(value(), cpu[0])
    form = Format(COLUMNS, rows.sharding)
    with devrt.transfer_guard("disallow_explicit"):
        for given in (value(), rows):
            with pytest.raises(InvalidArgumentError, match="guard"):
                devrt.device_put(given, form)
        assert devrt.device_put(rows, rows.format).format == rows.format


def test_descriptions_of_arrays(cpu, sharded):
    x = devrt.device_put(value(), sharded)
    assert (x.aval.shape, x.aval.dtype, x.aval.ndim, x.aval.size) == ((8, 8), np.float32, 2, 64)
    assert repr(x.aval) == "ShapedArray(float32[8,8])"
    assert x.aval == devrt.device_put(value(), cpu[0]).aval
    assert not x.weak_type
    described = devrt.ShapeDtypeStruct.like(x)
    assert described.sharding == sharded
    assert described == devrt.ShapeDtypeStruct((8, 8), "float32", sharding=sharded)
    assert hash(described) == hash(pickle.loads(pickle.dumps(described)))
    assert described.update(shape=(4,), sharding=None).shape == (4,)
    assert devrt.ShapeDtypeStruct.like(devrt.device_put(1.0)).sharding is None
    assert devrt.ShapeDtypeStruct((), int, sharding=Format(None, sharded)).sharding == sharded
    assert (len(described), described.ndim, described.size) == (8, 2, 64)
    assert (described.itemsize, described.nbytes) == (4, 256)
    assert "dtype=float32, sharding=" in repr(described)
    with pytest.raises(InvalidTypeError, match="dtype must be specified"):
        devrt.ShapeDtypeStruct((2,), None)
    with pytest.raises(InvalidTypeError, match=r"Layout.AUTO"):
        devrt.ShapeDtypeStruct((2,), int, sharding=Format(Layout.AUTO))


def test_to_device_is_device_put(cpu, sharded):
    x = devrt.device_put(value(), cpu[0])
    assert x.to_device(cpu[3]).device is cpu[3]
    assert x.to_device(sharded).sharding == sharded
    with pytest.raises(UnimplementedError, match="stream"):
        x.to_device(cpu[0], stream=1)


def test_memory_kinds_have_the_names_of_old(cpu, sharded):
    assert cpu[0].memory("default") is cpu[0].default_memory()
    assert cpu[0].memory("pinned") is cpu[0].memory("pinned_host")
    pinned = devrt.device_put(value(), "pinned")
    assert pinned.sharding.memory_kind == "pinned_host"
    assert devrt.device_put(pinned, "default").sharding.memory_kind == "device"
    assert sharded.with_memory_kind("pinned") == sharded.with_memory_kind("pinned_host")
    assert SingleDeviceSharding(cpu[0], memory_kind="default").memory_kind == "device"
    with pytest.raises(InvalidArgumentError, match="pinned_host"):
        cpu[0].memory("pinned_hos")


def test_numpy_takes_arrays_over():
    x = np.arange(4.0)
    np.testing.assert_array_equal(devrt.numpy.from_dlpack(x), x)
    y = devrt.numpy.array(devrt.device_put(x), copy=True)
    assert devrt.numpy.asarray(y, copy=False) is y


def test_arrays_of_any_layout_go_to_any_sharding(cpu):
    mesh = devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)
    specs = [P(), P("x"), P(None, "y"), P("y", "x"), P(("x", "y"))]
    for source in specs:
        columns = devrt.device_put(value(), Format(COLUMNS, NamedSharding(mesh, source)))
        assert columns.copy().format.layout == COLUMNS
        for target in specs:
            sharding = NamedSharding(mesh, target)
            np.testing.assert_array_equal(devrt.device_put(columns, sharding), value())
            moved = devrt.device_put(columns, Format(COLUMNS, sharding))
            assert moved.format == Format(COLUMNS, sharding)
            np.testing.assert_array_equal(moved, value())


@pytest.mark.parametrize(
    ("module", "library"), [("jax._src.sharding", "jax's"), ("other", "other's")]
)
def test_what_only_looks_like_a_sharding_is_refused(module, library):
    other = type("NamedSharding", (), {"device_set": frozenset(), "__module__": module})()
    with pytest.raises(InvalidTypeError, match=rf"NamedSharding, which is {library} and not devrt"):
        Format(None, other)

"""Axis types: names of either library, equality, and where they are carried along."""

import enum

import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import AbstractMesh, AxisType, Mesh, make_mesh


class Foreign(enum.Enum):
    Auto = "a"
    Explicit = "e"
    Manual = "m"


def test_axes_by_their_type():
    types = (AxisType.Explicit, AxisType.Auto, AxisType.Manual)
    mesh = AbstractMesh((1, 1, 1), ("x", "y", "z"), types)
    assert (mesh.explicit_axes, mesh.auto_axes, mesh.manual_axes) == (("x",), ("y",), ("z",))


@pytest.mark.parametrize("kind", list(AxisType))
def test_whether_all_axes_are_of_a_type(kind):
    mesh = AbstractMesh((2, 1), ("x", "y"), (kind, kind))
    found = {each: getattr(mesh, f"are_all_axes_{each.name.lower()}") for each in AxisType}
    assert found == {each: each is kind for each in AxisType}
    mixed = mesh.update_axis_types({"y": AxisType.Auto, "x": AxisType.Manual})
    assert mixed.axis_types == (AxisType.Manual, AxisType.Auto)
    assert [mixed.are_all_axes_auto, mixed.are_all_axes_manual] == [False, False]


def test_a_mesh_without_axes(devices):
    mesh = Mesh(devices[0], ())
    assert (mesh.is_scalar, mesh.are_all_axes_auto) == (True, False)
    assert not Mesh(devices[:1], ("x",)).is_scalar
    assert mesh.abstract_mesh.abstract_mesh is mesh.abstract_mesh


def test_auto_is_the_default(devices):
    mesh = make_mesh((4, 2), ("x", "y"), devices=devices)
    assert mesh.axis_types == (AxisType.Auto, AxisType.Auto)
    assert mesh == make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=devices)
    assert "axis_types" not in repr(mesh)


@pytest.mark.parametrize(
    "given", [(AxisType.Explicit, AxisType.Manual), ("explicit", "Manual"),
              [Foreign.Explicit, Foreign.Manual]]
)  # fmt: skip
def test_members_names_and_other_enums_are_taken(devices, given):
    mesh = make_mesh((4, 2), ("x", "y"), given, devices=devices)
    assert mesh.axis_types == (AxisType.Explicit, AxisType.Manual)
    assert mesh.abstract_mesh.axis_types == mesh.local_mesh.axis_types == mesh.axis_types
    assert "axis_types=(Explicit, Manual)" in repr(mesh)
    plain = make_mesh((4, 2), ("x", "y"), devices=devices)
    assert mesh != plain
    assert hash(mesh) != hash(plain)
    assert mesh.abstract_mesh != plain.abstract_mesh


def test_one_axis_takes_one_type(devices):
    assert Mesh(devices[:2], "x", AxisType.Manual).axis_types == (AxisType.Manual,)
    assert AbstractMesh((2,), "x", "manual").axis_types == (AxisType.Manual,)


def test_what_is_no_axis_type_is_refused(devices):
    with pytest.raises(InvalidTypeError, match="Auto"):
        Mesh(devices[:2], ("x",), ("sideways",))
    with pytest.raises(InvalidTypeError):
        Mesh(devices[:2], ("x",), (3,))
    with pytest.raises(InvalidArgumentError, match="has 1 axes"):
        Mesh(devices[:2], ("x",), ("auto", "auto"))

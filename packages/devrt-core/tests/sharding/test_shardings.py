"""NamedSharding, SingleDeviceSharding and shardings that users write."""

import copy
import pickle
import weakref

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    P,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)

ALL = slice(None)


@pytest.fixture
def mesh(devices):
    return Mesh(np.array(devices[:8], dtype=object).reshape(4, 2), ("x", "y"))


@pytest.fixture
def named(mesh):
    return NamedSharding(mesh, P("x", None))


class TestNamed:
    def test_members(self, named, mesh, devices):
        assert named.mesh is mesh
        assert named.spec == P("x", None)
        assert named.memory_kind == "device"
        assert named.device_set == set(devices[:8])
        assert named._device_assignment == tuple(devices[:8])
        assert list(named.device_list) == devices[:8]
        assert named.num_devices == 8
        assert named.addressable_devices == set(devices[:8])
        assert named.is_fully_addressable
        assert not named.is_fully_replicated
        assert NamedSharding(mesh, P()).is_fully_replicated
        assert NamedSharding(mesh=mesh, spec=P(P.UNCONSTRAINED)).is_fully_replicated

    def test_repr(self, named, mesh):
        assert repr(named) == (
            "NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=PartitionSpec('x', None), "
            "memory_kind=device)"
        )
        abstract = NamedSharding(mesh.abstract_mesh, P())
        assert repr(abstract) == (
            "NamedSharding(mesh=AbstractMesh('x': 4, 'y': 2), spec=PartitionSpec())"
        )

    def test_index_maps(self, mesh, devices):
        sharding = NamedSharding(mesh, P(("y", "x")))
        starts = [0, 4, 1, 5, 2, 6, 3, 7]
        expected = {d: (slice(n, n + 1),) for d, n in zip(devices, starts, strict=False)}
        assert sharding.devices_indices_map((8,)) == expected
        assert list(sharding.devices_indices_map((8,))) == devices[:8]
        assert sharding.addressable_devices_indices_map((8,)) == expected
        assert NamedSharding(mesh, P()).devices_indices_map(()) == dict.fromkeys(devices[:8], ())
        halves = NamedSharding(mesh, P(None, "y")).devices_indices_map((8, 4))
        assert halves[devices[1]] == (ALL, slice(2, 4))

    def test_maps_given_out_are_copies(self, named):
        named.devices_indices_map((4, 1)).clear()
        assert len(named.devices_indices_map((4, 1))) == 8

    def test_an_axis_of_size_one_divides_nothing(self, devices):
        mesh = Mesh([devices[:1]], ("a", "b"))
        sharding = NamedSharding(mesh, P("a", "b"))
        assert sharding.is_fully_replicated
        assert sharding.devices_indices_map((3, 5)) == {devices[0]: (ALL, ALL)}

    def test_shard_shape(self, named):
        assert named.shard_shape((8, 3)) == (2, 3)
        assert named.shard_shape([8, 3]) == (2, 3)
        assert named.shard_shape((8, 3, 5)) == (2, 3, 5)
        assert named.shard_shape((0, 3)) == (0, 3)

    def test_equality_and_hash(self, named, mesh):
        same = NamedSharding(Mesh(mesh.devices, mesh.axis_names), P("x", None))
        assert named == same
        assert hash(named) == hash(same)
        assert named == NamedSharding(mesh, P("x", None), memory_kind="device")
        assert named != NamedSharding(mesh, P("x"))
        assert named != NamedSharding(mesh, P("y", None))
        assert named != named.with_memory_kind("pinned_host")
        assert named != 3

    def test_changed_copies(self, named, mesh):
        pinned = named.with_memory_kind("pinned_host")
        assert (pinned.mesh, pinned.spec, pinned.memory_kind) == (mesh, named.spec, "pinned_host")
        assert pinned.with_memory_kind(None) == named
        assert pinned.with_spec(P("y")) == NamedSharding(mesh, P("y"), memory_kind="pinned_host")
        assert named.with_spec(("y", None)).spec == P("y", None)
        assert named.with_spec(None).spec == P()

    def test_equivalence(self, named, mesh, devices):
        assert named.is_equivalent_to(named, 2)
        assert named.is_equivalent_to(NamedSharding(mesh, P("x")), 1)
        assert not named.is_equivalent_to(NamedSharding(mesh, P("y")), 2)
        assert not named.is_equivalent_to(named.with_memory_kind("pinned_host"), 2)
        assert not named.is_equivalent_to(3, 2)
        line = Mesh(devices[:8], "z")
        both = NamedSharding(mesh, P(("x", "y"), None))
        assert both.is_equivalent_to(NamedSharding(line, P("z")), 1)
        assert not both.is_equivalent_to(NamedSharding(Mesh(devices[7::-1], "z"), P("z")), 1)
        assert not both.is_equivalent_to(NamedSharding(line, P("z"), memory_kind="pinned_host"), 1)
        one = SingleDeviceSharding(devices[0])
        assert one.is_equivalent_to(NamedSharding(Mesh(devices[:1], "z"), P("z")), 1)
        assert NamedSharding(Mesh(devices[:1], "z"), P("z")).is_equivalent_to(one, 1)

    def test_immutable(self, named):
        for name in ("mesh", "spec", "memory_kind", "colour"):
            with pytest.raises(AttributeError):
                setattr(named, name, None)

    def test_pickles_where_devices_do(self, named):
        named.placement((8, 2))
        again = pickle.loads(pickle.dumps(named.with_memory_kind("pinned_host")))
        assert again == named.with_memory_kind("pinned_host")

    def test_can_be_referred_to_weakly(self, named):
        assert weakref.ref(named)() is named

    def test_over_an_abstract_mesh_knows_shapes_only(self):
        sharding = NamedSharding(AbstractMesh((2, 4), ("x", "y")), P("x"))
        assert sharding.shard_shape((8,)) == (4,)
        assert sharding.num_devices == 8
        assert sharding.memory_kind is None
        assert sharding == NamedSharding(AbstractMesh((2, 4), ("x", "y")), P("x"))
        for ask in (lambda: sharding.device_set, lambda: sharding.placement((8,))):
            with pytest.raises(InvalidArgumentError, match="its mesh is abstract"):
                ask()


class TestNamedErrors:
    def test_indivisible(self, mesh):
        sharding = NamedSharding(mesh, P(None, ("x", "y")))
        for ask in (sharding.placement, sharding.shard_shape, sharding.devices_indices_map):
            with pytest.raises(InvalidArgumentError, match="Dimension 1 of an array") as caught:
                ask((6, 13))
            error = caught.value
            assert (error.dimension, error.size, error.partitions) == (1, 13, 8)
            assert (error.axes, error.shape, error.padded_size) == (("x", "y"), (6, 13), 16)
            assert "'x' (size 4) and 'y' (size 2)" in str(error)
            assert "Pad the dimension to 16" in str(error)

    def test_spec_longer_than_the_shape(self, named):
        for ask in (named.placement, named.shard_shape, named.devices_indices_map):
            with pytest.raises(InvalidArgumentError, match=r"2 entries .* 1 dimensions") as caught:
                ask((4,))
            assert (caught.value.entries, caught.value.rank) == (2, 1)
        with pytest.raises(InvalidArgumentError, match="2 entries"):
            named.check_compatible_aval((4,))
        named.check_compatible_aval((4, 5, 6))

    def test_unknown_axis(self, devices):
        mesh = Mesh([devices[:2]], ("data", "model"))
        with pytest.raises(InvalidArgumentError, match="Did you mean 'model'") as caught:
            NamedSharding(mesh, P("modle"))
        assert caught.value.axis == "modle"
        assert caught.value.axis_names == ("data", "model")
        with pytest.raises(InvalidArgumentError, match=r"has the axes 'data', 'model'\.$"):
            NamedSharding(mesh, P("zzz"))
        with pytest.raises(InvalidArgumentError, match="has no axes"):
            NamedSharding(Mesh(devices[0], ()), P("x"))

    @pytest.mark.parametrize("spec", [P("x", "x"), P(("x", "x")), P("y", ("x", "y"))])
    def test_axis_used_twice(self, mesh, spec):
        with pytest.raises(InvalidArgumentError, match="more than once"):
            NamedSharding(mesh, spec)

    @pytest.mark.parametrize("spec", [None, "x", ("x",), ["x"]])
    def test_spec_of_another_type(self, mesh, spec):
        with pytest.raises(InvalidTypeError, match="needs a PartitionSpec"):
            NamedSharding(mesh, spec)

    def test_mesh_of_another_type(self, devices):
        with pytest.raises(InvalidTypeError, match="takes a Mesh, but got 1 of type int"):
            NamedSharding(1, P())

    def test_unknown_memory_kind(self, mesh):
        with pytest.raises(InvalidArgumentError, match="'hbm' is not addressable"):
            NamedSharding(mesh, P(), memory_kind="hbm")


class TestSingle:
    def test_members(self, devices):
        sharding = SingleDeviceSharding(devices[3])
        assert sharding.device_set == {devices[3]}
        assert sharding._device_assignment == (devices[3],)
        assert sharding.num_devices == 1
        assert sharding.memory_kind == "device"
        assert sharding.is_fully_replicated
        assert sharding.is_fully_addressable
        assert sharding.devices_indices_map((2, 3)) == {devices[3]: (ALL, ALL)}
        assert sharding.devices_indices_map(()) == {devices[3]: ()}
        assert sharding.shard_shape((2, 3)) == (2, 3)
        sharding.check_compatible_aval((2,))
        plan = sharding.placement((2, 3))
        assert plan.devices == (devices[3],)
        assert (plan.offsets, plan.shard_shape, plan.replica_ids) == (((0, 0),), (2, 3), (0,))

    def test_equality_repr_and_pickle(self, devices):
        sharding = SingleDeviceSharding(devices[0], memory_kind="pinned_host")
        assert repr(sharding) == (
            "SingleDeviceSharding(device=FakeDevice(id=0), memory_kind=pinned_host)"
        )
        assert sharding == SingleDeviceSharding(devices[0]).with_memory_kind("pinned_host")
        assert hash(sharding) == hash(sharding.with_memory_kind("pinned_host"))
        assert sharding != sharding.with_memory_kind(None)
        assert sharding != SingleDeviceSharding(devices[1], memory_kind="pinned_host")
        assert sharding != 3
        assert not sharding.is_equivalent_to(sharding.with_memory_kind(None), 1)
        assert pickle.loads(pickle.dumps(sharding)) == sharding

    def test_errors(self, devices):
        with pytest.raises(InvalidTypeError, match="takes a device, but got 1"):
            SingleDeviceSharding(1)
        with pytest.raises(InvalidArgumentError, match="'hbm' is not addressable"):
            SingleDeviceSharding(devices[0], memory_kind="hbm")


class Diagonal(Sharding):
    """What a user may write: block n of the first dimension on the nth device."""

    def __init__(self, devices, cuts=None):
        self.given, self.cuts = devices, cuts

    @property
    def _device_assignment(self):
        return list(self.given)

    memory_kind = property(lambda self: "device")
    is_fully_replicated = property(lambda self: False)

    def devices_indices_map(self, global_shape):
        step = global_shape[0] // len(self.given)
        cuts = self.cuts or [slice(n * step, (n + 1) * step) for n in range(len(self.given))]
        rest = (ALL,) * (len(global_shape) - 1)
        return {d: (cut, *rest) for d, cut in zip(self.given, cuts, strict=True)}


class TestSubclass:
    def test_all_else_follows(self, devices):
        sharding = Diagonal(devices[:4])
        assert sharding.num_devices == 4
        assert sharding.device_set == set(devices[:4])
        assert sharding.is_fully_addressable
        assert sharding.shard_shape((8, 3)) == (2, 3)
        plan = sharding.placement((8, 3))
        assert plan is sharding.placement((8, 3))
        assert plan.offsets == ((0, 0), (2, 0), (4, 0), (6, 0))
        assert plan.replica_ids == (0, 0, 0, 0)
        assert sharding.addressable_devices_indices_map((4,))[devices[1]] == (slice(1, 2),)
        named = NamedSharding(Mesh(devices[:4], "x"), P("x"))
        assert sharding.is_equivalent_to(named, 2)
        assert named.is_equivalent_to(sharding, 2)
        assert not named.with_spec(P(None, "x")).is_equivalent_to(sharding, 2)

    def test_replicas_are_counted(self, devices):
        plan = Diagonal(devices[:3], [slice(0, 2), ALL, slice(2)]).placement((2,))
        assert plan.replica_ids == (0, 1, 2)

    def test_blocks_of_different_shapes(self, devices):
        with pytest.raises(InvalidArgumentError, match="blocks of different shapes"):
            Diagonal(devices[:2], [slice(0, 1), slice(1, 4)]).placement((4,))

    @pytest.mark.parametrize(
        "ask",
        [
            lambda s: s._device_assignment,
            lambda s: s.devices_indices_map((1,)),
            lambda s: s.is_fully_replicated,
            lambda s: s.memory_kind,
            lambda s: s.with_memory_kind(None),
        ],
    )
    def test_what_a_subclass_must_bring(self, ask):
        class Empty(Sharding):
            pass

        with pytest.raises(UnimplementedError, match="Empty does not implement"):
            ask(Empty())


class TestPlacement:
    def test_is_kept_and_shared_by_equal_shardings_of_a_mesh(self, named, mesh):
        plan = named.placement((8, 4))
        assert named.placement((8, 4)) is plan
        assert named.placement([8, 4]) is plan
        assert NamedSharding(mesh, P("x", None)).placement((8, 4)) is plan
        assert named.with_memory_kind("pinned_host").placement((8, 4)) is plan

    def test_of_another_process(self, make_client):
        devices = make_client(processes=(0, 1) * 4, process_index=1).devices()
        sharding = NamedSharding(Mesh(devices, "x"), P("x"))
        plan = sharding.placement((16,))
        assert plan.devices == tuple(devices[1::2])
        assert plan.offsets == ((2,), (6,), (10,), (14,))
        assert plan.indices[0] == (slice(2, 4),)
        assert NamedSharding(Mesh(devices, "x"), P()).placement(()).replica_ids == (1, 3, 5, 7)
        assert not sharding.is_fully_addressable
        assert sharding.addressable_devices == set(devices[1::2])
        assert list(sharding.addressable_devices_indices_map((16,))) == devices[1::2]

    def test_the_number_kept_is_bounded(self, named, mesh):
        for n in range(200):
            named.placement((4 * n, 1))
        assert len(named._placements) <= 64
        assert len(named._layout._maps) <= 64
        for n in range(600):
            mesh.layout(PartitionSpec(*[None] * n))
        assert len(mesh._layouts) <= 256


def test_copies_of_what_cannot_change_are_itself(devices, mesh, named):
    spec = PartitionSpec("x")
    single, plain = SingleDeviceSharding(devices[0]), Diagonal(devices[:2])
    for each in (named, single, plain, mesh, named.device_list, mesh.abstract_mesh, spec):
        assert copy.copy(each) is each
        assert copy.deepcopy([each])[0] is each


def test_the_axes_that_arrays_are_copied_over(mesh):
    assert NamedSharding(mesh, P("x")).replicated_axes == {"y"}
    assert NamedSharding(mesh, P(("x", "y"))).replicated_axes == frozenset()
    assert NamedSharding(mesh, P(reduced={"y"})).replicated_axes == {"x"}


def test_whether_this_process_has_a_device(mesh, devices):
    assert NamedSharding(mesh, P()).has_addressable_devices
    one = make_single_device_sharding(devices[0])
    assert one == SingleDeviceSharding(devices[0])
    assert one.has_addressable_devices

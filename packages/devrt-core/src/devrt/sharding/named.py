"""The sharding over the named axes of a mesh."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from devrt._support.words import kind_of
from devrt.contract import OpSharding
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.sharding.abstract_mesh import AbstractMesh, Layout
from devrt.sharding.device_list import DeviceList, check_and_canonicalize_memory_kind
from devrt.sharding.index_maps import Index, Placement, index_map
from devrt.sharding.mesh import Mesh, current_mesh
from devrt.sharding.partition import Shape
from devrt.sharding.sharding import Sharding, select
from devrt.sharding.spec import PartitionSpec, axes_of

if TYPE_CHECKING:
    from typing import Self

    from devrt.contract import Device

__all__ = ["NamedSharding", "over_entered_mesh"]

_TILED = 3  # of XLA's OpSharding.Type


class NamedSharding(Sharding):
    """An array divided over the named axes of a mesh, and replicated over those not named.

    Parameters
    ----------
    mesh
        The devices. An `AbstractMesh` will do where only shapes are requested.
    spec
        For each dimension of the array, the mesh axes that divide it.
    memory_kind
        The kind of memory; None for the devices' default.

    Raises
    ------
    InvalidTypeError
        If ``mesh`` is no mesh or ``spec`` no `PartitionSpec`.
    InvalidArgumentError
        If the spec names an axis that the mesh lacks, or one twice, or the devices have no
        memory of this kind.
    """

    __slots__ = ("_hash", "_layout", "_memory_kind", "_mesh", "_spec")

    _mesh: Mesh | AbstractMesh
    _layout: Layout
    _hash: int | None

    def __init__(
        self,
        mesh: Mesh | AbstractMesh,
        spec: PartitionSpec,
        *,
        memory_kind: str | None = None,
    ) -> None:
        try:
            layout = mesh._layouts[spec]
        except (KeyError, TypeError, AttributeError):
            layout = None  # what is wrong is raised apart, without this error before it
        if layout is None:
            layout = _checked(mesh).layout(spec)
        if not isinstance(mesh, AbstractMesh):
            memory_kind = check_and_canonicalize_memory_kind(memory_kind, mesh._device_list)
        self._mesh = mesh
        self._spec = spec
        self._memory_kind = memory_kind
        self._layout = layout
        self._placements = layout.placements
        self._hash = None

    @property
    def mesh(self) -> Mesh | AbstractMesh:
        """The mesh."""
        return self._mesh

    @property
    def spec(self) -> PartitionSpec:
        """The mesh axes that divide each dimension."""
        return self._spec

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that arrays lie on; None if the devices' default is not known."""
        return self._memory_kind

    @property
    def device_list(self) -> DeviceList:
        """The devices of the mesh, row by row.

        Raises
        ------
        InvalidArgumentError
            If the mesh is abstract.
        """
        mesh = self._mesh
        if isinstance(mesh, AbstractMesh):
            msg = (
                f"{self!r} has no devices: its mesh is abstract. Make the sharding with a Mesh, "
                f"or ask only for shapes."
            )
            raise InvalidArgumentError(msg, mesh=str(mesh))
        return mesh._device_list

    @property
    def _device_assignment(self) -> tuple[Device, ...]:
        return self.device_list._devices

    @property
    def num_devices(self) -> int:
        """The size of the mesh."""
        return self._mesh.size

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self._layout.is_fully_replicated and not self._spec.unreduced

    @property
    def replicated_axes(self) -> frozenset[str]:
        """The axes of the mesh over which arrays are copied: those that the spec does not name."""
        spec = self._spec
        named = {axis for entry in spec for axis in axes_of(entry)}
        return frozenset(self._mesh.axis_names) - named - spec.unreduced - spec.reduced

    def update(self, **changes: Any) -> Self:
        """Return the sharding with another ``mesh``, ``spec`` or ``memory_kind``.

        A ``spec`` that is a plain tuple is taken as the entries of one.
        """
        spec = changes.pop("spec", self._spec)
        mesh, kind = changes.pop("mesh", self._mesh), changes.pop("memory_kind", self._memory_kind)
        if changes:
            msg = (
                f"NamedSharding.update takes mesh, spec and memory_kind, not {', '.join(changes)}."
            )
            raise InvalidTypeError(msg, operation="update")
        if not isinstance(spec, PartitionSpec):
            spec = PartitionSpec(*(() if spec is None else spec))
        return type(self)(mesh, spec, memory_kind=kind)

    def with_memory_kind(self, kind: str | None) -> Self:
        """Return the same sharding onto another kind of memory; None for the default kind."""
        return type(self)(self._mesh, self._spec, memory_kind=kind)

    def with_spec(self, spec: PartitionSpec | tuple[Any, ...] | None) -> Self:
        """Return the sharding of another spec over the same mesh and kind of memory.

        Entries in a plain tuple are taken as those of a spec, None as the empty spec.
        """
        return self.update(spec=spec)

    def op_sharding(self, ndim: int) -> OpSharding:
        """Return, in XLA's terms, how arrays of ``ndim`` dimensions are divided over the mesh.

        Partitions are numbered as the devices of the mesh, row by row.
        """
        partition = self._layout.partition
        counts = (*partition.counts, *(1,) * (ndim - len(partition.counts)))
        if all(count == 1 for count in counts):
            return OpSharding()
        blocks = index_map(counts, partition).offsets
        copies = self._mesh.size // math.prod(counts)
        tile_dims = counts if copies == 1 else (*counts, copies)
        order = sorted(range(len(blocks)), key=blocks.__getitem__)  # stable: copies in mesh order
        return OpSharding(_TILED, tile_dims, tuple(order), copies > 1)

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Return which part of an array each device of the mesh holds, in mesh order."""
        indices = self._layout.index_map(global_shape).indices
        return dict(zip(self._device_assignment, indices, strict=True))

    def shard_shape(self, global_shape: Shape) -> Shape:
        """Return the shape of the block that each device holds of an array."""
        return self._layout.index_map(global_shape).shard_shape

    def check_compatible_aval(self, shape: Shape) -> None:
        """Raise `InvalidArgumentError` if the spec has more entries than ``shape`` dimensions."""
        self._layout.partition.check_rank(tuple(shape))

    def is_equivalent_to(self, other: object, ndim: int) -> bool:
        """Return whether both shardings lay arrays of ``ndim`` dimensions out alike."""
        if self is other:
            return True
        if isinstance(other, NamedSharding) and self._mesh == other._mesh:
            return (
                self._memory_kind == other._memory_kind
                and self._layout.effective_axes == other._layout.effective_axes
                and self._spec.unreduced == other._spec.unreduced
                and self._spec.unreduced_kind == other._spec.unreduced_kind
            )
        return super().is_equivalent_to(other, ndim)

    def _blocks(self, shape: Shape) -> list[tuple[tuple[int, int], ...]]:
        made = index_map(shape, self._layout.partition.trimmed())
        return [
            tuple((start, start + n) for start, n in zip(offset, made.shard_shape, strict=True))
            for offset in made.offsets
        ]

    def _make_placement(self, shape: Shape) -> Placement:
        if self._spec.unreduced:
            msg = (
                f"no array is placed as {self}: each device would hold a summand of it, which only "
                "a program makes. Place it by a spec without unreduced axes."
            )
            raise UnimplementedError(msg, operation="placement", spec=self._spec)
        made = self._layout.index_map(shape)
        return select(
            self.device_list, made.offsets, made.shard_shape, made.indices, made.replica_ids
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, NamedSharding):
            if self._layout is other._layout:  # the same mesh and spec
                return self._memory_kind == other._memory_kind
            return (
                self._spec == other._spec
                and self._memory_kind == other._memory_kind
                and self._mesh == other._mesh
            )
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self._mesh, self._spec, self._memory_kind))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._mesh, self._spec, self._memory_kind)

    def __repr__(self) -> str:
        kind = "" if self._memory_kind is None else f", memory_kind={self._memory_kind}"
        return f"{type(self).__name__}(mesh={self._mesh}, spec={self._spec!r}{kind})"


def _checked(mesh: object) -> Mesh | AbstractMesh:
    if isinstance(mesh, Mesh | AbstractMesh):
        return mesh
    msg = f"NamedSharding takes a Mesh, but got {mesh!r} of type {kind_of(mesh)}."
    raise InvalidTypeError(msg, mesh=mesh)


def _rebuild(
    cls: type[NamedSharding],
    mesh: Mesh | AbstractMesh,
    spec: PartitionSpec,
    memory_kind: str | None,
) -> NamedSharding:
    return cls(mesh, spec, memory_kind=memory_kind)


def over_entered_mesh(spec: PartitionSpec, operation: str) -> NamedSharding:
    """Return the sharding of a spec over the mesh that is entered.

    Raises `InvalidArgumentError` if none is.
    """
    mesh = current_mesh()
    if mesh is None:
        msg = (
            f"{operation} got {spec} and no mesh is entered. Enter one with devrt.set_mesh(mesh), "
            "or give devrt.NamedSharding(mesh, spec)."
        )
        raise InvalidArgumentError(msg, spec=spec)
    return NamedSharding(mesh, spec)

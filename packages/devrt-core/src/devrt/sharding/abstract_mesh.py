"""Named mesh axes without devices: what meshes have in common, and the abstract mesh."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding.axis_type import AxisType, check_axis_types
from devrt.sharding.index_maps import IndexMap, index_map
from devrt.sharding.partition import MeshShape, Partition, Shape

if TYPE_CHECKING:
    from devrt.sharding.index_maps import Placement
    from devrt.sharding.spec import PartitionSpec

__all__ = ["AbstractMesh", "Layout", "MeshAxes", "remember"]

_MAX_LAYOUTS = 256
_MAX_MAPS = 64


def remember(cache: dict[Any, Any], key: Any, value: Any, limit: int) -> None:
    """Add an entry to a cache that never holds more than ``limit``.

    A full cache is emptied rather than trimmed: one dictionary operation, so threads need no
    lock, and a reader's hit costs nothing but the look-up.
    """
    if len(cache) >= limit:
        cache.clear()
    cache[key] = value


class Layout:
    """A partition with all that was made from it; shared by the shardings of a mesh and spec."""

    __slots__ = ("_maps", "effective_axes", "is_fully_replicated", "partition", "placements")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.is_fully_replicated = partition.is_fully_replicated
        self.effective_axes = partition.effective_axes
        self.placements: dict[Shape, Placement] = {}
        self._maps: dict[Shape, IndexMap] = {}

    def index_map(self, shape: Shape) -> IndexMap:
        """Return the index map of a shape; a second call is one look-up."""
        try:
            known = self._maps.get(shape)
        except TypeError:
            known = None
        if known is None:
            shape = tuple(shape)
            known = index_map(shape, self.partition)
            remember(self._maps, shape, known, _MAX_MAPS)
        return known


class MeshAxes:
    """The named axes of a mesh, and the specs that were resolved against them."""

    __slots__ = ("__weakref__", "_axis_names", "_axis_sizes", "_axis_types", "_hash", "_layouts")

    _axis_names: tuple[str, ...]
    _axis_sizes: Shape
    _axis_types: tuple[AxisType, ...]
    _hash: int | None
    _layouts: dict[PartitionSpec, Layout]

    def _set_axes(self, sizes: Shape, names: tuple[str, ...], types: Any) -> None:
        self._axis_sizes = sizes
        self._axis_names = names
        self._axis_types = check_axis_types(types, names)
        self._hash = None
        self._layouts = {}

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return self._axis_names

    @property
    def axis_sizes(self) -> Shape:
        """The sizes of the axes, in order."""
        return self._axis_sizes

    @property
    def axis_types(self) -> tuple[AxisType, ...]:
        """Who decides how values are divided over each axis, in order."""
        return self._axis_types

    @property
    def auto_axes(self) -> tuple[str, ...]:
        """The names of the axes of type ``Auto``."""
        return self._axes_of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[str, ...]:
        """The names of the axes of type ``Explicit``."""
        return self._axes_of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[str, ...]:
        """The names of the axes of type ``Manual``."""
        return self._axes_of_type(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether there are axes, and all are of type ``Auto``."""
        return set(self._axis_types) == {AxisType.Auto}

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether there are axes, and all are of type ``Explicit``."""
        return set(self._axis_types) == {AxisType.Explicit}

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether there are axes, and all are of type ``Manual``."""
        return set(self._axis_types) == {AxisType.Manual}

    def _axes_of_type(self, kind: AxisType) -> tuple[str, ...]:
        pairs = zip(self._axis_names, self._axis_types, strict=True)
        return tuple(name for name, each in pairs if each is kind)

    @property
    def shape(self) -> collections.OrderedDict[str, int]:
        """The size of each axis by its name, in order; a copy."""
        return collections.OrderedDict(zip(self._axis_names, self._axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> MeshShape:
        """Name and size of each axis, in order."""
        return tuple(zip(self._axis_names, self._axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of positions."""
        return math.prod(self._axis_sizes)

    @property
    def empty(self) -> bool:
        """Whether the mesh has no position."""
        return self.size == 0

    @property
    def is_scalar(self) -> bool:
        """Whether the mesh has one position and no axes."""
        return not self._axis_names

    def layout(self, spec: PartitionSpec) -> Layout:
        """Return the spec resolved against the axes, the same object for an equal spec.

        Raises
        ------
        InvalidArgumentError
            If the spec names an axis that the mesh lacks, or one axis twice.
        """
        try:
            known = self._layouts.get(spec)
        except TypeError:
            known = None
        if known is None:
            known = Layout(Partition.from_spec(spec, self.shape_tuple))
            remember(self._layouts, spec, known, _MAX_LAYOUTS)
        return known

    def __str__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{type(self).__name__}({sizes})"


class AbstractMesh(MeshAxes):
    """A mesh that knows its axes and no devices, to compute shapes of shards with.

    Parameters
    ----------
    axis_sizes
        The size of each axis.
    axis_names
        The name of each axis.
    axis_types
        The `AxisType` of each axis; ``Auto`` when omitted.

    Raises
    ------
    InvalidArgumentError
        If sizes and names do not match, a name is used twice, or a size is not positive.
    """

    __slots__ = ()

    def __init__(
        self,
        axis_sizes: Iterable[int],
        axis_names: str | Iterable[str],
        axis_types: Any = None,
    ) -> None:
        sizes = check_axis_sizes(axis_sizes)
        self._set_axes(sizes, check_axis_names(axis_names, sizes), axis_types)

    def update(
        self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None
    ) -> AbstractMesh:
        """Return the mesh with other sizes, names or types of axes; None keeps what it has."""
        return AbstractMesh(
            self._axis_sizes if axis_sizes is None else axis_sizes,
            self._axis_names if axis_names is None else axis_names,
            self._axis_types if axis_types is None else axis_types,
        )

    def update_axis_types(self, name_to_type: Mapping[str, Any]) -> AbstractMesh:
        """Return the mesh with other types of the axes that are named."""
        pairs = zip(self._axis_names, self._axis_types, strict=True)
        return self.update(axis_types=[name_to_type.get(name, kind) for name, kind in pairs])

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself, as a `Mesh` has one."""
        return self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, AbstractMesh):
            return self.shape_tuple == other.shape_tuple and self._axis_types == other._axis_types
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape_tuple, self._axis_types))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return AbstractMesh, (self._axis_sizes, self._axis_names, self._axis_types)

    def __copy__(self) -> AbstractMesh:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> AbstractMesh:
        return self

    __repr__ = MeshAxes.__str__


def check_axis_sizes(sizes: Iterable[int]) -> Shape:
    """Return mesh axis sizes as a tuple of int; raise if one is not a positive integer."""
    try:
        result = tuple(sizes)
    except TypeError:
        msg = f"A mesh shape is a sequence of integers, such as (4, 2), but got {sizes!r}."
        raise InvalidTypeError(msg, mesh_shape=sizes) from None
    for size in result:
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            msg = f"A mesh shape holds integers, but {result} holds {size!r}."
            raise InvalidTypeError(msg, mesh_shape=result)
        if size < 1:
            msg = (
                f"Mesh shape {result} holds {size}, but every axis has a positive size; a size is "
                f"never worked out from the others. Write all sizes out."
            )
            raise InvalidArgumentError(msg, mesh_shape=result)
    return tuple(size.__index__() for size in result)


def check_axis_names(names: str | Iterable[str], sizes: Shape) -> tuple[str, ...]:
    """Return axis names as a tuple; raise unless there is one distinct str for each size."""
    result: tuple[Any, ...] = (names,) if isinstance(names, str) else tuple(names)
    for name in result:
        if not isinstance(name, str):
            msg = (
                f"Mesh axis names are str, but one of {result} is {name!r} of type "
                f"{type(name).__name__}."
            )
            raise InvalidTypeError(msg, axis_names=result)
    if len(result) != len(sizes):
        msg = (
            f"A mesh of shape {sizes} has {_count(sizes, 'axis', 'axes')}, but "
            f"{_count(result, 'axis name was', 'axis names were')} given: {result}. "
            "Give one name per axis."
        )
        raise InvalidArgumentError(msg, axis_names=result, mesh_shape=sizes)
    twice = [name for name in result if result.count(name) > 1]
    if twice:
        msg = f"Mesh axis name {twice[0]!r} is used more than once in {result}. Rename one."
        raise InvalidArgumentError(msg, axis=twice[0], axis_names=result)
    return result


def _count(things: tuple[Any, ...], one: str, many: str) -> str:
    return f"{len(things)} {one if len(things) == 1 else many}"

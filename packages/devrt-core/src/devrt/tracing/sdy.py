"""Meshes, shardings and groups of devices as attributes, as Shardy and StableHLO write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.sharding import AbstractMesh, Mesh, PartitionSpec

__all__ = [
    "ManualAxes",
    "Meshes",
    "PerValue",
    "ReplicaGroups",
    "SourceTargetPairs",
    "TensorSharding",
]

_NAME = "mesh"


class Meshes:
    """The meshes of a program: their names in its text, and the numbers of their devices.

    Parameters
    ----------
    meshes
        All that the program's shardings name.
    devices
        The program's devices, partition 0 first; by default those of the first mesh that has any.

    Raises
    ------
    InvalidArgumentError
        If two meshes are over different devices.
    """

    def __init__(
        self,
        meshes: Iterable[Mesh | AbstractMesh] = (),
        devices: Iterable[Any] | None = None,
    ) -> None:
        given = list(dict.fromkeys(meshes))
        concrete = [mesh for mesh in given if isinstance(mesh, Mesh)]
        if devices is None:
            devices = concrete[0].device_list if concrete else ()
        self._numbers = {device: i for i, device in enumerate(devices)}
        self._count = len(self._numbers) or (given[0].size if given else 1)
        for mesh in concrete:
            self._check(mesh)
        # An abstract mesh is the mesh of its axes.
        named = dict.fromkeys(mesh.abstract_mesh for mesh in concrete if self._is_in_order(mesh))
        named |= dict.fromkeys(mesh for mesh in given if isinstance(mesh, AbstractMesh))
        keys = [*named, *(mesh for mesh in concrete if not self._is_in_order(mesh))]
        self._names: dict[Any, str] = {
            key: _NAME if i == 0 else f"{_NAME}_{i}" for i, key in enumerate(keys)
        }

    @property
    def num_partitions(self) -> int:
        """Among how many devices the program is divided."""
        return self._count

    @property
    def any(self) -> Mesh | AbstractMesh | None:
        """One of them; None if the program runs on one device."""
        return next(iter(self._names), None) if self._count > 1 else None

    def name(self, mesh: Mesh | AbstractMesh) -> str:
        """Return the symbol of a mesh, without ``@``.

        Raises
        ------
        InvalidArgumentError
            If it is abstract and no mesh of devices has its axes.
        """
        name = self._names.get(self._key(mesh))
        if name is None:
            msg = (
                f"no argument lies on a mesh with the axes of {mesh}, which has no devices. Place "
                "an argument on such a mesh, or use one of devices."
            )
            raise InvalidArgumentError(msg, mesh=str(mesh))
        return name

    def lines(self) -> list[str]:
        """Return the lines that declare the meshes; none for one device."""
        if self.num_partitions == 1:
            return []
        return [self._line(key, name) for key, name in self._names.items()]

    def numbers(self, mesh: Mesh | AbstractMesh) -> np.ndarray[Any, Any]:
        """Return the numbers of a mesh's devices among the partitions, in the mesh's shape."""
        if isinstance(mesh, AbstractMesh):
            return np.arange(mesh.size).reshape(mesh.axis_sizes)
        numbers = [self._numbers[device] for device in mesh.device_list]
        return np.array(numbers).reshape(mesh.axis_sizes)

    def _key(self, mesh: Mesh | AbstractMesh) -> Mesh | AbstractMesh:
        if isinstance(mesh, AbstractMesh) or not self._is_in_order(mesh):
            return mesh
        return mesh.abstract_mesh

    def _is_in_order(self, mesh: Mesh) -> bool:
        return [self._numbers[device] for device in mesh.device_list] == list(range(mesh.size))

    def _line(self, mesh: Mesh | AbstractMesh, name: str) -> str:
        axes = ", ".join(f'"{axis}"={size}' for axis, size in mesh.shape.items())
        numbers = self.numbers(mesh).ravel().tolist()
        ids = "" if numbers == list(range(mesh.size)) else f", device_ids={numbers}"
        return f"sdy.mesh @{name} = <[{axes}]{ids}>"

    def _check(self, mesh: Mesh) -> None:
        if set(self._numbers) != set(mesh.device_list):
            msg = (
                f"a program runs on {list(self._numbers)}, but {mesh} is over "
                f"{list(mesh.device_list)}. Use a mesh of the same devices."
            )
            raise InvalidArgumentError(msg, mesh=str(mesh))


class TensorSharding(NamedTuple):
    """How a tensor is divided over a mesh.

    Attributes
    ----------
    mesh
        The mesh.
    spec : PartitionSpec
        The axes that divide each dimension. What is unconstrained is left to the compiler.
    ndim : int
        How many dimensions the tensor has.
    is_open : bool
        Whether the compiler may divide every dimension by further axes.
    """

    mesh: Any
    spec: PartitionSpec
    ndim: int
    is_open: bool = False

    def mlir_in(self, meshes: Meshes) -> str:
        """Return the attribute's text in a program of some meshes."""
        return f"#sdy.sharding{self.body(meshes)}"

    def body(self, meshes: Meshes) -> str:
        """Return what stands after the attribute's name."""
        dims = [*self.spec, *(None,) * (self.ndim - len(self.spec))]
        return f"<@{meshes.name(self.mesh)}, [{', '.join(map(self._dimension, dims))}]>"

    def _dimension(self, entry: Any) -> str:
        if entry is PartitionSpec.UNCONSTRAINED:
            return "{?}"
        axes = () if entry is None else (entry,) if isinstance(entry, str) else entry
        return "{" + ", ".join([f'"{axis}"' for axis in axes] + ["?"] * self.is_open) + "}"


class PerValue(NamedTuple):
    """The shardings of several values."""

    shardings: tuple[TensorSharding, ...]

    def mlir_in(self, meshes: Meshes) -> str:
        """Return the attribute's text in a program of some meshes."""
        return f"#sdy.sharding_per_value<[{', '.join(s.body(meshes) for s in self.shardings)}]>"


class ManualAxes(NamedTuple):
    """The axes that a manual computation binds, in the mesh's order."""

    axes: tuple[str, ...]

    def mlir(self) -> str:
        """Return the attribute's text."""
        names = ", ".join(f'"{axis}"' for axis in self.axes)
        return f"#sdy<manual_axes{{{names}}}>"


class ReplicaGroups(NamedTuple):
    """Which devices of a mesh take part in a collective together.

    Attributes
    ----------
    mesh
        The mesh.
    axes : tuple of str
        Devices that differ only in their positions along these axes are one group, ordered by them.
    groups : tuple of tuple of int, or None
        How such a group is divided further, by positions in it.
    """

    mesh: Any
    axes: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...] | None = None

    def numbers(self, meshes: Meshes) -> np.ndarray[Any, Any]:
        """Return the numbers of the devices, a group in each row; -1 fills up a shorter row."""
        rows = _rows(meshes.numbers(self.mesh), self.mesh.axis_names, self.axes)
        if self.groups is None:
            return rows
        size = max(map(len, self.groups))
        absent = [-1]  # fills up the rows of groups that are smaller
        groups = [
            [*row[list(group)], *absent * (size - len(group))]
            for row in rows
            for group in self.groups
        ]
        return np.array(groups)

    def mlir_in(self, meshes: Meshes) -> str:
        """Return the attribute's text in a program of some meshes."""
        return _integers(self.numbers(meshes))


class SourceTargetPairs(NamedTuple):
    """Which device sends to which, along axes of a mesh.

    Attributes
    ----------
    mesh
        The mesh.
    axes : tuple of str
        The axes.
    pairs : tuple of (int, int)
        Positions along the axes: of the one that sends, and of the one that receives.
    """

    mesh: Any
    axes: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]

    def mlir_in(self, meshes: Meshes) -> str:
        """Return the attribute's text in a program of some meshes."""
        return _integers(self.numbers(meshes))

    def numbers(self, meshes: Meshes) -> np.ndarray[Any, Any]:
        """Return the numbers of the devices, a pair in each row."""
        rows = _rows(meshes.numbers(self.mesh), self.mesh.axis_names, self.axes)
        pairs = [(row[a], row[b]) for row in rows for a, b in self.pairs]
        return np.array(pairs, np.int64).reshape(-1, 2)


def _rows(
    numbers: np.ndarray[Any, Any], names: Sequence[str], axes: Sequence[str]
) -> np.ndarray[Any, Any]:
    """Return the numbers of devices, those that differ only along some axes in one row."""
    order = [names.index(axis) for axis in axes]
    rest = [i for i in range(len(names)) if i not in order]
    size = int(np.prod([numbers.shape[i] for i in order], dtype=int))
    return numbers.transpose([*rest, *order]).reshape(-1, size)


def _integers(rows: np.ndarray[Any, Any]) -> str:
    type_ = f"tensor<{rows.shape[0]}x{rows.shape[1]}xi64>"
    return f"dense<{rows.tolist() if rows.size else ''}> : {type_}"


def mesh_sizes(mesh: Mesh | AbstractMesh) -> Mapping[str, int]:
    """Return the size of each axis of a mesh."""
    return dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))

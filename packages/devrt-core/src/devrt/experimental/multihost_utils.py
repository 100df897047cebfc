"""What the processes of a job do together with arrays, by JAX's names.

Every process calls these functions, in the same order. Values go through the host and the job's
communicator (`devrt.distributed.collectives`), not through programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt import distributed
from devrt.arrays import (
    Array,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from devrt.distributed.collectives import HostCollectives, of_job
from devrt.errors import DistributedError, InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding, PartitionSpec
from devrt.tree_util import tree_broadcast, tree_leaves, tree_map

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "process_allgather",
    "sync_global_devices",
]

_NAME_BYTES = 128


def sync_global_devices(name: str) -> None:
    """Wait until every process has come here, under the same name.

    Raises
    ------
    DistributedError
        If another process waits under another name; the message says which.
    DeadlineExceededError, PeerLostError
        If a process does not come, or is lost.
    """
    group = _group()
    if group is None:
        return
    words = np.zeros(_NAME_BYTES, np.uint8)
    text = name.encode()[:_NAME_BYTES]
    words[: len(text)] = np.frombuffer(text, np.uint8)
    rows = group.all_gather([words])[0]
    names = [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in rows]
    others = {rank: other for rank, other in enumerate(names) if other != names[group.rank]}
    if others:
        msg = (
            f"process {group.rank} waits at {name!r}, and others elsewhere: {others}. Every "
            "process must come to the same points in the same order."
        )
        raise DistributedError(msg, processes=tuple(others))


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Return every process's values, or the whole of arrays that span processes, as NumPy arrays.

    Parameters
    ----------
    in_tree
        A tree of arrays. Values of this process alone must have one shape in every process.
    tiled
        Whether values of processes are joined along dimension 0; else along a new one before it.
        Arrays that span processes are returned whole either way.
    """
    group = _group()
    return tree_map(lambda leaf: _gathered(leaf, group, tiled), in_tree)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Return one process's values in all, as NumPy arrays.

    Parameters
    ----------
    in_tree
        A tree of arrays, of the same structure, shapes and dtypes in every process.
    is_source
        Whether this process's values are the ones; by default process 0's are.

    Raises
    ------
    InvalidArgumentError
        If no process, or more than one, says that it is the source.
    """
    group = _group()
    if group is None:
        return tree_map(np.asarray, in_tree)
    root = 0 if is_source is None else _source(group, is_source)
    return tree_map(lambda leaf: group.broadcast([np.asarray(leaf)], root)[0], in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that every process has the same values.

    Raises
    ------
    AssertionError
        In each process whose values are not those of process 0.
    """
    expected = broadcast_one_to_all(in_tree)
    pairs = zip(tree_leaves(in_tree), tree_leaves(expected), strict=True)
    if not all(np.array_equal(np.asarray(mine), one) for mine, one in pairs):
        msg = f"{fail_message} Expected (process 0): {expected}; got: {in_tree}."
        raise AssertionError(msg.strip())


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return arrays over a mesh of all processes, of what each process has of them.

    Parameters
    ----------
    local_inputs
        A tree of arrays of this process.
    global_mesh
        The mesh, with devices of every process.
    pspecs
        How each array is divided: a tree of specs, or a prefix of one. A dimension that axes
        divide among processes is as much longer; what is not divided must be alike in all.
    """

    def joined(leaf: Any, spec: Any) -> Array:
        if isinstance(leaf, Array) and not leaf.is_fully_addressable:
            return leaf
        sharding = NamedSharding(global_mesh, _spec(spec))
        made: Array = make_array_from_process_local_data(sharding, np.asarray(leaf))
        return made

    return tree_map(joined, local_inputs, _specs(pspecs, local_inputs))


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return this process's part of arrays that span processes, over its own devices of the mesh.

    Parameters
    ----------
    global_inputs
        A tree of arrays over ``global_mesh``.
    global_mesh
        The mesh.
    pspecs
        How each array is divided: a tree of specs, or a prefix of one.
    """

    def part(leaf: Array, spec: Any) -> Array:
        if leaf.is_fully_addressable:
            return leaf
        sharding = NamedSharding(global_mesh.local_mesh, _spec(spec))
        parts = [shard.data for shard in leaf.addressable_shards]
        return make_array_from_single_device_arrays(parts, sharding)

    return tree_map(part, global_inputs, _specs(pspecs, global_inputs))


def _group() -> HostCollectives | None:
    """Return the job's communicator; None where this process is alone."""
    return of_job() if distributed.global_state.num_processes > 1 else None


def _gathered(leaf: Any, group: HostCollectives | None, tiled: bool) -> np.ndarray[Any, Any]:
    if isinstance(leaf, Array) and not leaf.is_fully_addressable:
        if leaf.is_fully_replicated:
            return np.asarray(leaf)
        if group is None:
            msg = (
                "an array that spans processes is gathered by the processes of a job, and this "
                "one is in none. Call devrt.distributed.initialize() first."
            )
            raise InvalidArgumentError(msg)
        return _whole(leaf, group)
    value = np.asarray(leaf)
    joins = tiled and value.ndim > 0
    if group is None:
        return value if joins else value[np.newaxis]
    return np.asarray(group.all_gather([value], tiled=joins)[0])


def _whole(x: Array, group: HostCollectives) -> np.ndarray[Any, Any]:
    """Put an array together from the first copy of each of its shards."""
    shards = [shard for shard in x.global_shards if shard.replica_id == 0]
    of_process: list[list[Any]] = [[] for _ in range(group.size)]
    for shard in shards:
        of_process[shard.device.process_index].append(shard)
    most = max(map(len, of_process))
    block = x.sharding.shard_shape(x.shape)
    mine = np.zeros((most, *block), x.dtype)
    for number, shard in enumerate(of_process[group.rank]):
        mine[number] = np.asarray(shard.data)
    rows = group.all_gather([mine])[0]
    whole = np.empty(x.shape, x.dtype)
    for row, held in zip(rows, of_process, strict=True):
        for part, shard in zip(row, held, strict=False):
            whole[shard.index] = part
    return whole


def _source(group: HostCollectives, is_source: bool) -> int:
    flags = group.all_gather([np.array(is_source)])[0]
    sources = np.flatnonzero(flags)
    if len(sources) != 1:
        msg = (
            f"broadcast_one_to_all needs one source, and processes {sources.tolist()} say that "
            "they are. Give is_source=True in one process."
        )
        raise InvalidArgumentError(msg, processes=tuple(sources.tolist()))
    return int(sources[0])


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, PartitionSpec)


def _specs(pspecs: Any, inputs: Any) -> Any:
    """Return a spec for each leaf of the inputs; None, which is no leaf of a tree, as P()."""
    given = tree_map(_spec, pspecs, is_leaf=_is_spec)
    return tree_broadcast(given, inputs, is_leaf=_is_spec)


def _spec(value: Any) -> PartitionSpec:
    return PartitionSpec() if value is None else value

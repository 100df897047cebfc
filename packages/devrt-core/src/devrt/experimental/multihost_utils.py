"""What the processes of a job do together with arrays, by JAX's names.

Every process calls these functions, in the same order. Values go through the host and the job's
communicator (`devrt.distributed.collectives`), not through programs.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from devrt import distributed
from devrt._support import log
from devrt.arrays import (
    Array,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from devrt.distributed.arguments import text
from devrt.distributed.collectives import HostCollectives, of_job
from devrt.distributed.preemption import PreemptionSync
from devrt.errors import DistributedError, InvalidArgumentError
from devrt.experimental.live_devices import ProcessFailureError, live_devices
from devrt.sharding import Mesh, NamedSharding, PartitionSpec
from devrt.tree_util import tree_broadcast, tree_flatten, tree_map, tree_unflatten

__all__ = [
    "ProcessFailureError",
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "live_devices",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]

_SHOWN_BYTES = 128  # of a name, or of the form of a tree
_LENGTH_BYTES = 8


def sync_global_devices(name: str) -> None:
    """Wait until every process has come here, under the same name.

    Raises
    ------
    DistributedError
        If another process waits under another name; the message says which.
    DeadlineExceededError, PeerLostError
        If a process does not come, or is lost.
    """
    text(name, "name")
    group = _group()
    if group is None:
        return
    rows = [row.tobytes() for row in group.all_gather([_words(name)])[0]]
    others = {rank: _shown(row) for rank, row in enumerate(rows) if row != rows[group.rank]}
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
        In each process whose values are not those of process 0; in all where the trees differ, or
        the shapes or dtypes of what they have.
    """
    group = _group()
    if group is None:
        return
    leaves, structure = tree_flatten(tree_map(lambda leaf: _here(leaf, group), in_tree))
    form = f"{structure} {[(leaf.shape, str(leaf.dtype)) for leaf in leaves]}"
    rows = [row.tobytes() for row in group.all_gather([_words(form)])[0]]
    if others := {rank: _shown(row) for rank, row in enumerate(rows) if row != rows[group.rank]}:
        msg = f"{fail_message} Process {group.rank} has {form}, and others have {others}."
        raise AssertionError(msg.strip())
    expected = [group.broadcast([leaf], 0)[0] for leaf in leaves]
    if not all(map(np.array_equal, leaves, expected)):
        whole = tree_unflatten(structure, expected)
        msg = f"{fail_message} Expected (process 0): {whole}; got: {in_tree}."
        raise AssertionError(msg.strip())


def reached_preemption_sync_point(step_id: int) -> bool:
    """Return whether all processes stop at this step, as one of them will be ended.

    Every process calls it at every step, from the same step on. SIGTERM, which clusters send
    before they end a process, is taken as a notice from the first call on, and ends nothing.
    Once a process of the job has it, all agree on the step after the furthest; there each saves
    what it has.

    Parameters
    ----------
    step_id
        The number of the step, for the log; steps are counted by calls.

    Raises
    ------
    DistributedError
        If the first call is not in the main thread, or the processes cannot agree.
    """
    state = distributed.global_state
    if state.client is None:
        return False
    if state.preemption_sync_manager is None:
        made = PreemptionSync(state.client, state.process_id, state.num_processes)
        state.preemption_sync_manager = made
    if not state.preemption_sync_manager.reached():
        return False
    log.info("process %d stops at step %s", state.process_id, step_id)
    return True


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
        How each array is divided: a tree of specs, or a prefix of one. An array that is divided
        otherwise is gathered through the host first, which every process must do.
    """

    def part(leaf: Array, spec: Any) -> Array:
        if leaf.is_fully_addressable:
            return leaf
        wanted = NamedSharding(global_mesh, _spec(spec))
        if not leaf.sharding.is_equivalent_to(wanted, leaf.ndim):
            leaf = _divided(leaf, wanted)
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


def _divided(x: Array, sharding: NamedSharding) -> Array:
    """Return an array of several processes as another sharding divides it."""
    whole = _gathered(x, _group(), tiled=True)
    made: Array = make_array_from_callback(x.shape, sharding, lambda index: whole[index])
    return made


def _here(leaf: Any, group: HostCollectives) -> np.ndarray[Any, Any]:
    """Return a value that can be compared: of an array that spans processes the whole."""
    is_here = not isinstance(leaf, Array) or leaf.is_fully_addressable
    return np.asarray(leaf) if is_here else _gathered(leaf, group, tiled=True)


def _words(words: str) -> np.ndarray[Any, Any]:
    """Return the digest of a text, its length, and as much of it as an error shows."""
    data = words.encode(errors="surrogatepass")
    head = sha256(data).digest() + len(data).to_bytes(_LENGTH_BYTES, "big")
    return np.frombuffer(head + data[:_SHOWN_BYTES].ljust(_SHOWN_BYTES, b"\0"), np.uint8)


def _shown(words: bytes) -> str:
    """Return what `_words` has of a text."""
    begin = sha256().digest_size + _LENGTH_BYTES
    size = int.from_bytes(words[begin - _LENGTH_BYTES : begin], "big")
    shown = words[begin : begin + size].decode(errors="replace")
    return shown if size <= _SHOWN_BYTES else f"{shown}..."


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

"""Putting values on devices and getting them back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

from devrt._support.words import kind_of
from devrt.arrays import tree
from devrt.arrays.array import Array
from devrt.arrays.checked import PUT, check_made
from devrt.arrays.dispatch_key import WEAK, weakened
from devrt.arrays.guards import Config
from devrt.arrays.missing import gone
from devrt.arrays.progress import ProgressCallback, Reporter, reporting
from devrt.arrays.put import (
    ALIAS,
    COPY,
    TARGET_KINDS,
    as_host_array,
    no_array,
    not_addressable,
    put_array,
    put_host,
    target_kind,
)
from devrt.arrays.tree import HOST_LEAVES
from devrt.contract import Buffer, Device, refuse_nulls
from devrt.errors import (
    ClosedError,
    DeletedError,
    DevrtError,
    InvalidTypeError,
)
from devrt.runtime import default_runtime
from devrt.runtime.plugin_errors import check_count, names_plugins, plugin_failure, raise_named
from devrt.sharding import PartitionSpec, is_addressable, over_entered_mesh
from devrt.tracing.ir import Value

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "block_until_ready",
    "copy_to_host_async",
    "default_device",
    "device_get",
    "device_put",
    "wait_for",
]


def device_put(
    x: Any,
    device: Any = None,
    src: Any = None,
    *,
    donate: Any = False,
    may_alias: Any = None,
    progress: bool | ProgressCallback = False,
) -> Any:
    """Put a value, or every leaf of a tree of values, on a device or sharding.

    Parameters
    ----------
    x
        An array, a scalar, or any tree of them (dict, list, tuple, named tuple ...). NumPy arrays
        keep their dtype; Python scalars become 32-bit types, as in JAX.
    device
        A device, a sharding, a `devrt.layout.Format`, a memory, or the name of a memory kind; or
        a tree of them whose structure is a beginning of that of ``x``. A `PartitionSpec` is over
        the mesh that is entered. None takes the default device, and leaves an array that is on a
        device already where it is. In a traced function a sharding over a mesh is a constraint, as
        `devrt.with_sharding_constraint` sets, and a device moves nothing: a program runs where its
        arguments lie.
    src
        Where ``x`` comes from, as a device or sharding, or a tree of them as for ``device``;
        checked, and otherwise not needed.
    donate
        Delete arrays in ``x`` once they are transferred; a bool, or a tree of them.
    may_alias
        True lets the result share memory with ``x``: a NumPy array must then not change while
        the result lives. None and False copy host values before the call returns. False copies
        arrays that are on devices too, where None lets them share. One for all, or a tree.
    progress
        True shows a bar on the standard error; a function is called with a `Progress` each time
        a leaf has arrived. Either makes the call wait for the devices.

    Returns
    -------
    Array or tree of Array
        Does not wait for the device, but for ``progress``.

    Raises
    ------
    InvalidTypeError
        If a leaf is no array, has a dtype that no device holds, or the target is none. The
        message begins with the path of a leaf of a tree.
    InvalidArgumentError
        If the shape does not divide over the sharding's mesh, there is no mesh for a spec, or a
        transfer guard refuses.
    OutOfMemoryError
        If the memory is full.
    """
    kind = TARGET_KINDS.get(type(device))
    # The common case, first.
    if kind == "device" and type(x) in HOST_LEAVES and not (progress or Config.guards_are_set):
        semantics = COPY
        if donate or may_alias:
            semantics = _semantics(donate, may_alias)
        try:
            return Array((device.client.buffer_from_pyval(x, device, False, semantics),))
        except DevrtError as error:
            if (refusal := not_addressable(error, device, kind, "device_put")) is None:
                raise
            raise refusal from error
        except Exception as error:  # noqa: BLE001  plugin code
            raise_named(error, device.client, "buffer_from_pyval")
    if progress or not tree.is_leaf(x):
        return _put_tree(x, device, src, donate, may_alias, progress)
    return _put_leaf(x, device, src, donate, may_alias)


def _put_leaf(x: Any, target: Any, src: Any, donate: bool, may_alias: bool | None) -> Any:
    kind = TARGET_KINDS.get(type(target))
    if kind is None:
        if isinstance(target, PartitionSpec):
            target = over_entered_mesh(target, "device_put")
        kind = target_kind(target)
    if isinstance(x, Value):
        from devrt.arrays.constrain import put_traced  # not at the top: few programs need it

        return put_traced(x, target)
    semantics = _semantics(donate, may_alias)
    try:
        if type(x) is Array:
            return put_array(x, target, kind, src, donate, may_alias)
        made = put_host(x, target, kind, semantics)
        return weakened(made) if type(x) in WEAK else made
    except DevrtError as error:
        if (refusal := not_addressable(error, target, kind, "device_put")) is None:
            raise
        raise refusal from error
    except Exception as error:
        # A value of the user's own may run code of the user's own, and raise what it likes.
        if type(x) in HOST_LEAVES or type(x) is Array:
            if (failure := plugin_failure(error)) is None:
                raise
            raise failure from error
        if not isinstance(error, TypeError | ValueError):
            raise
        raise no_array(x, error) from error


def _semantics(donate: Any, may_alias: Any) -> int:
    """Return how a host value is taken; refuse what is neither true nor false."""
    for name, given in (("donate", donate), ("may_alias", may_alias)):
        if given is not None and type(given).__name__ not in ("bool", "bool_"):
            msg = f"device_put takes True or False for {name}, not {given!r}."
            raise InvalidTypeError(msg, operation="device_put")
    return ALIAS if may_alias else COPY


@names_plugins
def _put_batch(leaves: list[Any], target: Device | None, may_alias: bool | None) -> list[Any]:
    """Put leaves on one device, the host values among them in one call to its client."""
    device = default_runtime().default_device() if target is None else target
    host = [leaf for leaf in leaves if type(leaf) is not Array]
    for leaf in host:
        if type(leaf) not in HOST_LEAVES:
            refuse_nulls(leaf)
    semantics = ALIAS if may_alias else COPY
    made = device.client.buffers_from_pyvals(host, [device] * len(host), semantics)
    check_count(made, len(host), device.client, "buffers_from_pyvals")
    if made and type(made[0]) not in PUT:
        where = [device] * len(made)
        check_made(PUT, made, where, device.client, "buffers_from_pyvals")
    buffers = iter(made)
    committed = target is not None
    arrays = [
        _put_leaf(leaf, target, None, False, may_alias)
        if type(leaf) is Array
        else Array((next(buffers),), None, None, committed)
        for leaf in leaves
    ]
    if not WEAK.isdisjoint(map(type, leaves)):
        for leaf, array in zip(leaves, arrays, strict=True):
            if type(leaf) in WEAK:
                weakened(array)
    return arrays


def _put_tree(
    x: Any,
    targets: Any,
    src: Any,
    donate: Any,
    may_alias: Any,
    progress: bool | ProgressCallback,
) -> Any:
    each = targets, src, donate, may_alias
    if not progress:
        is_plain = src is None and not (donate or Config.guards_are_set)
        is_plain = is_plain and (may_alias is None or isinstance(may_alias, bool))
        is_one = targets is None or (isinstance(targets, Device) and is_addressable(targets))
        if is_plain and is_one:
            # Whatever is about one leaf is raised again below, with its path.
            with contextlib.suppress(*tree.NAMED_BY_PATH, TypeError, ValueError):
                return tree.map_batch(lambda leaves: _put_batch(leaves, targets, may_alias), x)
        return tree.map_leaves(_put_leaf, x, *each)
    with reporting(progress, "device_put") as callback:
        reporter = Reporter(callback, tree.leaves(x))

        def put_and_report(leaf: Any, *how: Any) -> Any:
            placed = _put_leaf(leaf, *how)
            reporter.add(placed)
            return placed

        placed = tree.map_leaves(put_and_report, x, *each)
        reporter.close()
    return placed


def device_get(x: Any, *, out: Any = None, progress: bool | ProgressCallback = False) -> Any:
    """Return a value, or a tree of values, in host memory as NumPy arrays.

    Parameters
    ----------
    x
        An array or a tree of them. Leaves of other libraries' arrays, which have ``__array__``,
        become what ``numpy.asarray`` makes of them; Python scalars, strings and all other leaves
        stay what they are.
    out
        A writable NumPy array of the shape and dtype of ``x``, or a tree of them of the structure
        of ``x``, to write into; the shards are written in parallel.
    progress
        As for `device_put`.

    Returns
    -------
    numpy.ndarray or tree of them and of leaves that are no arrays
        ``out`` if it is given. Else arrays on one host-visible device are not copied: the result
        is a read-only view that keeps the memory alive. Sharded arrays are gathered once.

    Raises
    ------
    InvalidArgumentError
        If other processes hold parts of an array, ``out`` does not fit, or a guard refuses.
    DeletedError
        If an array was deleted.
    """
    if out is None and not progress and tree.is_leaf(x):
        return _get_leaf(x)
    for leaf in tree.leaves(x):  # all transfers start before the first is waited for
        if type(leaf) is Array:
            leaf._start_copy_to_host()
    outs = repeat(None) if out is None else iter(tree.leaves_like(out, x, "out"))
    if not progress:
        return tree.map_leaves(lambda leaf: _get_leaf(leaf, next(outs)), x)
    with reporting(progress, "device_get") as callback:
        reporter = Reporter(callback, tree.leaves(x))

        def get_and_report(leaf: Any) -> Any:
            host = _get_leaf(leaf, next(outs))
            reporter.add(host)
            return host

        result = tree.map_leaves(get_and_report, x)
        reporter.close()
    return result


def _get_leaf(x: Any, out: Any = None) -> Any:
    if out is not None:
        from devrt.arrays.shard import read_into

        return read_into(x, out)
    if type(x) is Array:
        return x._value("device_get", is_explicit=True)
    # As JAX: what no array library made stays as it is, text and other objects too.
    return as_host_array(x) if hasattr(type(x), "__array__") else x


def copy_to_host_async(x: Any) -> Future[Any]:
    """Start copying every array in ``x``, a tree, to the host; return a future of `device_get`.

    Returns
    -------
    concurrent.futures.Future
        Its result is what ``device_get(x)`` returns. Host-visible arrays are not copied.
    """
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="devrt-copy-to-host")
    # In the caller's context, so that the guards in force there hold.
    future = pool.submit(contextvars.copy_context().run, device_get, x)
    pool.shutdown(wait=False)
    return future


def block_until_ready(x: Any) -> Any:
    """Wait for every array in ``x``, a tree of any values, and return ``x``.

    Raises
    ------
    DevrtError
        The first error of the work that was to fill an array.
    """
    if type(x) is Array:
        return x.block_until_ready()
    arrays, others = tree.arrays_and_others(x)
    try:
        _wait_for(arrays, others)
    except (ClosedError, DeletedError):
        tree.map_leaves(_check_is_there, x)  # says which
        raise
    return x


def _check_is_there(x: Any) -> None:
    if type(x) is Array and x.is_deleted():
        raise gone(x, "block_until_ready")


def wait_for(values: list[Any]) -> None:
    """Wait for the arrays and buffers among some values: one call for each kind of client."""
    arrays = [value for value in values if type(value) is Array]
    _wait_for(arrays, [value for value in values if type(value) is not Array])


@names_plugins
def _wait_for(arrays: list[Array], others: list[Any]) -> None:
    buffers: list[Buffer] = []
    for array in arrays:
        buffers += array._buffers or array.block_until_ready()._buffers
    for value in others:
        if isinstance(value, Buffer):
            buffers.append(value)
        elif (wait := getattr(value, "block_until_ready", None)) is not None:
            wait()
    kinds = set(map(type, buffers))
    for kind in kinds:
        mine = [b for b in buffers if type(b) is kind] if len(kinds) > 1 else buffers
        mine[0].device.client.batched_block_until_ready(mine)


@contextlib.contextmanager
def default_device(device: Device | str | None) -> Iterator[None]:
    """Place arrays on ``device`` by default within a ``with`` block, in this thread or task.

    Parameters
    ----------
    device
        A device, a platform's name (its first local device), or None for the usual default.
    """
    given: Any = device  # callers are not bound by the annotation
    if not (given is None or isinstance(given, Device | str)):
        msg = (
            f"default_device takes a device, a platform's name or None, not {given!r} of type "
            f"{kind_of(given)}. Choose one, for example devrt.devices()[0]."
        )
        raise InvalidTypeError(msg, device=given)
    with default_runtime().config.override(default_device=device):
        yield

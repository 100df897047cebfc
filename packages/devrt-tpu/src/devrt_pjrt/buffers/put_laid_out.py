"""Host values that go to a device in a layout of their own.

A plugin that takes layouts puts the elements of a row-major source where the layout says. Some of
XLA's for the host do not: they copy the bytes as they come, and whatever layout they note has no
effect on a program. There the source is put in that order here. What a memory does is found out
once, with six numbers. Newer ones mix up elements below a byte in that: those are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.errors import UnimplementedError
from devrt.layout import Layout, row_major
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers import fetch
from devrt_pjrt.buffers.buffer import PjrtBuffer
from devrt_pjrt.buffers.laid_out import LaidOutBuffer
from devrt_pjrt.buffers.layout import checked, default_layout, pointer_to, reported_layout
from devrt_pjrt.buffers.put import Putter, check_semantics
from devrt_pjrt.buffers.spec import Spec, spec_of

if TYPE_CHECKING:
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.target import Target

__all__ = ["put"]

_OPERATION = "buffer_from_pyval"
_MUTABLE = 3  # of the zero-copy semantics
_LAST_THAT_KEEPS_PACKED = (0, 81)  # version of the C API
_PROBE = np.arange(6, dtype=np.int32).reshape(2, 3)
_PROBE_LAYOUT = Layout((0, 1))


def put(putter: Putter, value: Any, layout: object, target: Target, semantics: int) -> PjrtBuffer:
    """Start the transfer of a value that shall lie in a layout; see `PjrtClient`.

    Raises `InvalidArgumentError` if the layout is not for the value's dimensions, or none that host
    memory can have, and `UnimplementedError` if the plugin puts arrays in no layout but its own.
    """
    semantics = check_semantics(semantics)
    connection = putter.connection
    array, code = putter.source(value)
    spec = spec_of(code, array.shape)
    is_host = not connection.traits.takes_layouts
    wanted = checked(layout, spec, _OPERATION, is_host=is_host)
    if wanted == _usual(connection, spec):
        return putter.put(array, target, semantics)
    if is_host and spec.is_packed and connection.library.version > _LAST_THAT_KEEPS_PACKED:
        raise _not_honoured(connection, wanted, "mixes up elements below a byte")
    if _transposes(putter, target):
        made = _send(connection, np.ascontiguousarray(array), spec, wanted, target)
        made_as = reported_layout(made)
        if made_as != wanted:
            made.delete()
            raise _not_honoured(connection, wanted, f"makes {made_as} of it")
        return made
    ordered = array.transpose(wanted.minor_to_major()[::-1])
    if not ordered.flags.c_contiguous:
        ordered, semantics = np.ascontiguousarray(ordered), _MUTABLE  # nobody else writes to it
    plain = putter.put(ordered.reshape(spec.shape), target, semantics)
    with plain.pinned(_OPERATION):
        handle = lib.devrt_clone(plain.handle)
    return LaidOutBuffer(connection, handle, spec, target.memory, target.device, wanted)


def _usual(connection: Connection, spec: Spec) -> Layout | None:
    """Return the layout that a value gets when none is requested; None where nobody tells."""
    if not connection.traits.takes_layouts:
        return row_major(len(spec.shape))
    try:
        return default_layout(connection, spec.dtype, spec.shape)
    except UnimplementedError:
        return None


def _send(
    connection: Connection,
    source: np.ndarray[Any, Any],
    spec: Spec,
    layout: Layout,
    target: Target,
) -> LaidOutBuffer:
    """Put a row-major source, and leave it to the plugin where its elements go."""
    dims = ffi.new("int64_t[]", spec.shape)
    pointer, _kept = pointer_to(connection.api, layout)
    args = connection.api.new(
        "PJRT_Client_BufferFromHostBuffer_Args",
        data=ffi.cast("void *", source.__array_interface__["data"][0]),
        type=spec.code,
        dims=dims,
        num_dims=len(spec.shape),
        device=target.device_pointer,
        memory=target.memory_pointer,
        device_layout=pointer,
    )
    result = ffi.new("devrt_result *")
    status = lib.devrt_put(connection.core, args, 0, result)
    if status:
        raise connection.error(status, _OPERATION, result, device=str(target.device))
    return LaidOutBuffer(connection, result.handle, spec, target.memory, target.device, layout)


def _transposes(putter: Putter, target: Target) -> bool:
    """Return whether a memory's plugin puts a row-major source in the order of a layout."""
    memory = target.memory
    if memory.transposes is None:
        memory.transposes = _find_out(putter, target)
    return memory.transposes


def _find_out(putter: Putter, target: Target) -> bool:
    spec = spec_of(putter.source(_PROBE)[1], _PROBE.shape)
    made = _send(putter.connection, _PROBE, spec, _PROBE_LAYOUT, target)
    if fetch.is_host_visible(made):
        found = fetch.view(made).copy()  # an error that is kept must not hold memory
        if np.array_equal(found, _PROBE.T.reshape(-1)):
            return True
        if np.array_equal(found, _PROBE.reshape(-1)):
            return False
    else:
        in_order, row_by_row = (fetch.elements(made, order) for order in ((0, 1), (1, 0)))
        if np.array_equal(in_order, _PROBE.T.reshape(-1)) and np.array_equal(
            row_by_row, _PROBE.reshape(-1)
        ):
            return True
    raise _not_honoured(putter.connection, _PROBE_LAYOUT, "puts the elements elsewhere")


def _not_honoured(connection: Connection, layout: Layout, why: str) -> UnimplementedError:
    msg = (
        f"{_OPERATION} failed: the PJRT plugin {connection.api.name} puts no array in layout "
        f"{layout}: it {why}. Put it without a layout."
    )
    return UnimplementedError(msg, operation=_OPERATION, layout=str(layout))

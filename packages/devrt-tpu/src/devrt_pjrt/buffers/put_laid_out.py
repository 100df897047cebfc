"""Host values on their way to a device, in a layout of their own.

A plugin that takes layouts puts the elements of a row-major source where the layout says. XLA's for
the host does not: it copies the bytes as they come, and whatever layout it notes has no effect on a
program. There the source is put in that order here. What a memory does is found out once, with six
numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.errors import UnimplementedError
from devrt.layout import Layout, row_major
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers import fetch
from devrt_pjrt.buffers.buffer import LaidOutBuffer, PjrtBuffer
from devrt_pjrt.buffers.layout import checked, default_layout, pointer_to, told_layout
from devrt_pjrt.buffers.put import check_semantics
from devrt_pjrt.buffers.spec import Spec, spec_of

if TYPE_CHECKING:
    from devrt_pjrt.client.client import PjrtClient
    from devrt_pjrt.client.place import Place

__all__ = ["put"]

_OPERATION = "buffer_from_pyval"
_MUTABLE = 3  # of the zero-copy semantics
_PROBE = np.arange(6, dtype=np.int32).reshape(2, 3)
_PROBE_LAYOUT = Layout((0, 1))


def put(client: PjrtClient, value: Any, layout: object, place: Place, semantics: int) -> PjrtBuffer:
    """Start the transfer of a value that shall lie in a layout; see `PjrtClient`.

    Raises
    ------
    InvalidArgumentError
        If the layout is not for the value's dimensions, or none that host memory can have.
    UnimplementedError
        If the plugin puts arrays in no layout but its own.
    """
    semantics = check_semantics(semantics)
    array, code = client._putter.source(value)
    spec = spec_of(code, array.shape)
    wanted = checked(layout, spec, _OPERATION, is_host=client.plugin_platform == "cpu")
    if wanted == _usual(client, spec):
        return client._putter.put(array, place, semantics)
    if _transposes(client, place):
        made = _send(client, np.ascontiguousarray(array), spec, wanted, place)
        said = told_layout(made)
        if said != wanted:
            made.delete()
            raise _not_honoured(client, wanted, f"makes {said} of it")
        return made
    ordered = array.transpose(wanted.minor_to_major()[::-1])
    if not ordered.flags.c_contiguous:
        ordered, semantics = np.ascontiguousarray(ordered), _MUTABLE  # nobody else writes to it
    plain = client._putter.put(ordered.reshape(spec.shape), place, semantics)
    with plain._pinned(_OPERATION):
        handle = lib.devrt_clone(plain._handle)
    return LaidOutBuffer(client, handle, spec, place.memory, place.device, wanted)


def _usual(client: PjrtClient, spec: Spec) -> Layout | None:
    """Return the layout that a value gets when none is asked for; None where nobody tells."""
    if client.plugin_platform == "cpu":
        return row_major(len(spec.shape))
    try:
        return default_layout(client, spec.dtype, spec.shape)
    except UnimplementedError:
        return None


def _send(
    client: PjrtClient, source: np.ndarray[Any, Any], spec: Spec, layout: Layout, place: Place
) -> LaidOutBuffer:
    """Put a row-major source, and leave it to the plugin where its elements go."""
    dims = ffi.new("int64_t[]", spec.shape)
    pointer, _kept = pointer_to(client._api, layout)
    args = client._api.new(
        "PJRT_Client_BufferFromHostBuffer_Args",
        data=ffi.cast("void *", source.__array_interface__["data"][0]),
        type=spec.code,
        dims=dims,
        num_dims=len(spec.shape),
        device=place.device_pointer,
        memory=place.memory_pointer,
        device_layout=pointer,
    )
    result = ffi.new("devrt_result *")
    status = lib.devrt_put(client._core, args, 0, result)
    if status:
        raise client._error(status, _OPERATION, result, device=str(place.device))
    return LaidOutBuffer(client, result.handle, spec, place.memory, place.device, layout)


def _transposes(client: PjrtClient, place: Place) -> bool:
    """Return whether a memory's plugin puts a row-major source in the order of a layout."""
    known = client._transposing.get(place.memory)
    if known is None:
        known = client._transposing[place.memory] = _find_out(client, place)
    return known


def _find_out(client: PjrtClient, place: Place) -> bool:
    spec = spec_of(client._putter.source(_PROBE)[1], _PROBE.shape)
    made = _send(client, _PROBE, spec, _PROBE_LAYOUT, place)
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
    raise _not_honoured(client, _PROBE_LAYOUT, "puts the elements elsewhere")


def _not_honoured(client: PjrtClient, layout: Layout, why: str) -> UnimplementedError:
    msg = (
        f"{_OPERATION} failed: the PJRT plugin {client._api.name} puts no array in layout "
        f"{layout}: it {why}. Put it without a layout."
    )
    return UnimplementedError(msg, operation=_OPERATION, layout=str(layout))

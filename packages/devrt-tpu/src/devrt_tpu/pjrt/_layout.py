"""How the elements of an array lie in a device's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt.errors import UnimplementedError
from devrt.layout import Layout
from devrt_tpu.pjrt._api import text_of
from devrt_tpu.pjrt._checks import dims_of
from devrt_tpu.pjrt._native import ffi, lib
from devrt_tpu.pjrt._spec import type_code

if TYPE_CHECKING:
    from devrt_tpu.pjrt._api import Api
    from devrt_tpu.pjrt._buffer import PjrtBuffer
    from devrt_tpu.pjrt._client import PjrtClient

__all__ = ["default_layout", "layout_of"]

_EXTENSION = 4
_STRUCTURE = "PJRT_Layouts_Extension"


def layout_of(buffer: PjrtBuffer) -> Layout:
    """Return a buffer's layout."""
    api = buffer._client._api
    with buffer._pinned("layout") as pointer:
        layout = api.call("PJRT_Buffer_GetMemoryLayout", buffer=pointer).layout
        if layout.type != lib.PJRT_Buffer_MemoryLayout_Type_Tiled:
            strides = ffi.unpack(layout.strides.byte_strides, layout.strides.num_byte_strides)
            order = sorted(range(len(strides)), key=lambda at: (strides[at], -at))
            return Layout(order)
        tiled = layout.tiled
        order = [int(tiled.minor_to_major[i]) for i in range(tiled.minor_to_major_size)]
        tiles, at = [], 0
        for i in range(tiled.num_tiles):
            size = int(tiled.tile_dim_sizes[i])
            tiles.append(tuple(int(tiled.tile_dims[at + j]) for j in range(size)))
            at += size
        return Layout(order, tiles)


def default_layout(client: PjrtClient, dtype: Any, shape: Sequence[int]) -> Layout:
    """Return the layout that a client gives arrays of a dtype and shape."""
    api = client._api
    shape = dims_of(shape, "get_default_layout")
    function = "PJRT_Layouts_PJRT_Client_GetDefaultLayout"
    call = _extension(api, function)
    dims = ffi.new("int64_t[]", list(shape))
    args = api.new(
        f"{function}_Args",
        client=client._pointer,
        type=type_code(api, dtype),
        dims=dims,
        num_dims=len(shape),
    )
    with client._using("get_default_layout"):
        _check(api, call(args), function)
        return Layout.from_string(_serialized(api, args.layout))


def _serialized(api: Api, layout: Any) -> str:
    function = "PJRT_Layouts_MemoryLayout_Serialize"
    try:
        args = api.new(f"{function}_Args", layout=layout)
        _check(api, _extension(api, function)(args), function)
        try:
            return text_of(args.serialized_bytes, args.serialized_bytes_size)
        finally:
            args.serialized_layout_deleter(args.serialized_layout)
    finally:
        name = "PJRT_Layouts_MemoryLayout_Destroy"
        _check(api, _extension(api, name)(api.new(f"{name}_Args", layout=layout)), name)


def _extension(api: Api, function: str) -> Any:
    found = api.extension(_EXTENSION, _STRUCTURE, function)
    if found is None:
        msg = f"the PJRT plugin {api.name} does not tell layouts: it has no {function}."
        raise UnimplementedError(msg, operation=function, plugin=api.name)
    return found


def _check(api: Api, error: Any, function: str) -> None:
    if error:
        raise api.take(error, function)

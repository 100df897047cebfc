"""How the elements of an array lie in a device's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.layout import Layout, PjRtLayout, storage_order
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers.spec import type_code
from devrt_pjrt.library.api import text_of
from devrt_pjrt.library.checks import dims_of

if TYPE_CHECKING:
    from devrt.compiling.hlo import HloArray
    from devrt_pjrt.buffers.buffer import PjrtBuffer
    from devrt_pjrt.buffers.spec import Spec
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.library.api import Api

__all__ = [
    "are_alike",
    "checked",
    "default_layout",
    "executable_layouts",
    "is_dense",
    "lies_dense",
    "pointer_to",
    "reported_layout",
]

_EXTENSION = 4
_STRUCTURE = "PJRT_Layouts_Extension"
_FUNCTION = "PJRT_Layouts_PJRT_Executable_Get{}Layouts"
_MOST_TILES = 8
_MOST_EXTENT = 1 << 31


def reported_layout(buffer: PjrtBuffer) -> Layout:
    """Return a buffer's layout, as the plugin tells it."""
    api = buffer.connection.api
    with buffer.pinned("layout") as pointer:
        args = api.call("PJRT_Buffer_GetMemoryLayout", buffer=pointer)
        layout = args.layout  # a part of the arguments, which it does not keep alive
        if layout.type != lib.PJRT_Buffer_MemoryLayout_Type_Tiled:
            count = int(layout.strides.num_byte_strides)
            strides = [int(layout.strides.byte_strides[at]) for at in range(count)]
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


def pointer_to(api: Api, layout: Layout) -> Any:
    """Return a ``PJRT_Buffer_MemoryLayout*``, and what must live as long."""
    order, tiles = layout.minor_to_major(), layout.tiling()
    made: Any = api.new("PJRT_Buffer_MemoryLayout")
    made.type = lib.PJRT_Buffer_MemoryLayout_Type_Tiled
    tiled = made.tiled
    tiled.struct_size = ffi.sizeof("PJRT_Buffer_MemoryLayout_Tiled")
    dims = ffi.new("int64_t[]", order)
    extents = ffi.new("int64_t[]", [extent for tile in tiles for extent in tile])
    sizes = ffi.new("size_t[]", [len(tile) for tile in tiles])
    tiled.minor_to_major, tiled.minor_to_major_size = dims, len(order)
    tiled.tile_dims, tiled.tile_dim_sizes, tiled.num_tiles = extents, sizes, len(tiles)
    return made, (dims, extents, sizes)


def checked(layout: object, spec: Spec, operation: str, *, is_host: bool) -> Layout:
    """Return what somebody gave as a layout for an array: a `Layout`, a `PjRtLayout`, or text.

    In host memory it has neither tiles nor packed elements. Raises `InvalidTypeError` if it is no
    layout, and `InvalidArgumentError` if it is for another number of dimensions, or none that a
    memory can have.
    """
    given: Any = layout._xla_layout() if isinstance(layout, PjRtLayout) else layout
    if isinstance(given, str):
        given = Layout.from_string(given)
    if is_host or not isinstance(given, Layout):
        order = storage_order(given, len(spec.shape), spec.dtype)
        # A subclass may answer anything, and plugins write memory by what it says.
        return _of_dims(Layout(order), spec, operation)
    made = Layout(given.minor_to_major(), given.tiling(), given.element_size_in_bits())
    tiles = made.tiling()
    extents = [extent for tile in tiles for extent in tile]
    if len(tiles) > _MOST_TILES or not all(0 < extent < _MOST_EXTENT for extent in extents):
        _refuse(f"layout {made} has tiles that no memory has", operation)
    if any(not tile or len(tile) > max(1, len(spec.shape)) for tile in tiles[:1]):
        _refuse(f"layout {made} has a tile of other dimensions than {spec}", operation)
    if made.element_size_in_bits() not in (0, spec.bits):
        _refuse(f"layout {made} asks for other elements than {spec.bits} bits", operation)
    return _of_dims(Layout(made.minor_to_major(), tiles), spec, operation)


def _of_dims(layout: Layout, spec: Spec, operation: str) -> Layout:
    if sorted(layout.minor_to_major()) != list(range(len(spec.shape))):
        _refuse(
            f"layout {layout} is not for the {len(spec.shape)} dimension(s) of {spec}", operation
        )
    return layout


def _refuse(what: str, operation: str) -> NoReturn:
    msg = f"{operation} failed: {what}. Name each dimension once, and tiles as XLA has them."
    raise InvalidArgumentError(msg, operation=operation)


def lies_dense(layout: Layout, shape: tuple[int, ...]) -> bool:
    """Return whether a layout without tiles puts an array of a shape where row-major order does."""
    order = _moving(layout, shape)
    return not layout.tiling() and list(order) == sorted(order, reverse=True)


def is_dense(array: HloArray) -> bool:
    """Return whether a program's array lies as a row-major one does, whatever its tiles."""
    return lies_dense(Layout(array.layout.minor_to_major()), array.shape)


def are_alike(one: Layout, other: Layout, shape: tuple[int, ...]) -> bool:
    """Return whether two layouts put every element of an array of a shape at the same position."""
    return one.tiling() == other.tiling() and _moving(one, shape) == _moving(other, shape)


def _moving(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of the dimensions that have more than one index."""
    return () if 0 in shape else tuple(at for at in layout.minor_to_major() if shape[at] != 1)


def default_layout(connection: Connection, dtype: Any, shape: Sequence[int]) -> Layout:
    """Return the layout that a client gives arrays of a dtype and shape."""
    api = connection.api
    shape = dims_of(shape, "get_default_layout")
    function = "PJRT_Layouts_PJRT_Client_GetDefaultLayout"
    call = _extension(api, function)
    dims = ffi.new("int64_t[]", list(shape))
    args = api.new(
        f"{function}_Args",
        client=connection.pointer,
        type=type_code(api, dtype),
        dims=dims,
        num_dims=len(shape),
    )
    with connection.using("get_default_layout"):
        _check(api, call(args), function)
        try:
            return Layout.from_string(_serialized(api, args.layout))
        finally:
            _destroy(api, args.layout)


def executable_layouts(
    api: Api, using: Callable[[str], AbstractContextManager[Any]], what: str
) -> list[Layout] | None:
    """Return the layouts of a program's parameters or outputs; None where the plugin has no word.

    ``using`` returns a context that yields the plugin's executable; ``what`` is ``"Parameter"`` or
    ``"Output"``.
    """
    function = _FUNCTION.format(what)
    call = api.extension(_EXTENSION, _STRUCTURE, function)
    if call is None:
        return None
    with using(function) as pointer:
        args = api.new(f"{function}_Args", executable=pointer)
        _check(api, call(args), function)
        count = getattr(args, f"num_{what.lower()}s")
        # They are the executable's.
        return [Layout.from_string(_serialized(api, args.layouts[at])) for at in range(count)]


def _serialized(api: Api, layout: Any) -> str:
    function = "PJRT_Layouts_MemoryLayout_Serialize"
    args = api.new(f"{function}_Args", layout=layout)
    _check(api, _extension(api, function)(args), function)
    try:
        return text_of(args.serialized_bytes, args.serialized_bytes_size)
    finally:
        args.serialized_layout_deleter(args.serialized_layout)


def _destroy(api: Api, layout: Any) -> None:
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

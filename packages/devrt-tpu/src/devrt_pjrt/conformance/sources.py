"""Host memory that goes to a device: what is promised of it, types, strides, layouts."""

from __future__ import annotations

from typing import Any

from devrt.dtypes import ELEMENT_TYPES
from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import ApiCase, api_case
from devrt_pjrt.conformance.made import (
    FLOATS,
    expect_floats,
    fetch,
    floats,
    put,
    put_args,
    size_in_bytes,
    taken,
    try_put,
)
from devrt_pjrt.conformance.memories import kind_of, memories_of
from devrt_pjrt.conformance.raw import UNIMPLEMENTED, Raw
from devrt_pjrt.library.since import TYPES

__all__ = ["MORE", "layout_of"]

_DURING_CALL, _UNTIL_DONE, _ZERO_COPY, _MUTABLE = range(4)
_TOKEN, _PRED = 23, 1
_ALIGNMENT = 64
_MATRIX = tuple(float(i) for i in range(6))


@api_case("a source may change once the call has returned", "ImmutableOnlyDuringCall")
def sources_of_the_call_may_change_after_it(raw: Raw) -> None:
    source = floats(raw)
    args = put_args(raw, source, host_buffer_semantics=_DURING_CALL)
    for i in range(4):
        source[i] = -1.0
    if args.done_with_host_buffer != ffi.NULL:
        raw.done(args.done_with_host_buffer, "done_with_host_buffer")
    expect_floats(raw, args.buffer, FLOATS, "the buffer")


@api_case("a source may change once its event is ready", "ImmutableUntilTransferCompletes")
def sources_of_a_transfer_may_change_after_it(raw: Raw) -> None:
    count = 1 << 16
    source = raw.new("float[]", [1.0] * count)
    dims = (count,)
    args = put_args(raw, source, dims=dims, host_buffer_semantics=_UNTIL_DONE)
    if args.done_with_host_buffer == ffi.NULL:
        fetch(raw, args.buffer, 4 * count)  # the source goes with this call: it has been read
        raise Failure("an event done_with_host_buffer", "a null pointer")
    raw.done(args.done_with_host_buffer, "done_with_host_buffer")
    for i in range(count):
        source[i] = -1.0
    data = memoryview(fetch(raw, args.buffer, 4 * count)).cast("f")
    expect(data[0] == data[count - 1] == 1.0, expected="1.0 in the buffer",
           came=f"{data[0]} and {data[count - 1]}")  # fmt: skip


def _aligned(raw: Raw, size: int) -> Any:
    memory = raw.new("char[]", size + _ALIGNMENT)
    start = int(ffi.cast("uintptr_t", memory))
    return ffi.cast("float *", start + -start % _ALIGNMENT)


def _lent(raw: Raw, semantics: int) -> None:
    source = _aligned(raw, 16)
    for i, value in enumerate(FLOATS):
        source[i] = value
    args, answer = try_put(raw, source, host_buffer_semantics=semantics)
    if answer is not None and answer.code == UNIMPLEMENTED:
        raise NotApplicable(f"the library takes no such source: {answer}")
    raw.succeeded("PJRT_Client_BufferFromHostBuffer", answer)
    event = args.done_with_host_buffer
    expect_floats(raw, args.buffer, FLOATS, "the buffer")
    # What the library reads it may look at for as long as the buffer lives, and no longer.
    raw.call("PJRT_Buffer_Destroy", buffer=args.buffer)
    if event != ffi.NULL:
        raw.done(event, "done_with_host_buffer after the buffer's end")
    expect(list(source[0:4]) == list(FLOATS), expected="a source as it was", came=source[0:4])


@api_case("a source that is lent is given back when its buffer is gone", "ImmutableZeroCopy")
def lent_sources_are_given_back(raw: Raw) -> None:
    _lent(raw, _ZERO_COPY)


@api_case("a source that is lent to be written is given back when its buffer is gone",
          "MutableZeroCopy")  # fmt: skip
def sources_lent_to_be_written_are_given_back(raw: Raw) -> None:
    _lent(raw, _MUTABLE)


@api_case("a source that is not aligned is taken all the same", "PJRT_Client_BufferFromHostBuffer")
def unaligned_sources_are_taken(raw: Raw) -> None:
    for semantics in range(4):
        memory = _aligned(raw, 64)
        source = ffi.cast("float *", ffi.cast("char *", memory) + 4)
        for i, value in enumerate(FLOATS):
            source[i] = value
        buffer = put(raw, source, host_buffer_semantics=semantics)
        expect_floats(raw, buffer, FLOATS, f"a buffer of semantics {semantics}")


@api_case("strides say where elements are", "PJRT_Client_BufferFromHostBuffer.byte_strides")
def strides_are_followed(raw: Raw) -> None:
    # A matrix of three by two that is the transpose of what lies in memory.
    source = floats(raw, _MATRIX)
    args, answer = try_put(
        raw,
        source,
        dims=(3, 2),
        byte_strides=raw.numbers((4, 12)),
        num_byte_strides=2,
    )
    if answer is not None and answer.code == UNIMPLEMENTED:
        raise NotApplicable(f"the library takes no strides: {answer}")
    raw.succeeded("PJRT_Client_BufferFromHostBuffer", answer)
    buffer = taken(raw, args)
    layout = layout_of(raw, (1, 0))
    data = fetch(raw, buffer, 24, host_layout=layout)
    came, expected = list(memoryview(data).cast("f")), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    expect(came == expected, expected=f"{expected}, row by row", came=came)


def layout_of(raw: Raw, minor_to_major: tuple[int, ...]) -> Any:
    """Return a layout without tiles."""
    layout = raw.arguments("PJRT_Buffer_MemoryLayout")
    layout.type = 0
    layout.tiled.struct_size = raw.size_of("PJRT_Buffer_MemoryLayout_Tiled")
    layout.tiled.minor_to_major = raw.numbers(minor_to_major)
    layout.tiled.minor_to_major_size = len(minor_to_major)
    return layout


@api_case("a buffer is read in the order that the caller wants",
          "PJRT_Buffer_ToHostBuffer.host_layout")  # fmt: skip
def buffers_are_read_in_any_order(raw: Raw) -> None:
    buffer = put(raw, floats(raw, _MATRIX), dims=(2, 3))
    orders = {(1, 0): _MATRIX, (0, 1): (0.0, 3.0, 1.0, 4.0, 2.0, 5.0)}
    for order, expected in orders.items():
        data = fetch(raw, buffer, 24, host_layout=layout_of(raw, order))
        came = tuple(memoryview(data).cast("f"))
        expect(came == expected, expected=f"{expected} with minor_to_major {order}", came=came)


@api_case("elements lie as a layout says, and the buffer tells it",
          "PJRT_Client_BufferFromHostBuffer.device_layout")  # fmt: skip
def layouts_are_followed(raw: Raw) -> None:
    wanted = layout_of(raw, (0, 1))
    args, answer = try_put(raw, floats(raw, _MATRIX), dims=(2, 3), device_layout=wanted)
    if answer is not None:
        raise NotApplicable(f"the library takes no layout: {answer}")
    buffer = taken(raw, args)
    found = raw.call("PJRT_Buffer_GetMemoryLayout", buffer=buffer).layout
    if found.type == 0:
        order = list(found.tiled.minor_to_major[0 : found.tiled.minor_to_major_size])
        expect(order == [0, 1], expected="minor_to_major [0, 1] of the buffer", came=order)
    data = fetch(raw, buffer, 24, host_layout=layout_of(raw, (1, 0)))
    came = tuple(memoryview(data).cast("f"))
    expect(came == _MATRIX, expected=f"{_MATRIX}, row by row", came=came)


@api_case("scalars, empty arrays and many dimensions go there and back",
          "PJRT_Client_BufferFromHostBuffer.dims")  # fmt: skip
def shapes_go_there_and_back(raw: Raw) -> None:
    for dims in ((), (1,), (0,), (2, 0, 3), (1,) * 8, (2, 1, 3, 1, 2)):
        count = size_in_bytes(dims) // 4
        values = [float(i + 1) for i in range(count)]
        source = floats(raw, [*values, 0.0])
        buffer = put(raw, source, dims=dims)
        args = raw.call("PJRT_Buffer_Dimensions", buffer=buffer)
        came = tuple(args.dims[0 : args.num_dims]) if args.num_dims else ()
        expect(came == dims, expected=f"dims {dims}", came=came)
        if count:
            expect_floats(raw, buffer, values, f"a buffer of {dims}")


@api_case("each memory of a device takes buffers, or says that it does not",
          "PJRT_Client_BufferFromHostBuffer.memory")  # fmt: skip
def memories_take_buffers(raw: Raw) -> None:
    kinds = []
    default = raw.call("PJRT_Device_DefaultMemory", device=raw.device()).memory
    for memory in memories_of(raw, raw.device()):
        kind = kind_of(raw, memory)
        args, answer = try_put(raw, device=ffi.NULL, memory=memory)
        if answer is not None:
            expect(memory != default, expected="buffers on the default memory", came=str(answer))
            continue
        buffer = taken(raw, args)
        there = raw.call("PJRT_Buffer_Memory", buffer=buffer).memory
        expect(there == memory, expected=f"a buffer on memory {kind!r}", came=kind_of(raw, there))
        expect_floats(raw, buffer, FLOATS, f"a buffer on {kind!r}")
        kinds.append(kind)
    expect(kinds, expected="a memory that takes buffers", came="none")


def _type_case(code: int, name: str, bits: int) -> ApiCase:
    def check(raw: Raw) -> None:
        if raw.api.minor < TYPES.get(code, 0):
            raise NotApplicable(f"{name} came with version 0.{TYPES[code]}")
        # Bytes that are values of every type: bools, and numbers of one bit.
        data = bytes(i % 2 for i in range(size_in_bytes((2, 3), bits)))
        args, answer = try_put(raw, raw.text(data), code, (2, 3))
        if answer is not None:
            raise NotApplicable(f"the library does not take {name}: {answer}")
        buffer = taken(raw, args)
        found = int(raw.call("PJRT_Buffer_ElementType", buffer=buffer).type)
        expect(found == code, expected=f"element type {code}", came=str(found))
        came = fetch(raw, buffer, len(data), host_layout=layout_of(raw, (1, 0)))
        expect(came[: len(data)] == data, expected=data.hex(), came=came.hex())

    check.__name__ = f"type_{name.lower()}_goes_there_and_back"
    title = f"elements of type {name} go there and back bit by bit, or are an error"
    return ApiCase(check, title, f"PJRT_Buffer_Type_{name}")


MORE = tuple(
    _type_case(code, name.removeprefix("PJRT_Buffer_Type_"), bits)
    for code, name in sorted(ffi.typeof("PJRT_Buffer_Type").elements.items())
    if (bits := {e.code: e.bits for e in ELEMENT_TYPES}.get(code)) and code != _TOKEN
)

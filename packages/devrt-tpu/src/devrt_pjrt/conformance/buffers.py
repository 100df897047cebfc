"""What a buffer says of itself, and its end."""

from __future__ import annotations

import time
from typing import Any

from devrt.testing.conformance import NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import F32, FLOATS, expect_floats, floats, put, try_fetch
from devrt_pjrt.conformance.raw import Answer, Raw

__all__: list[str] = []


def _numbers(pointer: Any, count: int) -> tuple[int, ...]:
    return tuple(pointer[0:count]) if count else ()


@api_case("type and dimensions are those that were put", "PJRT_Buffer_Dimensions")
def buffers_have_type_and_dimensions(raw: Raw) -> None:
    buffer = put(raw, floats(raw, [0.0] * 6), dims=(2, 3))
    kind = int(raw.call("PJRT_Buffer_ElementType", buffer=buffer).type)
    expect(kind == F32, expected=f"element type {F32}", came=str(kind))
    args = raw.call("PJRT_Buffer_Dimensions", buffer=buffer)
    dims = _numbers(args.dims, args.num_dims)
    expect(dims == (2, 3), expected="dims (2, 3)", came=dims)


@api_case("dimensions without padding are the array's", "PJRT_Buffer_UnpaddedDimensions")
def buffers_have_unpadded_dimensions(raw: Raw) -> None:
    buffer = put(raw, floats(raw, [0.0] * 6), dims=(2, 3))
    args = raw.call("PJRT_Buffer_UnpaddedDimensions", buffer=buffer)
    dims = _numbers(args.unpadded_dims, args.num_dims)
    expect(dims == (2, 3), expected="unpadded_dims (2, 3)", came=dims)


@api_case("an array of fixed size has no dynamic dimension",
          "PJRT_Buffer_DynamicDimensionIndices")  # fmt: skip
def buffers_have_no_dynamic_dimensions(raw: Raw) -> None:
    args = raw.call("PJRT_Buffer_DynamicDimensionIndices", buffer=put(raw))
    count = int(args.num_dynamic_dims)
    expect(count == 0, expected="no dynamic dimension", came=str(count))


@api_case("a buffer has a layout of as many dimensions", "PJRT_Buffer_GetMemoryLayout")
def buffers_have_a_layout(raw: Raw) -> None:
    buffer = put(raw, floats(raw, [0.0] * 6), dims=(2, 3))
    layout = raw.call("PJRT_Buffer_GetMemoryLayout", buffer=buffer).layout
    expect(layout.type in (0, 1), expected="a layout of tiles or of strides", came=layout.type)
    if layout.type == 0:
        order = list(layout.tiled.minor_to_major[0 : layout.tiled.minor_to_major_size])
        expect(sorted(order) == [0, 1], expected="minor_to_major of 0 and 1", came=order)
    else:
        count = int(layout.strides.num_byte_strides)
        expect(count == 2, expected="two strides", came=str(count))


@api_case("a buffer takes at least the bytes of its elements",
          "PJRT_Buffer_OnDeviceSizeInBytes")  # fmt: skip
def buffers_have_a_size(raw: Raw) -> None:
    args = raw.call("PJRT_Buffer_OnDeviceSizeInBytes", buffer=put(raw))
    size = int(args.on_device_size_in_bytes)
    expect(16 <= size < 1 << 24, expected="16 bytes or somewhat more", came=str(size))


@api_case("a buffer is on the device and memory that it was put on", "PJRT_Buffer_Device")
def buffers_have_a_place(raw: Raw) -> None:
    for device in raw.devices():
        buffer = put(raw, device=device)
        found = raw.call("PJRT_Buffer_Device", buffer=buffer).device
        expect(found == device, expected="the device that it was put on", came="another one")
        memory = raw.call("PJRT_Buffer_Memory", buffer=buffer).memory
        default = raw.call("PJRT_Device_DefaultMemory", device=device).memory
        expect(memory == default, expected="the device's default memory", came="another one")


@api_case("a buffer on the host says so, and its pointer is to its elements",
          "PJRT_Buffer_UnsafePointer")  # fmt: skip
def pointers_are_to_the_elements(raw: Raw) -> None:
    buffer = put(raw)
    raw.done(raw.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event, "a buffer")
    is_near = bool(raw.call("PJRT_Buffer_IsOnCpu", buffer=buffer).is_on_cpu)
    address = int(raw.call("PJRT_Buffer_UnsafePointer", buffer=buffer).buffer_pointer)
    expect(address, expected="an address", came="0")
    if not is_near:
        raise NotApplicable("the buffer is not in memory of the host")
    came = tuple(ffi.cast("float *", address)[0:4])
    expect(came == FLOATS, expected=FLOATS, came=came)


@api_case("both ways to a buffer's address give the same one",
          "PJRT_Buffer_OpaqueDeviceMemoryDataPointer")  # fmt: skip
def pointers_agree(raw: Raw) -> None:
    buffer = put(raw)
    raw.done(raw.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event, "a buffer")
    args = raw.call("PJRT_Buffer_OpaqueDeviceMemoryDataPointer", buffer=buffer)
    opaque = int(ffi.cast("uintptr_t", args.device_memory_ptr))
    unsafe = int(raw.call("PJRT_Buffer_UnsafePointer", buffer=buffer).buffer_pointer)
    expect(opaque and opaque == unsafe, expected=f"{unsafe:#x}", came=f"{opaque:#x}")


@api_case("the size on the host is known before anything is read", "PJRT_Buffer_ToHostBuffer.dst")
def buffers_tell_their_size_on_the_host(raw: Raw) -> None:
    args = raw.call("PJRT_Buffer_ToHostBuffer", src=put(raw))
    expect(int(args.dst_size) == 16, expected="dst_size 16", came=str(args.dst_size))


@api_case("memory that is too small is an error", "PJRT_Buffer_ToHostBuffer.dst_size", alone=True)
def small_targets_are_refused(raw: Raw) -> None:
    space = raw.text(b"\xa5" * 32)
    function, why = "PJRT_Buffer_ToHostBuffer", "8 bytes for 16"
    args, answer = raw.attempt(function, src=put(raw), dst=space, dst_size=8)
    if answer is None:
        answer = raw.settle(args.event, function)
    raw.is_refused(function, why, answer)
    came = bytes(ffi.buffer(space, 32))[8:]
    expect(came == b"\xa5" * 24, expected="nothing written behind them", came=came.hex())


@api_case("a deleted buffer says so, and deleting it again does no harm", "PJRT_Buffer_Delete")
def buffers_are_deleted(raw: Raw) -> None:
    buffer = put(raw)
    before = bool(raw.call("PJRT_Buffer_IsDeleted", buffer=buffer).is_deleted)
    expect(not before, expected="is_deleted false", came="true")
    for _ in range(2):
        raw.call("PJRT_Buffer_Delete", buffer=buffer)
        after = bool(raw.call("PJRT_Buffer_IsDeleted", buffer=buffer).is_deleted)
        expect(after, expected="is_deleted after PJRT_Buffer_Delete", came="false")


def _deleted(raw: Raw) -> Any:
    buffer = put(raw)
    raw.call("PJRT_Buffer_Delete", buffer=buffer)
    return buffer


@api_case("reading a deleted buffer is an error", "PJRT_Buffer_Delete", alone=True)
def deleted_buffers_are_not_read(raw: Raw) -> None:
    found = try_fetch(raw, _deleted(raw))
    answer = found if isinstance(found, Answer) else None
    raw.is_refused("PJRT_Buffer_ToHostBuffer", "a deleted buffer", answer)


@api_case("copying a deleted buffer is an error", "PJRT_Buffer_Delete", alone=True)
def deleted_buffers_are_not_copied(raw: Raw) -> None:
    buffer = _deleted(raw)
    memory = raw.call("PJRT_Device_DefaultMemory", device=raw.device()).memory
    function = "PJRT_Buffer_CopyToMemory"
    args, answer = raw.attempt(function, buffer=buffer, dst_memory=memory)
    if answer is None:
        raw.own("PJRT_Buffer_Destroy", buffer=args.dst_buffer)
        event = raw.call("PJRT_Buffer_ReadyEvent", buffer=args.dst_buffer).event
        answer = raw.settle(event, "a copy of a deleted buffer")
    raw.is_refused(function, "a deleted buffer", answer)


@api_case("the address of a deleted buffer is an error", "PJRT_Buffer_Delete", alone=True)
def deleted_buffers_have_no_address(raw: Raw) -> None:
    raw.refused("PJRT_Buffer_UnsafePointer", "a deleted buffer", buffer=_deleted(raw))


@api_case("a deleted buffer keeps type and dimensions", "PJRT_Buffer_Delete", alone=True)
def deleted_buffers_keep_their_dimensions(raw: Raw) -> None:
    buffer = _deleted(raw)
    args = raw.call("PJRT_Buffer_Dimensions", buffer=buffer)
    dims = _numbers(args.dims, args.num_dims)
    expect(dims == (4,), expected="dims (4,)", came=dims)
    kind = int(raw.call("PJRT_Buffer_ElementType", buffer=buffer).type)
    expect(kind == F32, expected=f"element type {F32}", came=str(kind))


@api_case("memory is given back when buffers end", "PJRT_Buffer_Destroy")
def memory_is_given_back(raw: Raw) -> None:
    count = 1 << 20
    source = raw.new("float[]", count)
    before = _in_use(raw)
    for _ in range(8):
        with_it = put(raw, source, dims=(count,))
        raw.call("PJRT_Buffer_Delete", buffer=with_it)
    left = 0
    for _ in range(40):  # it may be given back on a thread of the library's
        left = _in_use(raw) - before
        if left < 4 * count:
            return
        time.sleep(0.05)
    expect(False, expected="bytes_in_use as before", came=f"{left} bytes more")


def _in_use(raw: Raw) -> int:
    return int(raw.call("PJRT_Device_MemoryStats", device=raw.device()).bytes_in_use)


@api_case("a reference held elsewhere keeps the memory in its place",
          "PJRT_Buffer_IncreaseExternalReferenceCount")  # fmt: skip
def references_are_counted(raw: Raw) -> None:
    raw.need("PJRT_Buffer_DecreaseExternalReferenceCount")
    buffer = put(raw)
    raw.call("PJRT_Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    raw.call("PJRT_Buffer_IncreaseExternalReferenceCount", buffer=buffer)
    raw.call("PJRT_Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    raw.call("PJRT_Buffer_DecreaseExternalReferenceCount", buffer=buffer)
    expect_floats(raw, buffer, FLOATS, "the buffer")


@api_case("giving back a reference that nobody holds is an error",
          "PJRT_Buffer_DecreaseExternalReferenceCount", alone=True)  # fmt: skip
def references_are_not_given_back_twice(raw: Raw) -> None:
    function = "PJRT_Buffer_DecreaseExternalReferenceCount"
    raw.refused(function, "a buffer without references", buffer=put(raw))

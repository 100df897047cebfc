"""Copies of buffers: to devices, to memories, and of their bytes to the host."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from devrt.testing.conformance import expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import FLOATS, expect_floats, floats, put, several
from devrt_pjrt.conformance.memories import kind_of, memories_of
from devrt_pjrt.conformance.raw import UNIMPLEMENTED, Raw

__all__: list[str] = []


@api_case("a copy on another device has the values, and the source stays",
          "PJRT_Buffer_CopyToDevice")  # fmt: skip
def copies_go_to_devices(raw: Raw) -> None:
    first, second = several(raw)
    buffer = put(raw, device=first)
    copy = raw.call("PJRT_Buffer_CopyToDevice", buffer=buffer, dst_device=second).dst_buffer
    raw.own("PJRT_Buffer_Destroy", buffer=copy)
    there = raw.call("PJRT_Buffer_Device", buffer=copy).device
    expect(there == second, expected="a copy on the second device", came="one elsewhere")
    expect_floats(raw, copy, FLOATS, "the copy")
    expect_floats(raw, buffer, FLOATS, "the source")


@api_case("a copy on the buffer's own device is one, or an error", "PJRT_Buffer_CopyToDevice")
def copies_to_the_own_device_are_apart(raw: Raw) -> None:
    buffer = put(raw)
    function = "PJRT_Buffer_CopyToDevice"
    args, answer = raw.attempt(function, buffer=buffer, dst_device=raw.device())
    if answer is not None:
        if answer.code == UNIMPLEMENTED:
            raw.succeeded(function, answer)
        return
    raw.own("PJRT_Buffer_Destroy", buffer=args.dst_buffer)
    raw.call("PJRT_Buffer_Delete", buffer=buffer)
    expect_floats(raw, args.dst_buffer, FLOATS, "a copy whose source was deleted")


@api_case("a copy on each memory has the values", "PJRT_Buffer_CopyToMemory")
def copies_go_to_memories(raw: Raw) -> None:
    buffer = put(raw)
    reasons, made = [], 0
    for memory in memories_of(raw, raw.device()):
        function = "PJRT_Buffer_CopyToMemory"
        args, answer = raw.attempt(function, buffer=buffer, dst_memory=memory)
        if answer is not None:
            reasons.append((function, answer))
            continue
        raw.own("PJRT_Buffer_Destroy", buffer=args.dst_buffer)
        there = raw.call("PJRT_Buffer_Memory", buffer=args.dst_buffer).memory
        kind = kind_of(raw, memory)
        expect(there == memory, expected=f"a copy on {kind!r}", came=kind_of(raw, there))
        expect_floats(raw, args.dst_buffer, FLOATS, f"a copy on {kind!r}")
        made += 1
    if not made:
        raw.succeeded(*reasons[0])


def _raw_copy(raw: Raw, offset: int, size: int) -> tuple[bytes, Any]:
    space = raw.text(b"\xa5" * 32)
    args, answer = raw.attempt(
        "PJRT_Buffer_CopyRawToHost",
        buffer=put(raw),
        dst=space,
        offset=offset,
        transfer_size=size,
    )
    if answer is None:
        answer = raw.settle(args.event, "PJRT_Buffer_CopyRawToHost")
    return bytes(ffi.buffer(space, 32)), answer


@api_case("bytes are read from where the caller says", "PJRT_Buffer_CopyRawToHost")
def bytes_are_read_in_part(raw: Raw) -> None:
    for offset, size in ((0, 16), (4, 8), (12, 4)):
        came, answer = _raw_copy(raw, offset, size)
        raw.succeeded("PJRT_Buffer_CopyRawToHost", answer)
        expected = bytes(ffi.buffer(floats(raw)))[offset : offset + size]
        expect(came[:size] == expected, expected=f"{expected.hex()} from byte {offset} on",
               came=came[:size].hex())  # fmt: skip
        expect(came[size:] == b"\xa5" * (32 - size), expected=f"{size} bytes", came="more")


@api_case("bytes that a buffer has not are an error", "PJRT_Buffer_CopyRawToHost", alone=True)
def bytes_beyond_the_end_are_refused(raw: Raw) -> None:
    for offset, size in ((12, 16), (-4, 8), (1 << 40, 4)):
        came, answer = _raw_copy(raw, offset, size)
        why = f"{size} bytes from byte {offset} of 16"
        raw.is_refused("PJRT_Buffer_CopyRawToHost", why, answer)
        expect(came == b"\xa5" * 32, expected="nothing written", came=came.hex())


@api_case("bytes are read into memory that is named later", "PJRT_Buffer_CopyRawToHostFuture")
def bytes_are_read_into_memory_named_later(raw: Raw) -> None:
    function = "PJRT_Buffer_CopyRawToHostFuture"
    args = raw.call(function, buffer=put(raw), offset=4, transfer_size=8)
    space = raw.text(b"\xa5" * 32)
    given = raw.arguments(
        f"{function}_Callback_Args", callback_data=args.callback_data, error_code=0, dst=space
    )
    expect(args.future_ready_callback, expected="a function to name memory with", came="null")
    with raw.ready_by_its_end(args.event, "the end of a raw copy"):
        args.future_ready_callback(given)
    came = bytes(ffi.buffer(space, 8))
    expected = bytes(ffi.buffer(floats(raw)))[4:12]
    expect(came == expected, expected=expected.hex(), came=came.hex())


@api_case("a buffer becomes one of another type", "PJRT_Buffer_Bitcast")
def buffers_are_taken_for_another_type(raw: Raw) -> None:
    args = raw.call(
        "PJRT_Buffer_Bitcast",
        buffer=put(raw),
        element_type=8,  # U32
        dims=raw.numbers((2, 2)),
        num_dims=2,
    )
    raw.own("PJRT_Buffer_Destroy", buffer=args.out_buffer)
    kind = int(raw.call("PJRT_Buffer_ElementType", buffer=args.out_buffer).type)
    expect(kind == 8, expected="element type 8", came=str(kind))
    expect_floats(raw, args.out_buffer, FLOATS, "the same bytes")


@api_case("a buffer is donated once what it depends on has come",
          "PJRT_Buffer_DonateWithControlDependency")  # fmt: skip
def buffers_wait_for_a_dependency(raw: Raw) -> None:
    function = "PJRT_Buffer_DonateWithControlDependency"
    args = raw.call(function, buffer=put(raw))
    raw.own("PJRT_Buffer_Destroy", buffer=args.out_buffer)
    event = raw.call("PJRT_Buffer_ReadyEvent", buffer=args.out_buffer).event
    given = raw.arguments(
        f"{function}_Callback_Args", callback_data=args.callback_data, error_code=0
    )
    with raw.ready_by_its_end(event, "a buffer whose dependency has come"):
        args.dependency_ready_callback(given)
    expect_floats(raw, args.out_buffer, FLOATS, "the donated buffer")


@api_case("threads that put and read do not disturb each other", "PJRT_Client", deadline=60)
def threads_do_not_disturb_each_other(raw: Raw) -> None:
    raw.client  # noqa: B018  made before the threads ask for it

    def work(number: int) -> None:
        for i in range(25):
            values = [float(number * 1000 + i + j) for j in range(4)]
            expect_floats(raw, put(raw, floats(raw, values)), values, "a buffer")

    with ThreadPoolExecutor(4) as pool:  # one that hangs is ended at the case's deadline
        list(pool.map(work, range(4)))

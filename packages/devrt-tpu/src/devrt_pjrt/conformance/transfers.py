"""Transfers to a device piece by piece."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import F32, FLOATS, expect_floats, floats
from devrt_pjrt.conformance.raw import Raw

__all__: list[str] = []

_NAME = "PJRT_AsyncHostToDeviceTransferManager_"
_ABORTED, _MESSAGE = 10, b"what the conformance kit did not send"


def _manager(raw: Raw, count: int = 2) -> Any:
    """Return a manager of buffers of four floats, destroyed when the case ends."""
    memory = raw.call("PJRT_Device_DefaultMemory", device=raw.device()).memory
    shapes = raw.new("PJRT_ShapeSpec[]", count)
    dims = raw.numbers((4,))
    for i in range(count):
        shape = shapes[i]
        shape.struct_size = raw.size_of("PJRT_ShapeSpec")
        shape.dims, shape.num_dims, shape.element_type = dims, 1, F32
    manager = raw.call(
        "PJRT_Client_CreateBuffersForAsyncHostToDevice",
        client=raw.client,
        shape_specs=shapes,
        num_shape_specs=count,
        memory=memory,
    ).transfer_manager
    raw.own(_NAME + "Destroy", transfer_manager=manager)
    return manager


def _buffer(raw: Raw, manager: Any, index: int) -> Any:
    args = raw.call(_NAME + "RetrieveBuffer", transfer_manager=manager, buffer_index=index)
    raw.own("PJRT_Buffer_Destroy", buffer=args.buffer_out)
    return args.buffer_out


def _send(raw: Raw, manager: Any, index: int, first: int, count: int, is_last: bool) -> None:
    data = floats(raw)
    args = raw.call(
        _NAME + "TransferData",
        transfer_manager=manager,
        buffer_index=index,
        data=data + first,
        offset=4 * first,
        transfer_size=4 * count,
        is_last_transfer=is_last,
    )
    if args.done_with_h2d_transfer != ffi.NULL:
        raw.done(args.done_with_h2d_transfer, "done_with_h2d_transfer")


@api_case("a manager knows its device, its buffers and their sizes",
          _NAME + "BufferCount")  # fmt: skip
def managers_know_their_buffers(raw: Raw) -> None:
    manager = _manager(raw)
    count = int(raw.call(_NAME + "BufferCount", transfer_manager=manager).buffer_count)
    expect(count == 2, expected="2 buffers", came=str(count))
    args = raw.call(_NAME + "BufferSize", transfer_manager=manager, buffer_index=1)
    expect(int(args.buffer_size) >= 16, expected="16 bytes or more", came=str(args.buffer_size))
    device = raw.call(_NAME + "Device", transfer_manager=manager).device_out
    expect(device == raw.device(), expected="the device of the memory", came="another one")
    for i in range(2):
        _send(raw, manager, i, 0, 4, True)
        expect_floats(raw, _buffer(raw, manager, i), FLOATS, f"buffer {i}")


@api_case("a buffer is complete when its last piece has come", _NAME + "TransferData")
def pieces_make_a_buffer(raw: Raw) -> None:
    manager = _manager(raw, 1)
    buffer = _buffer(raw, manager, 0)
    event = raw.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event
    _send(raw, manager, 0, 0, 2, False)
    with raw.ready_by_its_end(event, "a buffer whose pieces have come"):
        _send(raw, manager, 0, 2, 2, True)
    expect_floats(raw, buffer, FLOATS, "the buffer")


@api_case("a buffer whose values do not come has the error that is set", _NAME + "SetBufferError")
def values_that_do_not_come_are_an_error(raw: Raw) -> None:
    manager = _manager(raw, 1)
    buffer = _buffer(raw, manager, 0)
    raw.call(
        _NAME + "SetBufferError",
        transfer_manager=manager,
        buffer_index=0,
        error_code=_ABORTED,
        error_message=raw.text(_MESSAGE),
        error_message_size=len(_MESSAGE),
    )
    event = raw.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event
    answer = raw.settle(event, "a buffer that was given up")
    is_it = answer is not None and _MESSAGE.decode() in answer.message
    expect(is_it and answer and answer.code == _ABORTED,
           expected=f"ABORTED: {_MESSAGE.decode()}", came=str(answer))  # fmt: skip


@api_case("facts can be added to a transfer", _NAME + "AddMetadata")
def transfers_take_metadata(raw: Raw) -> None:
    from devrt_pjrt.library.values import NamedValues

    manager = _manager(raw, 1)
    values = raw.keep(NamedValues({"origin": "conform"}))
    raw.call(
        _NAME + "AddMetadata",
        transfer_manager=manager,
        transfer_metadata=values.array,
        num_metadata=values.count,
    )
    _send(raw, manager, 0, 0, 4, True)
    expect_floats(raw, _buffer(raw, manager, 0), FLOATS, "the buffer")


@api_case("a whole array is sent at once", _NAME + "TransferLiteral")
def arrays_are_sent_at_once(raw: Raw) -> None:
    from devrt_pjrt.conformance.sources import layout_of

    manager = _manager(raw, 1)
    buffer = _buffer(raw, manager, 0)
    args = raw.call(
        _NAME + "TransferLiteral",
        transfer_manager=manager,
        buffer_index=0,
        data=floats(raw),
        shape_dims=raw.numbers((4,)),
        shape_num_dims=1,
        shape_element_type=F32,
        shape_layout=layout_of(raw, (0,)),
    )
    if args.done_with_h2d_transfer != ffi.NULL:
        raw.done(args.done_with_h2d_transfer, "done_with_h2d_transfer")
    expect_floats(raw, buffer, FLOATS, "the buffer")


@api_case("a buffer that a manager has not is an error", _NAME + "TransferData", alone=True)
def unknown_buffers_are_refused(raw: Raw) -> None:
    manager = _manager(raw, 1)
    for index in (1, -1):
        raw.refused(
            _NAME + "BufferSize",
            f"buffer_index {index} of 1",
            transfer_manager=manager,
            buffer_index=index,
        )
    _send(raw, manager, 0, 0, 4, True)


@api_case("a piece that goes beyond its buffer is an error, and the manager ends",
          _NAME + "TransferData", alone=True, deadline=15)  # fmt: skip
def pieces_beyond_the_buffer_are_refused(raw: Raw) -> None:
    manager = _manager(raw, 1)
    raw.refused(
        _NAME + "TransferData",
        "32 bytes from byte 12 of 16",
        transfer_manager=manager,
        buffer_index=0,
        data=raw.new("char[]", 64),
        offset=12,
        transfer_size=32,
        is_last_transfer=True,
    )

"""Errors that come later, with a buffer: made so, and of values that never come."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import expect
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import (
    ADD,
    F32,
    FLOATS,
    compiled,
    expect_floats,
    put,
    try_fetch,
    try_run,
)
from devrt_pjrt.conformance.raw import Answer, Raw
from devrt_pjrt.conformance.sources import layout_of

__all__: list[str] = []

_ABORTED = 10
_MESSAGE = b"what the conformance kit broke"


def error_buffer(raw: Raw) -> Any:
    """Return a buffer that holds an error in place of values."""
    memory = raw.call("PJRT_Device_DefaultMemory", device=raw.device()).memory
    args = raw.call(
        "PJRT_Client_CreateErrorBuffer",
        client=raw.client,
        error_code=_ABORTED,
        error_message=raw.text(_MESSAGE),
        error_message_size=len(_MESSAGE),
        shape_dims=raw.numbers((4,)),
        shape_num_dims=1,
        shape_element_type=F32,
        memory=memory,
    )
    raw.own("PJRT_Buffer_Destroy", buffer=args.buffer)
    return args.buffer


def expect_the_error(answer: Answer | bytes | None, where: str) -> None:
    """Fail the case unless the error of `error_buffer` came."""
    is_it = isinstance(answer, Answer) and _MESSAGE.decode() in answer.message
    expect(is_it, expected=f"the error {_MESSAGE.decode()!r} {where}", came=str(answer))
    code = answer.code if isinstance(answer, Answer) else None
    expect(code == _ABORTED, expected=f"its code, ABORTED, {where}", came=str(answer))


@api_case("a buffer's error comes to the waiter for it", "PJRT_Client_CreateErrorBuffer")
def errors_come_with_the_ready_event(raw: Raw) -> None:
    event = raw.call("PJRT_Buffer_ReadyEvent", buffer=error_buffer(raw)).event
    expect_the_error(raw.settle(event, "a buffer with an error"), "at its ready event")


@api_case("a buffer's error reaches the reader", "PJRT_Client_CreateErrorBuffer")
def errors_come_to_the_reader(raw: Raw) -> None:
    expect_the_error(try_fetch(raw, error_buffer(raw)), "where it is read")


@api_case("an argument's error comes with the results", "PJRT_LoadedExecutable_Execute")
def errors_go_through_programs(raw: Raw) -> None:
    broken, loaded = error_buffer(raw), compiled(raw, ADD)
    made, _, answer = try_run(raw, loaded, [broken, put(raw)])
    if answer is None:
        answer = raw.settle(raw.call("PJRT_Buffer_ReadyEvent", buffer=made[0]).event, "a result")
    # Its code may be another one: the program failed, for the reason that is in the message.
    came = "no error" if answer is None else str(answer)
    expect(_MESSAGE.decode() in came, expected=f"the error {_MESSAGE.decode()!r} at the result",
           came=came)  # fmt: skip
    (result,), _, answer = try_run(raw, loaded, [put(raw), put(raw)])
    raw.succeeded("PJRT_LoadedExecutable_Execute", answer)
    expect_floats(raw, result, (2.0, 4.0, 6.0, 8.0), "what is run afterwards")


def _alias(raw: Raw) -> Any:
    memory = raw.call("PJRT_Device_DefaultMemory", device=raw.device()).memory
    raw.need("PJRT_Client_FulfillAliasBuffer")
    args = raw.call(
        "PJRT_Client_CreateAliasBuffer",
        client=raw.client,
        memory=memory,
        shape_dims=raw.numbers((4,)),
        shape_num_dims=1,
        shape_element_type=F32,
        shape_layout=layout_of(raw, (0,)),
    )
    raw.own("PJRT_Buffer_Destroy", buffer=args.alias_buffer)
    return args


@api_case("a buffer that is promised is ready once it is given", "PJRT_Client_FulfillAliasBuffer")
def promised_buffers_come(raw: Raw) -> None:
    args, buffer = _alias(raw), put(raw)
    event = raw.call("PJRT_Buffer_ReadyEvent", buffer=args.alias_buffer).event
    with raw.ready_by_its_end(event, "a promised buffer that was given"):
        raw.call(
            "PJRT_Client_FulfillAliasBuffer",
            client=raw.client,
            buffer=buffer,
            status_code=0,
            fulfill_alias_buffer_cb=args.fulfill_alias_buffer_cb,
        )
    expect_floats(raw, args.alias_buffer, FLOATS, "the promised buffer")


@api_case("a buffer that is promised can fail", "PJRT_Client_FulfillAliasBuffer")
def promised_buffers_fail(raw: Raw) -> None:
    args, function = _alias(raw), "PJRT_Client_FulfillAliasBuffer"
    _, answer = raw.attempt(
        function,
        client=raw.client,
        status_code=_ABORTED,
        error_message=raw.text(_MESSAGE),
        error_message_size=len(_MESSAGE),
        fulfill_alias_buffer_cb=args.fulfill_alias_buffer_cb,
    )
    if answer is not None:  # some libraries return what they were given
        expect_the_error(answer, f"of {function}")
    event = raw.call("PJRT_Buffer_ReadyEvent", buffer=args.alias_buffer).event
    expect_the_error(raw.settle(event, "a promised buffer"), "at the promised buffer")


@api_case(
    "poisoning a launch that does not exist reports poisoned=false",
    "PJRT_Device_PoisonExecution",
    alone=True,
)
def launches_that_are_over_are_not_poisoned(raw: Raw) -> None:
    args = raw.call(
        "PJRT_Device_PoisonExecution",
        device=raw.device(),
        launch_id=7,  # none has it
        error_code=_ABORTED,
        error_message=raw.text(_MESSAGE),
        error_message_size=len(_MESSAGE),
    )
    expect(not args.poisoned, expected="poisoned false: no such launch", came="true")

"""Events: when they are ready, who is called, and with which error."""

from __future__ import annotations

import threading
import time
from typing import Any

from devrt.testing.conformance import NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import put
from devrt_pjrt.conformance.raw import Answer, Raw

__all__: list[str] = []

_ABORTED = 10
_MESSAGE = b"an error of the conformance kit's"


def _ready_event(raw: Raw) -> Any:
    """Return the event of a buffer, which is ready soon; destroyed when the case ends."""
    event = raw.call("PJRT_Buffer_ReadyEvent", buffer=put(raw)).event
    raw.own("PJRT_Event_Destroy", event=event)
    return event


def _created(raw: Raw) -> Any:
    raw.need("PJRT_Event_Create", "PJRT_Event_Set")
    event = raw.call("PJRT_Event_Create").event
    raw.own("PJRT_Event_Destroy", event=event)
    return event


def _is_ready(raw: Raw, event: Any) -> bool:
    return bool(raw.call("PJRT_Event_IsReady", event=event).is_ready)


def _set(raw: Raw, event: Any, code: int = 0, message: bytes = b"") -> None:
    text = raw.text(message)
    raw.call(
        "PJRT_Event_Set",
        event=event,
        error_code=code,
        error_message=text,
        error_message_size=len(message),
    )


def _await(raw: Raw, event: Any) -> Answer | None:
    _, answer = raw.attempt("PJRT_Event_Await", event=event)
    return answer


@api_case("waiting for an event ends, and it is ready then", "PJRT_Event_Await")
def awaited_events_are_ready(raw: Raw) -> None:
    event = _ready_event(raw)
    raw.need("PJRT_Event_Await")
    answer = _await(raw, event)
    expect(answer is None, expected="an event without an error", came=str(answer))
    expect(_is_ready(raw, event), expected="is_ready after PJRT_Event_Await", came="false")
    _, error = raw.attempt("PJRT_Event_Error", event=event)
    expect(error is None, expected="PJRT_Event_Error gives null", came=str(error))
    expect(_await(raw, event) is None, expected="no error when it is awaited again", came="one")


@api_case("a callback is called once, without an error", "PJRT_Event_OnReady")
def callbacks_are_called_once(raw: Raw) -> None:
    event = _ready_event(raw)
    first = raw.on_ready(event)
    answer = first.wait("the event of a buffer is")
    expect(answer is None, expected="a callback without an error", came=str(answer))
    late = raw.on_ready(event)  # it is ready already
    late.wait("an event that was ready is")
    time.sleep(0.05)  # a second call would come about now
    counts = len(first.calls), len(late.calls)
    expect(counts == (1, 1), expected="each callback called once", came=f"{counts} times")
    expect(_is_ready(raw, event), expected="is_ready once it called back", came="false")


@api_case("destroying an event that has called back leaves its buffer", "PJRT_Event_Destroy")
def events_end_apart_from_their_buffer(raw: Raw) -> None:
    buffer = put(raw)
    for _ in range(3):
        raw.done(raw.call("PJRT_Buffer_ReadyEvent", buffer=buffer).event, "a buffer")
    args = raw.call("PJRT_Buffer_ToHostBuffer", src=buffer)
    expect(args.dst_size > 0, expected="the size of a buffer", came=str(args.dst_size))


@api_case("an event that a caller makes is ready when it is set", "PJRT_Event_Set")
def created_events_are_ready_once_set(raw: Raw) -> None:
    event = _created(raw)
    expect(not _is_ready(raw, event), expected="an event that is not ready", came="one that is")
    ready = raw.on_ready(event)
    expect(not ready.calls, expected="no call before it is set", came=f"{len(ready.calls)}")
    _set(raw, event)
    answer = ready.wait("an event that was set is")
    expect(answer is None, expected="a callback without an error", came=str(answer))
    expect(_is_ready(raw, event), expected="is_ready once it is set", came="false")


@api_case("an event's error reaches all who wait for it", "PJRT_Event_Set")
def errors_of_events_reach_their_waiters(raw: Raw) -> None:
    event = _created(raw)
    early = [raw.on_ready(event) for _ in range(3)]
    _set(raw, event, _ABORTED, _MESSAGE)
    answers = [ready.wait("an event that was set is") for ready in early]
    answers.append(raw.on_ready(event).wait("an event that was ready is"))
    answers += [_await(raw, event)] if raw.has("PJRT_Event_Await") else []
    answers += [raw.attempt("PJRT_Event_Error", event=event)[1]]
    for answer in answers:
        _expect_the_error(answer)
    time.sleep(0.05)  # a second call would come about now
    counts = [len(ready.calls) for ready in early]
    expect(counts == [1, 1, 1], expected="each callback called once", came=f"{counts} times")


def _expect_the_error(answer: Answer | None) -> None:
    is_it = answer is not None and answer.code == _ABORTED and _MESSAGE.decode() in answer.message
    expect(is_it, expected=f"ABORTED: {_MESSAGE.decode()}", came=str(answer))


@api_case("a thread that waits goes on when another one sets the event", "PJRT_Event_Await")
def waiting_threads_go_on(raw: Raw) -> None:
    event, found = _created(raw), list[Any]()
    raw.need("PJRT_Event_Await")
    args = raw.arguments("PJRT_Event_Await_Args", event=event)
    waiter = threading.Thread(
        target=lambda: found.append(raw.table.PJRT_Event_Await(args)), daemon=True
    )
    waiter.start()
    time.sleep(0.1)
    expect(not found, expected="PJRT_Event_Await to wait for the event", came="it returned")
    _set(raw, event, _ABORTED, _MESSAGE)
    waiter.join(10)
    expect(found, expected="the waiter to go on within 10 s", came="it waits still")
    _expect_the_error(raw.take(found[0]))


@api_case("setting an event a second time is an error", "PJRT_Event_Set", alone=True)
def events_are_set_once(raw: Raw) -> None:
    event = _created(raw)
    _set(raw, event)
    raw.refused("PJRT_Event_Set", "an event that is set already", event=event,
                error_message=ffi.NULL)  # fmt: skip


@api_case("the source of a transfer is given back by an event", "PJRT_Client_BufferFromHostBuffer")
def sources_are_given_back(raw: Raw) -> None:
    from devrt_pjrt.conformance.made import put_args

    args = put_args(raw)
    if args.done_with_host_buffer == ffi.NULL:
        raise NotApplicable("the library gives no event of the source")
    raw.done(args.done_with_host_buffer, "done_with_host_buffer")

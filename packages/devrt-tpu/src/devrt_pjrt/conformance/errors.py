"""Error objects: code, message, and their end."""

from __future__ import annotations

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.raw import CODES, Raw
from devrt_pjrt.library.api import text_of

__all__: list[str] = []


def _error(raw: Raw) -> object:
    """Return an error that is not destroyed yet, which needs no device."""
    raw.start()
    args = raw.arguments("PJRT_Plugin_Attributes_Args")
    args.struct_size = 0
    for function, given in (
        ("PJRT_Plugin_Attributes", args),
        ("PJRT_TopologyDescription_Deserialize", _garbage(raw)),
    ):
        if raw.has(function):
            raw.calling(function)
            error = getattr(raw.table, function)(given)
            if error:
                return error
    raise NotApplicable("no call without a device returned an error")


def _garbage(raw: Raw) -> object:
    text = raw.text(b"no topology")
    return raw.arguments(
        "PJRT_TopologyDescription_Deserialize_Args",
        serialized_topology=text,
        serialized_topology_size=11,
    )


def _message(raw: Raw, error: object) -> bytes:
    args = raw.arguments("PJRT_Error_Message_Args", error=error)
    raw.calling("PJRT_Error_Message")
    raw.table.PJRT_Error_Message(args)
    return bytes(ffi.buffer(args.message, args.message_size)) if args.message_size else b""


@api_case("an error has a message, which is text", "PJRT_Error_Message")
def errors_have_a_message(raw: Raw) -> None:
    error = _error(raw)
    message = _message(raw, error)
    again = _message(raw, error)
    raw.take(error)
    expect(message.strip(), expected="a message", came="an empty one")
    expect(message == again, expected=f"{message!r} again", came=repr(again))
    try:
        message.decode()
    except UnicodeDecodeError as wrong:
        raise Failure("a message in UTF-8", f"{message!r}") from wrong


@api_case("an error has a code that is none of success", "PJRT_Error_GetCode")
def errors_have_a_code(raw: Raw) -> None:
    args = raw.arguments("PJRT_Error_GetCode_Args", error=_error(raw))
    args.code = 0
    failed = raw.table.PJRT_Error_GetCode(args)
    expect(not failed, expected="PJRT_Error_GetCode returns no error", came=str(raw.take(failed)))
    code = int(args.code)
    raw.take(args.error)
    expect(code in CODES and code != 0, expected="a code from 1 to 16", came=str(code))


@api_case("two errors are apart: destroying one leaves the other", "PJRT_Error_Destroy")
def errors_are_apart(raw: Raw) -> None:
    first, second = _error(raw), _error(raw)
    expect(first != second, expected="two errors", came="one pointer twice")
    message = _message(raw, second)
    raw.take(first)
    after = _message(raw, second)
    raw.take(second)
    expect(message == after, expected=f"the second one's message {message!r}", came=repr(after))


@api_case("destroying no error does nothing", "PJRT_Error_Destroy", alone=True)
def no_error_is_destroyed(raw: Raw) -> None:
    raw.start()
    raw.calling("PJRT_Error_Destroy")
    raw.table.PJRT_Error_Destroy(raw.arguments("PJRT_Error_Destroy_Args", error=ffi.NULL))


@api_case("payloads are visited before the call returns", "PJRT_Error_ForEachPayload")
def payloads_are_visited(raw: Raw) -> None:
    raw.need("PJRT_Error_ForEachPayload")
    error, visits = _error(raw), []

    @ffi.callback("PJRT_Error_PayloadVisitor")  # type: ignore[untyped-decorator]
    def visit(key: object, key_size: int, value: object, size: int, _: object) -> None:
        visits.append(text_of(key, key_size))

    args = raw.arguments("PJRT_Error_ForEachPayload_Args", error=error, visitor=visit)
    raw.calling("PJRT_Error_ForEachPayload")
    failed = raw.take(raw.table.PJRT_Error_ForEachPayload(args))
    before = len(visits)
    raw.take(error)
    raw.succeeded("PJRT_Error_ForEachPayload", failed)
    expect(len(visits) == before, expected=f"{before} visits", came=f"{len(visits)} visits")
    expect(all(visits), expected="a key for each payload", came=repr(visits))

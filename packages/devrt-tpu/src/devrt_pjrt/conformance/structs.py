"""Sizes of structures: callers that are older than the library, newer, and wrong."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import ApiCase, api_case
from devrt_pjrt.conformance.made import compiled, executable_of, expect_floats, put, try_run
from devrt_pjrt.conformance.raw import Answer, Raw
from devrt_pjrt.conformance.table import FUNCTIONS

__all__ = ["MORE"]

_UNCHECKED = frozenset(
    {
        "PJRT_Error_Destroy",  # they return no error
        "PJRT_Error_Message",
        "PJRT_Plugin_Initialize",  # to be called once
    }
)
_MORE_BYTES = 64


@api_case("a caller that is newer is served", "struct_size")
def larger_structures_are_taken(raw: Raw) -> None:
    client = raw.client
    for function, fields, answer in (
        ("PJRT_Plugin_Attributes", {}, "attributes"),
        ("PJRT_Client_PlatformName", {"client": client}, "platform_name"),
        ("PJRT_Client_Devices", {"client": client}, "devices"),
        ("PJRT_Buffer_Dimensions", {"buffer": put(raw)}, "dims"),
    ):
        given = _larger(raw, f"{function}_Args", **fields)
        args, failed = raw.attempt_with(function, given)
        raw.succeeded(function, failed)
        expect(getattr(args, answer) != ffi.NULL, expected=f"{answer} of {function}", came="null")


def _larger(raw: Raw, structure: str, **fields: Any) -> Any:
    """Return a structure with unknown fields behind the known ones, as a newer caller has it."""
    size = raw.size_of(structure) + _MORE_BYTES
    space = raw.new("char[]", size + 16)
    made = ffi.cast(f"{structure} *", space)
    made.struct_size = size
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _smaller(raw: Raw, structure: str, last: str, **fields: Any) -> Any:
    """Return a structure that ends with a field, as an older caller has it."""
    made = raw.arguments(structure, **fields)
    kind = ffi.typeof(structure)
    known = dict(kind.fields)[last]
    made.struct_size = known.offset + ffi.sizeof(known.type)
    return made


def _is_served(answer: Answer | None, given: int) -> bool:
    """Return whether an older caller is served; one that is not must learn why."""
    if answer is None:
        return True
    text = answer.message
    expect(str(given) in text and "size" in text, expected="an older caller served, or an error "
           f"that names the size that it has, {given}", came=str(answer))  # fmt: skip
    return False


@api_case("an older caller makes a client, or is refused for its size",
          "PJRT_Client_Create_Args.struct_size")  # fmt: skip
def older_callers_make_clients(raw: Raw) -> None:
    raw.client  # noqa: B018  not applicable where none can be made
    args = _smaller(raw, "PJRT_Client_Create_Args", "client")
    _, answer = raw.attempt_with("PJRT_Client_Create", args)
    if _is_served(answer, args.struct_size):
        raw.call("PJRT_Client_Destroy", client=args.client)


@api_case("an older caller runs programs, or is refused for its size",
          "PJRT_ExecuteOptions.struct_size")  # fmt: skip
def older_callers_run_programs(raw: Raw) -> None:
    options = _smaller(raw, "PJRT_ExecuteOptions", "num_non_donatable_input_indices")
    made, _, answer = try_run(raw, compiled(raw), [put(raw), put(raw)], options=options)
    if _is_served(answer, options.struct_size):
        expect_floats(raw, made[0], (2.0, 4.0, 6.0, 8.0), "the sum")


@api_case("an older caller learns a program's memory, and nothing is written behind",
          "PJRT_Executable_GetCompiledMemoryStats_Args.struct_size")  # fmt: skip
def older_callers_learn_of_memory(raw: Raw) -> None:
    function, last = "PJRT_Executable_GetCompiledMemoryStats", "temp_size_in_bytes"
    executable = executable_of(raw, compiled(raw))
    args = _smaller(raw, f"{function}_Args", last, executable=executable)
    args.peak_unpadded_heap_bytes = -77
    _, answer = raw.attempt_with(function, args)
    if not _is_served(answer, args.struct_size):
        return
    expect(args.argument_size_in_bytes >= 32, expected="32 bytes of arguments or more",
           came=str(args.argument_size_in_bytes))  # fmt: skip
    expect(args.peak_unpadded_heap_bytes == -77, expected="nothing behind the structure",
           came="a field that the caller does not have was written")  # fmt: skip


@api_case("an error of a wrong size names the function", "struct_size")
def errors_of_sizes_name_the_function(raw: Raw) -> None:
    args = raw.arguments("PJRT_Plugin_Attributes_Args")
    args.struct_size = 0
    _, answer = raw.attempt_with("PJRT_Plugin_Attributes", args)
    if answer is None:
        raise Failure("an error for a struct_size of 0", "no error")
    expect("PJRT_Plugin_Attributes" in answer.message, expected="a message that names "
           "PJRT_Plugin_Attributes", came=answer.message)  # fmt: skip


def _size_case(function: str) -> ApiCase:
    def check(raw: Raw) -> None:
        raw.need(function)
        try:
            args = raw.arguments(f"{function}_Args")
        except ffi.error as error:
            raise NotApplicable(f"devrt does not know {function}_Args") from error
        args.struct_size = 0
        _, answer = raw.attempt_with(function, args, "probed")
        if answer is None:
            raise Failure(f"{function} returns an error for a struct_size of 0", "no error")

    check.__name__ = f"size_of_{function.removeprefix('PJRT_')}_is_checked"
    return ApiCase(check, f"{function} refuses a struct_size of 0", "struct_size")


MORE = tuple(_size_case(function) for function in FUNCTIONS if function not in _UNCHECKED)

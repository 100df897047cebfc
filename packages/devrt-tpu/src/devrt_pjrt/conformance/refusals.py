"""Arguments that are wrong: each is an error, and none ends the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt.testing.conformance import NotApplicable
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import ApiCase, api_case
from devrt_pjrt.conformance.made import ADD, F32, ONE_DEVICE, program_of, put, try_put
from devrt_pjrt.conformance.raw import Raw
from devrt_pjrt.conformance.sources import layout_of
from devrt_pjrt.library.options import CLIENT_OPTIONS
from devrt_pjrt.library.values import NamedValues

__all__ = ["MORE"]

_PUT, _COMPILE = "PJRT_Client_BufferFromHostBuffer", "PJRT_Client_Compile"
Given = Callable[[Raw], dict[str, Any]]


def _put_case(name: str, what: str, given: Given) -> ApiCase:
    def check(raw: Raw) -> None:
        fields = given(raw)
        args, answer = try_put(raw, **fields)
        if answer is None and args.buffer != ffi.NULL:
            raw.own("PJRT_Buffer_Destroy", buffer=args.buffer)
            event = raw.call("PJRT_Buffer_ReadyEvent", buffer=args.buffer).event
            answer = raw.settle(event, "a buffer")
        raw.is_refused(_PUT, what, answer)

    check.__name__ = f"put_of_{name}_is_refused"
    return ApiCase(check, f"{what} is an error of a transfer", _PUT, 30.0, True)


def _bad_layout(raw: Raw) -> dict[str, Any]:
    return {"dims": (2, 2), "device_layout": layout_of(raw, (0, 0))}


def _short_layout(raw: Raw) -> dict[str, Any]:
    return {"dims": (2, 2), "device_layout": layout_of(raw, (0,))}


def _short_strides(raw: Raw) -> dict[str, Any]:
    return {"dims": (2, 2), "byte_strides": raw.numbers((4,)), "num_byte_strides": 1}


_PUTS = (
    ("an_unknown_type", "an element type of number 999", lambda raw: {"kind": 999}),
    ("an_invalid_type", "the element type INVALID", lambda raw: {"kind": 0}),
    ("a_token", "the element type TOKEN", lambda raw: {"kind": 23}),
    ("a_negative_dimension", "a dimension of -1", lambda raw: {"dims": (-1,)}),
    ("too_many_elements", "dimensions whose product no 64 bits hold",
     lambda raw: {"dims": (1 << 40, 1 << 40)}),
    ("more_than_there_is_memory", "an array of 2**60 bytes", lambda raw: {"dims": (1 << 58,)}),
    ("unknown_semantics", "host-buffer semantics of number 99",
     lambda raw: {"host_buffer_semantics": 99}),
    ("no_place", "neither a device nor a memory", lambda raw: {"device": ffi.NULL}),
    ("a_layout_that_is_none", "minor_to_major (0, 0)", _bad_layout),
    ("a_layout_that_is_too_short", "minor_to_major (0,) of two dimensions", _short_layout),
    ("strides_that_are_too_few", "one stride of two dimensions", _short_strides),
)  # fmt: skip


def _compile_case(name: str, what: str, code: bytes, options: bytes, form: bytes) -> ApiCase:
    def check(raw: Raw) -> None:
        raw.refused(
            _COMPILE,
            what,
            client=raw.client,
            program=program_of(raw, code, form),
            compile_options=raw.text(options),
            compile_options_size=len(options),
        )

    check.__name__ = f"compile_of_{name}_is_refused"
    return ApiCase(check, f"{what} is an error of the compiler", _COMPILE, 30.0, True)


_SUM = ADD.encode()
_COMPILES = (
    ("text_that_is_none", "a text that is no program", b"this is no program", ONE_DEVICE, b"mlir"),
    ("nothing", "an empty program", b"", ONE_DEVICE, b"mlir"),
    ("half_a_program", "half of a program", _SUM[: len(_SUM) // 2], ONE_DEVICE, b"mlir"),
    ("broken_bytecode", "bytecode that ends after its mark", b"ML\xefR\x0d", ONE_DEVICE, b"mlir"),
    ("wrong_types", "a sum of arrays of two shapes",
     ADD.replace("%b: tensor<4xf32>", "%b: tensor<5xf32>").encode(), ONE_DEVICE, b"mlir"),
    ("an_unknown_operation", "an operation that nobody knows",
     ADD.replace("stablehlo.add", "stablehlo.no_such_operation").encode(), ONE_DEVICE, b"mlir"),
    ("an_unknown_format", "the format 'invalid'", _SUM, ONE_DEVICE, b"invalid"),
    ("no_format", "an empty format", _SUM, ONE_DEVICE, b""),
    ("hlo_that_is_none", "HLO that is none", b"this is no program", ONE_DEVICE, b"hlo"),
    ("an_unknown_custom_call", "a custom call that nobody registered",
     ADD.replace("stablehlo.add %a, %b : tensor<4xf32>",
                 "stablehlo.custom_call @devrt_no_such_call(%a, %b) {api_version = 4 : i32} : "
                 "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>").encode(), ONE_DEVICE, b"mlir"),
    ("options_that_are_none", "compile options that are none", _SUM, b"invalid compile options",
     b"mlir"),
    ("too_many_replicas", "options for 4,096 replicas", _SUM,
     bytes.fromhex("1a052080202801"), b"mlir"),
)  # fmt: skip


@api_case("empty compile options are the defaults, or an error", _COMPILE, alone=True)
def compile_with_no_options_is_survived(raw: Raw) -> None:
    args, answer = raw.attempt(
        _COMPILE, client=raw.client, program=program_of(raw), compile_options=raw.text(b"")
    )
    if answer is None:
        raw.own("PJRT_LoadedExecutable_Destroy", executable=args.executable)


def _create_case(name: str, what: str, options: dict[str, Any]) -> ApiCase:
    def check(raw: Raw) -> None:
        raw.client  # noqa: B018  not applicable where none can be made
        values = raw.keep(NamedValues(options))
        args, answer = raw.attempt(
            "PJRT_Client_Create", create_options=values.array, num_options=values.count
        )
        if answer is None:
            raw.own("PJRT_Client_Destroy", client=args.client)

    check.__name__ = f"client_with_{name}_is_survived"
    title = f"{what} is an error of a new client, or is ignored"
    return ApiCase(check, title, "PJRT_Client_Create_Args.create_options", 60.0)


def _wrong_types() -> dict[str, Any]:
    """Return options of XLA's clients, each with a value of a type that it has not."""
    return {
        name: 7 if kind is str else "a text where there is none"
        for name, kind in CLIENT_OPTIONS.items()
    }


_CREATES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("an_unknown_text", "an unknown option with a text", {"devrt_no_such_option": "text"}),
    ("an_unknown_number", "an unknown option with a number", {"devrt_no_such_option": 7}),
    ("an_unknown_list", "an unknown option with a list", {"devrt_no_such_option": [1, 2]}),
    *((f"{name}_of_a_wrong_type", f"option {name} of a wrong type", {name: value})
      for name, value in _wrong_types().items()),
)  # fmt: skip


@api_case("a copy to nowhere is an error", "PJRT_Buffer_CopyToMemory", alone=True)
def copies_to_no_memory_are_refused(raw: Raw) -> None:
    raw.refused("PJRT_Buffer_CopyToMemory", "a null memory", buffer=put(raw))


@api_case("an array of a negative size is an error", "PJRT_Client_CreateUninitializedBuffer",
          alone=True)  # fmt: skip
def arrays_of_negative_size_are_refused(raw: Raw) -> None:
    memory = raw.call("PJRT_Device_DefaultMemory", device=raw.device()).memory
    function = "PJRT_Client_CreateUninitializedBuffer"
    _, answer = raw.attempt(
        function,
        client=raw.client,
        shape_dims=raw.numbers((-4,)),
        shape_num_dims=1,
        shape_element_type=F32,
        memory=memory,
    )
    raw.is_refused(function, "a dimension of -4", answer)


@api_case("memory that was not mapped is not unmapped", "PJRT_Client_DmaUnmap", alone=True)
def memory_that_was_not_mapped_is_refused(raw: Raw) -> None:
    function = "PJRT_Client_DmaUnmap"
    _, answer = raw.attempt(function, client=raw.client, data=raw.new("char[]", 4096))
    if answer is not None:
        raw.is_refused(function, "memory that was not mapped", answer)
    else:
        raise NotApplicable("the library keeps no list of what is mapped")


MORE = (
    *(_put_case(*row) for row in _PUTS),
    *(_compile_case(*row) for row in _COMPILES),
    *(_create_case(*row) for row in _CREATES),
)

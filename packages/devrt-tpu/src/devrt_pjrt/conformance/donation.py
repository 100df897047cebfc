"""Donation: arguments whose memory a program takes over."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import (
    FLOATS,
    compiled,
    expect_floats,
    put,
    run,
    try_fetch,
    try_run,
)
from devrt_pjrt.conformance.raw import Answer, Raw

__all__: list[str] = []

_DONATES = """module @donates {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
_SUM = (2.0, 4.0, 6.0, 8.0)
_EXECUTE = "PJRT_LoadedExecutable_Execute"


def _is_deleted(raw: Raw, buffer: Any) -> bool:
    return bool(raw.call("PJRT_Buffer_IsDeleted", buffer=buffer).is_deleted)


@api_case("a donated argument is deleted, and the result is right", _EXECUTE)
def donated_arguments_are_deleted(raw: Raw) -> None:
    value = put(raw)
    (result,) = run(raw, compiled(raw, _DONATES), [value])
    expect_floats(raw, result, _SUM, "the result")
    expect(_is_deleted(raw, value), expected="a donated argument that is deleted", came="it lives")


@api_case("a donated argument cannot be used again", _EXECUTE, alone=True)
def donated_arguments_are_not_used_again(raw: Raw) -> None:
    loaded, value = compiled(raw, _DONATES), put(raw)
    run(raw, loaded, [value])
    found = try_fetch(raw, value)
    answer = found if isinstance(found, Answer) else None
    raw.is_refused("PJRT_Buffer_ToHostBuffer", "a donated buffer", answer)
    _, _, answer = try_run(raw, loaded, [value])
    raw.is_refused(_EXECUTE, "an argument that was donated before", answer)


@api_case("an argument that must not be donated stays",
          "PJRT_ExecuteOptions.non_donatable_input_indices")  # fmt: skip
def arguments_that_must_stay_do(raw: Raw) -> None:
    value = put(raw)
    options = raw.arguments(
        "PJRT_ExecuteOptions",
        non_donatable_input_indices=raw.numbers((0,)),
        num_non_donatable_input_indices=1,
    )
    (result,) = run(raw, compiled(raw, _DONATES), [value], options=options)
    expect_floats(raw, result, _SUM, "the result")
    expect(not _is_deleted(raw, value), expected="an argument that stays", came="it is deleted")
    expect_floats(raw, value, FLOATS, "the argument")


@api_case("an argument that is referred to elsewhere is not donated",
          "PJRT_Buffer_IncreaseExternalReferenceCount")  # fmt: skip
def referred_arguments_are_not_donated(raw: Raw) -> None:
    loaded, value = compiled(raw, _DONATES), put(raw)
    raw.need("PJRT_Buffer_DecreaseExternalReferenceCount")
    raw.call("PJRT_Buffer_IncreaseExternalReferenceCount", buffer=value)
    raw.own("PJRT_Buffer_DecreaseExternalReferenceCount", buffer=value)
    made, _, answer = try_run(raw, loaded, [value])
    if answer is None:  # a library may refuse the donation, or copy
        expect_floats(raw, made[0], _SUM, "the result")
    expect_floats(raw, value, FLOATS, "an argument that is referred to elsewhere")


@api_case("one buffer is not donated twice in a call", _EXECUTE, alone=True)
def one_buffer_is_not_donated_twice(raw: Raw) -> None:
    twice = """module @twice {
      func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32},
                             %b: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.add %a, %b : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
    }
    """
    loaded, value = compiled(raw, twice), put(raw)
    _, _, answer = try_run(raw, loaded, [value, value])
    raw.is_refused(_EXECUTE, "an argument that is donated and used", answer)


@api_case("a lent source that must not be written is not donated", "ImmutableZeroCopy")
def lent_sources_are_not_written(raw: Raw) -> None:
    memory = raw.new("char[]", 80)
    start = int(ffi.cast("uintptr_t", memory))
    source = ffi.cast("float *", start + -start % 64)
    for i, value in enumerate(FLOATS):
        source[i] = value
    loaded = compiled(raw, _DONATES)
    buffer = put(raw, source, host_buffer_semantics=2)
    made, _, answer = try_run(raw, loaded, [buffer])
    if answer is None:
        expect_floats(raw, made[0], _SUM, "the result")
    came = tuple(source[0:4])
    expect(came == FLOATS, expected=f"a source as it was, {FLOATS}", came=came)
    if answer is not None:
        raise NotApplicable(f"the library refuses to donate such a buffer: {answer}")

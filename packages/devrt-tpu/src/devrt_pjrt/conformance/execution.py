"""Running programs: results, events, and arguments that do not fit."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.clients import id_of
from devrt_pjrt.conformance.made import (
    compiled,
    expect_floats,
    fetch,
    floats,
    put,
    run,
    several,
    try_run,
)
from devrt_pjrt.conformance.programs import TWO_RESULTS
from devrt_pjrt.conformance.raw import Answer, Raw
from devrt_pjrt.conformance.sources import layout_of

__all__: list[str] = []

_EXECUTE = "PJRT_LoadedExecutable_Execute"
_SUM = (2.0, 4.0, 6.0, 8.0)
_U32 = 8


@api_case("a program's result is right", _EXECUTE)
def results_are_right(raw: Raw) -> None:
    (result,) = run(raw, compiled(raw), [put(raw), put(raw)])
    expect_floats(raw, result, _SUM, "the sum")


@api_case("a program runs again and again", _EXECUTE)
def programs_run_again(raw: Raw) -> None:
    loaded, value = compiled(raw), put(raw)
    total = value
    for _ in range(20):
        (total,) = run(raw, loaded, [total, value])
    expect_floats(raw, total, tuple(21.0 * i for i in (1, 2, 3, 4)), "a sum of 21")


@api_case("several results come in the program's order", _EXECUTE)
def results_come_in_order(raw: Raw) -> None:
    values = [float(i) for i in range(6)]
    argument = put(raw, floats(raw, values), dims=(2, 3))
    first, second = run(raw, compiled(raw, TWO_RESULTS), [argument], 2)
    data = fetch(raw, first, 24, host_layout=layout_of(raw, (1, 0)))
    came = list(memoryview(data).cast("f"))
    expected = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    expect(came == expected, expected=expected, came=came)
    expect(fetch(raw, second, 6)[:6] == b"\1" * 6, expected="six trues", came="others")


@api_case("a result is an array of its own", _EXECUTE)
def results_are_apart(raw: Raw) -> None:
    loaded, value = compiled(raw), put(raw)
    (first,), (second,) = (run(raw, loaded, [value, value]) for _ in range(2))
    raw.call("PJRT_Buffer_Delete", buffer=first)
    raw.call("PJRT_Buffer_Delete", buffer=value)
    expect_floats(raw, second, _SUM, "the second result")


@api_case("the event of a program's end is given where it is requested",
          "PJRT_LoadedExecutable_Execute_Args.device_complete_events")  # fmt: skip
def ends_of_programs_have_an_event(raw: Raw) -> None:
    _, event, answer = try_run(raw, compiled(raw), [put(raw), put(raw)])
    raw.succeeded(_EXECUTE, answer)
    if event == ffi.NULL:
        raise Failure("an event for the device", "a null pointer")
    failed = raw.settle(event, "device_complete_events", owned=False)
    expect(failed is None, expected="an end without an error", came=str(failed))


@api_case("a program runs without an event of its end",
          "PJRT_LoadedExecutable_Execute_Args.device_complete_events")  # fmt: skip
def programs_run_without_an_event(raw: Raw) -> None:
    arguments = [put(raw), put(raw)]
    (result,) = run(raw, compiled(raw), arguments, device_complete_events=ffi.NULL)
    expect_floats(raw, result, _SUM, "the sum")


@api_case("a program runs on the device that it is reported",
          "PJRT_LoadedExecutable_Execute_Args.execute_device")  # fmt: skip
def programs_run_where_they_are_reported(raw: Raw) -> None:
    loaded = compiled(raw)
    args = raw.call("PJRT_LoadedExecutable_AddressableDevices", executable=loaded)
    if not args.num_addressable_devices:
        raise NotApplicable("the program is bound to no device")
    device = args.addressable_devices[0]
    arguments = [put(raw, device=device), put(raw, device=device)]
    (result,) = run(raw, loaded, arguments, execute_device=device)
    there = raw.call("PJRT_Buffer_Device", buffer=result).device
    expect(there == device, expected="a result on that device", came="one elsewhere")
    expect_floats(raw, result, _SUM, "the sum")


def _fails(raw: Raw, arguments: list[Any], why: str, code: str = "", **fields: Any) -> None:
    """Fail the case unless running the sum with these arguments is an error, now or later."""
    loaded = compiled(raw, code) if code else compiled(raw)
    made, event, answer = try_run(raw, loaded, arguments, **fields)
    if answer is None:
        answer = _late(raw, made, event)
    raw.is_refused(_EXECUTE, why, answer)


def _late(raw: Raw, made: list[Any], event: Any) -> Answer | None:
    if event != ffi.NULL and (answer := raw.settle(event, "the end", owned=False)) is not None:
        return answer
    return raw.settle(raw.call("PJRT_Buffer_ReadyEvent", buffer=made[0]).event, "a result")


@api_case("too few arguments are an error", _EXECUTE, alone=True)
def too_few_arguments_are_refused(raw: Raw) -> None:
    _fails(raw, [put(raw)], "one argument for two parameters")


@api_case("no arguments are an error where there are parameters", _EXECUTE, alone=True)
def no_arguments_are_refused(raw: Raw) -> None:
    _fails(raw, [], "no argument for two parameters")


@api_case("too many arguments are an error", _EXECUTE, alone=True)
def too_many_arguments_are_refused(raw: Raw) -> None:
    _fails(raw, [put(raw), put(raw), put(raw)], "three arguments for two parameters")


@api_case("an argument that is too large is an error", _EXECUTE, alone=True)
def large_arguments_are_refused(raw: Raw) -> None:
    large = put(raw, floats(raw, [1.0] * 64), dims=(64,))
    _fails(raw, [put(raw), large], "64 floats for 4")


@api_case("an argument that is too small is an error", _EXECUTE, alone=True)
def small_arguments_are_refused(raw: Raw) -> None:
    small = put(raw, floats(raw, [1.0]), dims=(1,))
    _fails(raw, [put(raw), small], "1 float for 4")


@api_case("an argument of other dimensions is an error", _EXECUTE, alone=True)
def arguments_of_other_dimensions_are_refused(raw: Raw) -> None:
    square = put(raw, dims=(2, 2))
    _fails(raw, [put(raw), square], "a matrix of two by two for a vector of four")


@api_case("an argument of another element type is an error", _EXECUTE, alone=True)
def arguments_of_another_type_are_refused(raw: Raw) -> None:
    numbers = put(raw, raw.new("uint32_t[]", [1, 2, 3, 4]), _U32)
    _fails(raw, [put(raw), numbers], "U32 for F32")


@api_case("a deleted argument is an error", _EXECUTE, alone=True)
def deleted_arguments_are_refused(raw: Raw) -> None:
    gone = put(raw)
    raw.call("PJRT_Buffer_Delete", buffer=gone)
    _fails(raw, [put(raw), gone], "a deleted argument")


@api_case("an argument on another device is an error, or is copied", _EXECUTE, alone=True)
def arguments_elsewhere_are_refused(raw: Raw) -> None:
    several(raw)
    loaded = compiled(raw)
    args = raw.call("PJRT_LoadedExecutable_AddressableDevices", executable=loaded)
    own = args.addressable_devices[0]
    other = next(device for device in raw.devices() if device != own)
    arguments = [put(raw, device=own), put(raw, device=other)]
    made, event, answer = try_run(raw, loaded, arguments)
    answer = answer or _late(raw, made, event)
    if answer is None:
        expect_floats(raw, made[0], _SUM, "the sum")


@api_case("more devices than the program has are an error", _EXECUTE, alone=True)
def too_many_devices_are_refused(raw: Raw) -> None:
    row = raw.new("PJRT_Buffer *[]", [put(raw), put(raw)])
    out = [raw.new("PJRT_Buffer *[]", [ffi.NULL]) for _ in range(2)]
    _, answer = raw.attempt(
        _EXECUTE,
        executable=compiled(raw),
        options=raw.arguments("PJRT_ExecuteOptions"),
        argument_lists=raw.new("PJRT_Buffer * const *[]", [row, row]),
        num_devices=2,
        num_args=2,
        output_lists=raw.new("PJRT_Buffer **[]", out),
    )
    raw.is_refused(_EXECUTE, "two devices of a program for one", answer)


@api_case("running a deleted program is an error", _EXECUTE, alone=True)
def deleted_programs_are_not_run(raw: Raw) -> None:
    loaded = compiled(raw)
    raw.call("PJRT_LoadedExecutable_Delete", executable=loaded)
    made, event, answer = try_run(raw, loaded, [put(raw), put(raw)])
    if answer is None:
        answer = _late(raw, made, event)
    raw.is_refused(_EXECUTE, "a deleted program", answer)


@api_case("after a failed call the program runs as before", _EXECUTE, alone=True)
def programs_survive_failed_calls(raw: Raw) -> None:
    loaded = compiled(raw)
    gone = put(raw)
    raw.call("PJRT_Buffer_Delete", buffer=gone)
    for _ in range(3):
        made, event, answer = try_run(raw, loaded, [put(raw), gone])
        raw.is_refused(_EXECUTE, "a deleted argument", answer or _late(raw, made, event))
    (result,) = run(raw, loaded, [put(raw), put(raw)])
    expect_floats(raw, result, _SUM, "the sum")


@api_case("a program of two partitions runs on two devices", _EXECUTE, deadline=60)
def programs_run_on_several_devices(raw: Raw) -> None:
    devices = several(raw)
    loaded = compiled(raw, options=_two_partitions(raw, devices))
    results, answer = _run_on(raw, loaded, [[put(raw, device=d)] * 2 for d in devices])
    raw.succeeded(_EXECUTE, answer)
    for device, result in zip(devices, results, strict=True):
        there = raw.call("PJRT_Buffer_Device", buffer=result).device
        expect(there == device, expected="a result on each device", came="one elsewhere")
        expect_floats(raw, result, _SUM, "the sum")


@api_case("after a failed call on several devices the program runs as before", _EXECUTE,
          alone=True, deadline=20)  # fmt: skip
def programs_on_several_devices_survive_failed_calls(raw: Raw) -> None:
    devices = several(raw)
    loaded = compiled(raw, options=_two_partitions(raw, devices))
    good = [[put(raw, device=d)] * 2 for d in devices]
    gone = put(raw, device=devices[1])
    raw.call("PJRT_Buffer_Delete", buffer=gone)
    _, answer = _run_on(raw, loaded, [good[0], [good[1][0], gone]])
    raw.is_refused(_EXECUTE, "a deleted argument on the second device", answer)
    results, answer = _run_on(raw, loaded, good)
    raw.succeeded(_EXECUTE, answer)
    expect_floats(raw, results[0], _SUM, "the sum")


def _two_partitions(raw: Raw, devices: list[Any]) -> bytes:
    from devrt.compiling.options import CompileOptions

    ids = [[id_of(raw, device) for device in devices]]
    return CompileOptions.of({"num_partitions": len(devices), "device_assignment": ids}).serialize()


def _run_on(raw: Raw, loaded: Any, lists: list[list[Any]]) -> tuple[list[Any], Answer | None]:
    """Run a program with one result on several devices, each with its arguments."""
    rows = [raw.new("PJRT_Buffer *[]", row) for row in lists]
    outs = [raw.new("PJRT_Buffer *[]", [ffi.NULL]) for _ in lists]
    _, answer = raw.attempt(
        _EXECUTE,
        executable=loaded,
        options=raw.arguments("PJRT_ExecuteOptions"),
        argument_lists=raw.new("PJRT_Buffer * const *[]", rows),
        num_devices=len(lists),
        num_args=len(lists[0]),
        output_lists=raw.new("PJRT_Buffer **[]", outs),
    )
    if answer is not None:
        return [], answer
    for out in outs:
        raw.own("PJRT_Buffer_Destroy", buffer=out[0])
    for out in outs:
        event = raw.call("PJRT_Buffer_ReadyEvent", buffer=out[0]).event
        if (answer := raw.settle(event, "a result")) is not None:
            return [], answer
    return [out[0] for out in outs], None

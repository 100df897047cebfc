"""Programs: compiling them, and what the executable says of itself."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.clients import all_devices, id_of
from devrt_pjrt.conformance.made import (
    F32,
    compiled,
    executable_of,
    expect_floats,
    put,
    run,
    text,
)
from devrt_pjrt.conformance.memories import kind_of, memories_of
from devrt_pjrt.conformance.raw import Raw
from devrt_pjrt.conformance.table import check_values

__all__ = ["TWO_RESULTS", "optimized"]

TWO_RESULTS = """module @two {
  func.func public @main(%a: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xi1>) {
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %1 = stablehlo.compare EQ, %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    return %0, %1 : tensor<3x2xf32>, tensor<2x3xi1>
  }
}
"""
_PRED = 1


@api_case("a program is compiled and has a name", "PJRT_Client_Compile", deadline=60)
def programs_are_compiled(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw))
    name = text(raw.call("PJRT_Executable_Name", executable=executable), "executable_name")
    expect(name, expected="a name", came="an empty one")


@api_case("a program for one device has one replica and one partition",
          "PJRT_Executable_NumReplicas")  # fmt: skip
def programs_have_replicas_and_partitions(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw))
    replicas = int(raw.call("PJRT_Executable_NumReplicas", executable=executable).num_replicas)
    function = "PJRT_Executable_NumPartitions"
    partitions = int(raw.call(function, executable=executable).num_partitions)
    expect((replicas, partitions) == (1, 1), expected=(1, 1), came=(replicas, partitions))


@api_case("the number of results is the program's", "PJRT_Executable_NumOutputs")
def results_are_counted(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw, TWO_RESULTS))
    count = int(raw.call("PJRT_Executable_NumOutputs", executable=executable).num_outputs)
    expect(count == 2, expected="2 results", came=str(count))


@api_case("element types of results are the program's", "PJRT_Executable_OutputElementTypes")
def results_have_types(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw, TWO_RESULTS))
    args = raw.call("PJRT_Executable_OutputElementTypes", executable=executable)
    came = list(args.output_types[0 : args.num_output_types])
    expect(came == [F32, _PRED], expected=[F32, _PRED], came=came)


@api_case("dimensions of results are the program's", "PJRT_Executable_OutputDimensions")
def results_have_dimensions(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw, TWO_RESULTS))
    args = raw.call("PJRT_Executable_OutputDimensions", executable=executable)
    sizes = list(args.dim_sizes[0 : args.num_outputs])
    dims = list(args.dims[0 : sum(sizes)])
    expect((sizes, dims) == ([2, 2], [3, 2, 2, 3]), expected=([2, 2], [3, 2, 2, 3]),
           came=(sizes, dims))  # fmt: skip


def _kinds(raw: Raw, function: str, count: str) -> list[str]:
    executable = executable_of(raw, compiled(raw, TWO_RESULTS))
    args = raw.call(function, executable=executable)
    number = int(getattr(args, count))
    sizes = list(args.memory_kind_sizes[0:number])
    return [
        bytes(ffi.buffer(args.memory_kinds[i], sizes[i])).decode(errors="replace")
        for i in range(number)
    ]


def _expect_kinds(raw: Raw, came: list[str], count: int) -> None:
    there = {kind_of(raw, memory) for memory in memories_of(raw, raw.device())}
    is_right = len(came) == count and set(came) <= there
    expect(is_right, expected=f"{count} kinds of {sorted(there)}", came=came)


@api_case("results lie on memories of kinds that the device has",
          "PJRT_Executable_OutputMemoryKinds")  # fmt: skip
def results_have_memory_kinds(raw: Raw) -> None:
    _expect_kinds(raw, _kinds(raw, "PJRT_Executable_OutputMemoryKinds", "num_outputs"), 2)


@api_case("parameters lie on memories of kinds that the device has",
          "PJRT_Executable_ParameterMemoryKinds")  # fmt: skip
def parameters_have_memory_kinds(raw: Raw) -> None:
    _expect_kinds(raw, _kinds(raw, "PJRT_Executable_ParameterMemoryKinds", "num_parameters"), 1)


@api_case("what a program costs is a list of figures", "PJRT_Executable_GetCostAnalysis")
def programs_have_a_cost(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw))
    args = raw.call("PJRT_Executable_GetCostAnalysis", executable=executable)
    check_values(args.properties, args.num_properties, "the cost analysis")


@api_case("what memory a program needs is reported", "PJRT_Executable_GetCompiledMemoryStats")
def programs_have_memory_figures(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw))
    args = raw.call("PJRT_Executable_GetCompiledMemoryStats", executable=executable)
    came = int(args.argument_size_in_bytes), int(args.output_size_in_bytes)
    is_right = came[0] >= 32 and came[1] >= 16
    expect(is_right, expected="32 bytes of arguments and 16 of results, or more", came=came)


@api_case("the size of the code is reported", "PJRT_Executable_SizeOfGeneratedCodeInBytes")
def programs_have_a_size(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw))
    function = "PJRT_Executable_SizeOfGeneratedCodeInBytes"
    size = int(raw.call(function, executable=executable).size_in_bytes)
    expect(size >= -1, expected="a size, or -1 for none that is known", came=str(size))


def optimized(raw: Raw, loaded: Any) -> tuple[str, bytes]:
    """Return the format and the code of a compiled program."""
    executable = executable_of(raw, loaded)
    program = raw.arguments("PJRT_Program")
    raw.call("PJRT_Executable_OptimizedProgram", executable=executable, program=program)
    size = int(program.code_size)
    expect(size > 0, expected="the size of the code", came=str(size))
    space = program.code = raw.new("char[]", size)
    raw.call("PJRT_Executable_OptimizedProgram", executable=executable, program=program)
    return text(program, "format"), bytes(ffi.buffer(space, size))


@api_case("the compiled program can be read", "PJRT_Executable_OptimizedProgram")
def compiled_programs_are_read(raw: Raw) -> None:
    form, code = optimized(raw, compiled(raw))
    expect(form in ("hlo", "hlo_with_config", "mlir"), expected="format hlo, hlo_with_config or "
           "mlir", came=form)  # fmt: skip
    expect(any(code), expected="code", came="zeros")


def _module(code: bytes) -> bytes:
    """Return the HloModuleProto of an HloModuleProtoWithConfig: its first field."""
    at, size, shift = 1, 0, 0
    while True:
        size |= (code[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not code[at - 1] & 0x80:
            return code[at : at + size]


@api_case("a program in HLO is compiled and run", "PJRT_Program.format", deadline=60)
def programs_in_hlo_are_compiled(raw: Raw) -> None:
    form, code = optimized(raw, compiled(raw))
    if form not in ("hlo", "hlo_with_config"):
        raise NotApplicable(f"the library writes programs in {form!r}, and the kit has no other")
    loaded = compiled(raw, _module(code) if form == "hlo_with_config" else code, form=b"hlo")
    (result,) = run(raw, loaded, [put(raw), put(raw)])
    expect_floats(raw, result, (2.0, 4.0, 6.0, 8.0), "the sum")


@api_case("one program has one fingerprint, and others have others",
          "PJRT_Executable_Fingerprint")  # fmt: skip
def programs_have_a_fingerprint(raw: Raw) -> None:
    first, same, other = (_fingerprint(raw, code) for code in (None, None, TWO_RESULTS))
    expect(first, expected="a fingerprint", came="an empty one")
    expect(first == same, expected=f"{first!r} for the same program", came=repr(same))
    expect(first != other, expected="another one for another program", came=repr(other))


def _fingerprint(raw: Raw, code: str | None) -> str:
    loaded = compiled(raw) if code is None else compiled(raw, code)
    args = raw.call("PJRT_Executable_Fingerprint", executable=executable_of(raw, loaded))
    return text(args, "executable_fingerprint")


@api_case("a loaded program has a fingerprint", "PJRT_LoadedExecutable_Fingerprint")
def loaded_programs_have_a_fingerprint(raw: Raw) -> None:
    function, found = "PJRT_LoadedExecutable_Fingerprint", []
    for _ in range(2):
        args = raw.call(function, executable=compiled(raw))
        found.append(text(args, "executable_fingerprint"))
    expect(found[0], expected="a fingerprint", came="an empty one")
    expect(found[0] == found[1], expected=f"{found[0]!r} for the same program", came=found[1])


@api_case("a loaded program knows its devices", "PJRT_LoadedExecutable_AddressableDevices")
def loaded_programs_know_their_devices(raw: Raw) -> None:
    args = raw.call("PJRT_LoadedExecutable_AddressableDevices", executable=compiled(raw))
    found = [args.addressable_devices[i] for i in range(args.num_addressable_devices)]
    expect(len(found) == 1, expected="one device", came=f"{len(found)} devices")
    expect(found[0] in raw.devices(), expected="one of the client's", came="another pointer")


@api_case("a loaded program knows which part of it each device runs",
          "PJRT_LoadedExecutable_AddressableDeviceLogicalIds")  # fmt: skip
def loaded_programs_know_their_logical_ids(raw: Raw) -> None:
    function = "PJRT_LoadedExecutable_AddressableDeviceLogicalIds"
    args = raw.call(function, executable=compiled(raw))
    found = [
        (int(one.replica), int(one.partition))
        for one in args.addressable_device_logical_ids[0 : args.num_addressable_device_logical_ids]
    ]
    expect(found == [(0, 0)], expected=[(0, 0)], came=found)


@api_case("a loaded program has an assignment, given back by its deleter",
          "PJRT_LoadedExecutable_GetDeviceAssignment")  # fmt: skip
def loaded_programs_have_an_assignment(raw: Raw) -> None:
    from devrt.compiling.device_assignment import DeviceAssignment

    args = raw.call("PJRT_LoadedExecutable_GetDeviceAssignment", executable=compiled(raw))
    data = bytes(ffi.buffer(args.serialized_bytes, args.serialized_bytes_size))
    if args.serialized_device_assignment != ffi.NULL:
        args.serialized_device_assignment_deleter(args.serialized_device_assignment)
    try:
        ids = [int(i) for row in DeviceAssignment.deserialize(data).ids for i in row]
    except Exception as error:
        raise Failure("a DeviceAssignmentProto", f"{data.hex()[:200]}: {error}") from error
    known = {id_of(raw, device) for device in all_devices(raw)}
    expect(len(ids) == 1 and ids[0] in known, expected=f"one of {sorted(known)}", came=ids)


@api_case("the options that a program was compiled with are given back by their deleter",
          "PJRT_Executable_GetCompileOptions")  # fmt: skip
def programs_keep_their_options(raw: Raw) -> None:
    executable = executable_of(raw, compiled(raw))
    args = raw.call("PJRT_Executable_GetCompileOptions", executable=executable)
    size = int(args.serialized_bytes_size)
    expect(size > 0, expected="a CompileOptionsProto", came="no bytes")
    if args.serialized_compile_options != ffi.NULL:
        args.serialized_compile_options_deleter(args.serialized_compile_options)


@api_case("a deleted program says so, and deleting it again does no harm",
          "PJRT_LoadedExecutable_Delete")  # fmt: skip
def programs_are_deleted(raw: Raw) -> None:
    loaded = compiled(raw)
    function = "PJRT_LoadedExecutable_IsDeleted"
    before = bool(raw.call(function, executable=loaded).is_deleted)
    expect(not before, expected="is_deleted false", came="true")
    for _ in range(2):
        raw.call("PJRT_LoadedExecutable_Delete", executable=loaded)
        after = bool(raw.call(function, executable=loaded).is_deleted)
        expect(after, expected="is_deleted after PJRT_LoadedExecutable_Delete", came="false")


@api_case("an executable answers after the program that it was loaded as is deleted",
          "PJRT_LoadedExecutable_Delete")  # fmt: skip
def executables_outlive_deleted_programs(raw: Raw) -> None:
    raw.need("PJRT_LoadedExecutable_GetExecutable", "PJRT_Client_Compile")
    loaded = compiled(raw)
    executable = executable_of(raw, loaded)
    raw.call("PJRT_LoadedExecutable_Delete", executable=loaded)
    count = int(raw.call("PJRT_Executable_NumOutputs", executable=executable).num_outputs)
    expect(count == 1, expected="1 result", came=str(count))


@api_case("an execute context is made and ended", "PJRT_ExecuteContext_Create")
def contexts_are_made(raw: Raw) -> None:
    raw.need("PJRT_ExecuteContext_Create", "PJRT_ExecuteContext_Destroy")
    context = raw.call("PJRT_ExecuteContext_Create").context
    if context == ffi.NULL:
        raise NotApplicable("the library makes no contexts")
    raw.own("PJRT_ExecuteContext_Destroy", context=context)
    options = raw.arguments("PJRT_ExecuteOptions", context=context)
    (result,) = run(raw, compiled(raw), [put(raw), put(raw)], options=options)
    expect_floats(raw, result, (2.0, 4.0, 6.0, 8.0), "the sum")

"""Executables as bytes: written, read again, and run."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import (
    ONE_DEVICE,
    compiled,
    executable_of,
    expect_floats,
    program_of,
    put,
    run,
    text,
    written,
)
from devrt_pjrt.conformance.raw import Answer, Raw

__all__ = ["bytes_of"]

_SUM = (2.0, 4.0, 6.0, 8.0)
_LOAD = "PJRT_Executable_DeserializeAndLoad"


def bytes_of(raw: Raw, executable: Any) -> bytes:
    """Return an executable's bytes."""
    args = raw.call("PJRT_Executable_Serialize", executable=executable)
    return written(args, "executable")


def _load(raw: Raw, data: bytes, options: bytes = b"") -> tuple[Any, Answer | None]:
    args, answer = raw.attempt(
        _LOAD,
        client=raw.client,
        serialized_executable=raw.text(data),
        serialized_executable_size=len(data),
        overridden_serialized_compile_options=raw.text(options) if options else ffi.NULL,
        overridden_serialized_compile_options_size=len(options),
    )
    if answer is None:
        raw.own("PJRT_LoadedExecutable_Destroy", executable=args.loaded_executable)
    return args.loaded_executable, answer


def _bytes(raw: Raw) -> bytes:
    raw.need(_LOAD)
    return bytes_of(raw, executable_of(raw, compiled(raw)))


def _expect_runs(raw: Raw, loaded: Any) -> None:
    (result,) = run(raw, loaded, [put(raw), put(raw)])
    expect_floats(raw, result, _SUM, "the sum")


@api_case("an executable is written as bytes, which its deleter frees",
          "PJRT_Executable_Serialize")  # fmt: skip
def executables_are_serialized(raw: Raw) -> None:
    bytes_of(raw, executable_of(raw, compiled(raw)))


@api_case("what was written is read, and runs", _LOAD, deadline=60)
def executables_are_read_and_run(raw: Raw) -> None:
    loaded, answer = _load(raw, _bytes(raw))
    raw.succeeded(_LOAD, answer)
    _expect_runs(raw, loaded)
    args = raw.call("PJRT_Executable_NumOutputs", executable=executable_of(raw, loaded))
    expect(int(args.num_outputs) == 1, expected="1 result", came=str(args.num_outputs))


@api_case("what was written is read with other options", _LOAD, deadline=60)
def executables_are_read_with_options(raw: Raw) -> None:
    if raw.api.minor < 71:
        raise NotApplicable("options of a serialized program came with version 0.71")
    loaded, answer = _load(raw, _bytes(raw), ONE_DEVICE)
    raw.succeeded(_LOAD, answer)
    _expect_runs(raw, loaded)


def _refuses(raw: Raw, data: bytes, why: str) -> None:
    _, answer = _load(raw, data)
    raw.is_refused(_LOAD, why, answer)


@api_case("bytes that are no executable are an error", _LOAD, alone=True)
def strange_bytes_are_no_executable(raw: Raw) -> None:
    raw.need(_LOAD)
    _refuses(raw, b"these bytes are no executable of any library", "bytes that are none")


@api_case("no bytes are no executable", _LOAD, alone=True)
def no_bytes_are_no_executable(raw: Raw) -> None:
    raw.need(_LOAD)
    _refuses(raw, b"", "no bytes")


@api_case("half of an executable is an error", _LOAD, alone=True)
def half_an_executable_is_none(raw: Raw) -> None:
    data = _bytes(raw)
    _refuses(raw, data[: len(data) // 2], "the first half of an executable")


@api_case("an executable that was changed is an error", _LOAD, alone=True)
def changed_executables_are_refused_or_run(raw: Raw) -> None:
    data = bytearray(_bytes(raw))
    for i in range(16):  # where the message's own structure is
        data[i] ^= 0xFF
    _refuses(raw, bytes(data), "an executable whose first 16 bytes are inverted")


def _ahead(raw: Raw, topology: Any) -> Any:
    args = raw.call(
        "PJRT_Compile",
        topology=topology,
        program=program_of(raw),
        compile_options=raw.text(ONE_DEVICE),
        compile_options_size=len(ONE_DEVICE),
    )
    raw.own("PJRT_Executable_Destroy", executable=args.executable)
    return args.executable


@api_case("a program that was compiled for the topology is loaded and runs", "PJRT_Client_Load")
def programs_are_compiled_and_loaded_apart(raw: Raw) -> None:
    raw.need("PJRT_Client_Load", "PJRT_Compile", "PJRT_Client_TopologyDescription")
    topology = raw.call("PJRT_Client_TopologyDescription", client=raw.client).topology
    executable = _ahead(raw, topology)
    expect(text(raw.call("PJRT_Executable_Name", executable=executable), "executable_name"),
           expected="a name", came="an empty one")  # fmt: skip
    args = raw.call(
        "PJRT_Client_Load",
        client=raw.client,
        executable=executable,
        compile_options=raw.text(ONE_DEVICE),
        compile_options_size=len(ONE_DEVICE),
    )
    raw.own("PJRT_LoadedExecutable_Destroy", executable=args.loaded_executable)
    _expect_runs(raw, args.loaded_executable)

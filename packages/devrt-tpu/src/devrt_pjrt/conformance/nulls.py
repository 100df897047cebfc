"""Null pointers where the C API wants an object: each is an error, and none ends the process.

The C API does not say what becomes of them, and many libraries end the process. What a caller's
mistake costs is worth knowing all the same: each has a case and a child process of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import ApiCase
from devrt_pjrt.conformance.made import ONE_DEVICE, compiled, program_of, put
from devrt_pjrt.conformance.raw import Raw
from devrt_pjrt.conformance.topologies import topology

__all__ = ["MORE"]

Given = Callable[[Raw], dict[str, Any]]


def _nothing(raw: Raw) -> dict[str, Any]:
    return {}


def _with_client(raw: Raw) -> dict[str, Any]:
    return {"client": raw.client}


def _no_program(raw: Raw) -> dict[str, Any]:
    options = raw.text(ONE_DEVICE)
    size = len(ONE_DEVICE)
    return {"client": raw.client, "compile_options": options, "compile_options_size": size}


def _no_code(raw: Raw) -> dict[str, Any]:
    program = program_of(raw)
    program.code = ffi.NULL
    return {**_no_program(raw), "program": program}


def _no_options(raw: Raw) -> dict[str, Any]:
    return {"client": raw.client, "program": program_of(raw), "compile_options_size": 6}


def _no_data(raw: Raw) -> dict[str, Any]:
    return {
        "client": raw.client,
        "type": 11,
        "dims": raw.numbers((4,)),
        "num_dims": 1,
        "device": raw.device(),
    }


def _no_dims(raw: Raw) -> dict[str, Any]:
    return {**_no_data(raw), "data": raw.new("float[]", 4), "dims": ffi.NULL}


def _no_callback(raw: Raw) -> dict[str, Any]:
    return {"event": raw.call("PJRT_Buffer_ReadyEvent", buffer=put(raw)).event}


def _no_bytes(raw: Raw) -> dict[str, Any]:
    return {"client": raw.client, "serialized_executable_size": 16}


def _no_execute_options(raw: Raw) -> dict[str, Any]:
    row = raw.new("PJRT_Buffer *[]", [put(raw), put(raw)])
    out = raw.new("PJRT_Buffer *[]", [ffi.NULL])
    return {
        "executable": compiled(raw),
        "argument_lists": raw.new("PJRT_Buffer * const *[]", [row]),
        "num_devices": 1,
        "num_args": 2,
        "output_lists": raw.new("PJRT_Buffer **[]", [out]),
    }


def _no_argument(raw: Raw) -> dict[str, Any]:
    row = raw.new("PJRT_Buffer *[]", [put(raw), ffi.NULL])
    return {
        **_no_execute_options(raw),
        "options": raw.arguments("PJRT_ExecuteOptions"),
        "argument_lists": raw.new("PJRT_Buffer * const *[]", [row]),
    }


def _no_target(raw: Raw) -> dict[str, Any]:
    return {"buffer": put(raw)}


def _no_ahead_program(raw: Raw) -> dict[str, Any]:
    return {"topology": topology(raw)}


_ROWS: tuple[tuple[str, str, str, Given], ...] = (
    ("client", "PJRT_Client_PlatformName", "client", _nothing),
    ("client_of_a_put", "PJRT_Client_BufferFromHostBuffer", "client", _nothing),
    ("device", "PJRT_Device_GetDescription", "device", _nothing),
    ("description", "PJRT_DeviceDescription_Id", "device_description", _nothing),
    ("memory", "PJRT_Memory_Kind", "memory", _nothing),
    ("buffer", "PJRT_Buffer_Dimensions", "buffer", _nothing),
    ("buffer_to_read", "PJRT_Buffer_ToHostBuffer", "src", _nothing),
    ("buffer_to_delete", "PJRT_Buffer_Delete", "buffer", _nothing),
    ("event", "PJRT_Event_IsReady", "event", _nothing),
    ("event_to_await", "PJRT_Event_Await", "event", _nothing),
    ("callback", "PJRT_Event_OnReady", "callback", _no_callback),
    ("executable", "PJRT_Executable_Name", "executable", _nothing),
    ("loaded_executable", "PJRT_LoadedExecutable_Execute", "executable", _nothing),
    ("execute_options", "PJRT_LoadedExecutable_Execute", "options", _no_execute_options),
    ("argument", "PJRT_LoadedExecutable_Execute", "buffer among the arguments", _no_argument),
    ("topology", "PJRT_TopologyDescription_PlatformName", "topology", _nothing),
    ("program", "PJRT_Client_Compile", "program", _no_program),
    ("code", "PJRT_Client_Compile", "program.code", _no_code),
    ("compile_options", "PJRT_Client_Compile", "compile_options", _no_options),
    ("program_for_a_topology", "PJRT_Compile", "program", _no_ahead_program),
    ("data", "PJRT_Client_BufferFromHostBuffer", "data", _no_data),
    ("dims", "PJRT_Client_BufferFromHostBuffer", "dims", _no_dims),
    ("serialized_executable", "PJRT_Executable_DeserializeAndLoad", "serialized_executable",
     _no_bytes),
    ("transfer_shapes", "PJRT_Client_CreateBuffersForAsyncHostToDevice", "memory", _with_client),
    ("device_of_a_copy", "PJRT_Buffer_CopyToDevice", "dst_device", _no_target),
)  # fmt: skip


def _null_case(name: str, function: str, field: str, given: Given) -> ApiCase:
    def check(raw: Raw) -> None:
        raw.need(function)
        raw.refused(function, f"a null {field}", **given(raw))

    check.__name__ = f"null_{name}_is_refused"
    title = f"a null {field} is an error of {function}"
    return ApiCase(check, title, "not in the C API: robustness", 30.0, True)


MORE = tuple(_null_case(*row) for row in _ROWS)

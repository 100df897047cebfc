"""Memory of the caller's as a buffer, and buffers without values."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import F32, FLOATS, expect_floats, put
from devrt_pjrt.conformance.raw import Raw

__all__: list[str] = []

_ALIGNMENT = 64
_kept: list[Any] = []  # a late call must find its callback


@api_case("memory that is lent is a buffer, and is given back once, when that is gone",
          "PJRT_Client_CreateViewOfDeviceBuffer")  # fmt: skip
def views_are_given_back_once(raw: Raw) -> None:
    if not raw.call("PJRT_Buffer_IsOnCpu", buffer=put(raw)).is_on_cpu:
        raise NotApplicable("the device has memory of its own, which the kit cannot lend it")
    memory = raw.new("char[]", 16 + _ALIGNMENT)
    start = int(ffi.cast("uintptr_t", memory))
    floats = ffi.cast("float *", start + -start % _ALIGNMENT)
    for i, value in enumerate(FLOATS):
        floats[i] = value
    calls: list[Any] = []

    @ffi.callback("void(void *, void *)")  # type: ignore[untyped-decorator]
    def gone(pointer: Any, _: Any) -> None:
        calls.append(pointer)

    _kept.append(gone)
    args = raw.call(
        "PJRT_Client_CreateViewOfDeviceBuffer",
        client=raw.client,
        device_buffer_ptr=floats,
        dims=raw.numbers((4,)),
        num_dims=1,
        element_type=F32,
        device=raw.device(),
        on_delete_callback=gone,
    )
    expect_floats(raw, args.buffer, FLOATS, "a view")
    expect(not calls, expected="memory that is lent still", came="on_delete_callback was called")
    raw.call("PJRT_Buffer_Destroy", buffer=args.buffer)
    expect(len(calls) == 1, expected="on_delete_callback called once", came=f"{len(calls)} times")
    expect(calls[0] == floats, expected="the pointer that was lent", came="another one")


@api_case("a buffer can be made without values", "PJRT_Client_CreateUninitializedBuffer")
def buffers_are_made_without_values(raw: Raw) -> None:
    memory = raw.call("PJRT_Device_DefaultMemory", device=raw.device()).memory
    args = raw.call(
        "PJRT_Client_CreateUninitializedBuffer",
        client=raw.client,
        shape_dims=raw.numbers((2, 3)),
        shape_num_dims=2,
        shape_element_type=F32,
        memory=memory,
    )
    raw.own("PJRT_Buffer_Destroy", buffer=args.buffer)
    found = raw.call("PJRT_Buffer_Dimensions", buffer=args.buffer)
    dims = tuple(found.dims[0 : found.num_dims])
    expect(dims == (2, 3), expected="dims (2, 3)", came=dims)

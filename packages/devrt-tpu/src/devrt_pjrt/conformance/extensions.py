"""What extensions do: layouts, memories of described devices, custom calls, streams."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import F32, compiled, executable_of, put, text
from devrt_pjrt.conformance.raw import Answer, Raw
from devrt_pjrt.conformance.topologies import ahead, topology

__all__: list[str] = []

_LAYOUTS, _FFI, _MEMORIES, _STREAM = 4, 5, 6, 3
_LAYOUT = "PJRT_Layouts_MemoryLayout_"


def extension_call(
    raw: Raw, number: int, structure: str, function: str, arguments: str, **fields: Any
) -> tuple[Any, Answer | None]:
    """Call an extension's function; without it the case is not applicable."""
    found = raw.api.extension(number, structure, function)
    name = structure.removesuffix("_Extension")
    if found is None:
        raise NotApplicable(f"the library has no {function} of extension {name}")
    raw.start()
    raw.calling(f"{name}.{function}")
    args = raw.arguments(arguments, **fields)
    return args, raw.take(found(args))


def _layouts(raw: Raw, function: str, **fields: Any) -> Any:
    args, answer = extension_call(
        raw, _LAYOUTS, "PJRT_Layouts_Extension", function, f"{function}_Args", **fields
    )
    raw.succeeded(function, answer)
    return args


def _as_text(raw: Raw, layout: Any) -> str:
    """Return a layout as text."""
    expect(layout != ffi.NULL, expected="a layout", came="a null pointer")
    args = _layouts(raw, _LAYOUT + "Serialize", layout=layout)
    found = text(args, "serialized_bytes")
    expect(args.serialized_layout_deleter, expected="a deleter", came="a null pointer")
    args.serialized_layout_deleter(args.serialized_layout)
    return found


def _ended(raw: Raw, layout: Any) -> None:
    _layouts(raw, _LAYOUT + "Destroy", layout=layout)


def _default(raw: Raw, owner: str, **fields: Any) -> str:
    function = f"PJRT_Layouts_PJRT_{owner}_GetDefaultLayout"
    args = _layouts(raw, function, type=F32, dims=raw.numbers((2, 3)), num_dims=2, **fields)
    found = _as_text(raw, args.layout)
    _ended(raw, args.layout)
    return found


@api_case("a buffer has the client's default layout, as text", "PJRT_Layouts_Extension")
def buffers_have_the_default_layout(raw: Raw) -> None:
    buffer = put(raw, raw.new("float[]", 6), dims=(2, 3))
    args = _layouts(raw, "PJRT_Layouts_PJRT_Buffer_MemoryLayout", buffer=buffer)
    came = _as_text(raw, args.layout)
    _ended(raw, args.layout)
    expected = _default(raw, "Client", client=raw.client)
    expect(came.startswith("{"), expected="a layout such as {1,0}", came=came)
    expect(came == expected, expected=expected, came=came)


@api_case("a topology has a default layout", "PJRT_Layouts_Extension")
def topologies_have_a_default_layout(raw: Raw) -> None:
    came = _default(raw, "Topology", topology_description=topology(raw))
    expect(came.startswith("{"), expected="a layout such as {1,0}", came=came)


def _executable(raw: Raw) -> Any:
    try:
        return executable_of(raw, compiled(raw))
    except NotApplicable:
        return ahead(raw)


@api_case("parameters and results of a program have layouts", "PJRT_Layouts_Extension")
def programs_have_layouts(raw: Raw) -> None:
    executable = _executable(raw)
    for which, field, count in (
        ("Parameter", "num_parameters", 2),
        ("Output", "num_outputs", 1),
    ):
        function = f"PJRT_Layouts_PJRT_Executable_Get{which}Layouts"
        args = _layouts(raw, function, executable=executable)
        number = int(getattr(args, field))
        expect(number == count, expected=f"{count} layouts of {function}", came=str(number))
        texts = [_as_text(raw, args.layouts[i]) for i in range(number)]
        expect(
            all(one.startswith("{0") for one in texts), expected="layouts such as {0}", came=texts
        )


@api_case("a described device has memories, one of them by default",
          "PJRT_MemoryDescriptions_Extension")  # fmt: skip
def described_devices_have_memories(raw: Raw) -> None:
    args = raw.call("PJRT_TopologyDescription_GetDeviceDescriptions", topology=topology(raw))
    structure = "PJRT_MemoryDescriptions_Extension"
    function = "PJRT_DeviceDescription_MemoryDescriptions"
    found, answer = extension_call(
        raw,
        _MEMORIES,
        structure,
        function,
        f"{function}_Args",
        device_description=args.descriptions[0],
    )
    raw.succeeded(function, answer)
    count = int(found.num_memory_descriptions)
    if not count:
        raise NotApplicable("the library describes no memories")
    is_right = int(found.default_memory_index) < count
    expect(is_right, expected=f"an index below {count}", came=found.default_memory_index)
    for i in range(count):
        kind, answer = extension_call(
            raw,
            _MEMORIES,
            structure,
            "PJRT_MemoryDescription_Kind",
            "PJRT_MemoryDescription_Kind_Args",
            memory_description=found.memory_descriptions[i],
        )
        raw.succeeded("PJRT_MemoryDescription_Kind", answer)
        expect(text(kind, "kind"), expected="a kind", came="an empty one")


@api_case("types of custom calls are registered", "PJRT_FFI_Extension")
def types_of_custom_calls_are_registered(raw: Raw) -> None:
    name = b"devrt_conform_type"
    info = raw.new("PJRT_FFI_Type_Info *")
    args, answer = extension_call(
        raw,
        _FFI,
        "PJRT_FFI_Extension",
        "type_register",
        "PJRT_FFI_Type_Register_Args",
        type_name=raw.text(name),
        type_name_size=len(name),
        type_info=info,
    )
    raw.succeeded("PJRT_FFI_Extension.type_register", answer)
    expect(args.type_id != 0, expected="a number of the type", came="0")

"""Topologies: devices that need not be there, and compiling for them."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import TOPOLOGY, api_case
from devrt_pjrt.conformance.devices import check_descriptions
from devrt_pjrt.conformance.made import ONE_DEVICE, program_of, text, written
from devrt_pjrt.conformance.raw import Answer, Raw
from devrt_pjrt.conformance.serialized import bytes_of
from devrt_pjrt.conformance.table import check_values
from devrt_pjrt.library.values import NamedValues, read_values

__all__ = ["topology"]

_NAME = "PJRT_TopologyDescription_"


def topology(raw: Raw) -> Any:
    """Return a topology: that of the client, else the one that the kit's caller names."""
    reasons = []
    for find in (_of_client, _named):
        try:
            return find(raw)
        except NotApplicable as reason:
            reasons.append(str(reason))
    raise NotApplicable("no topology: " + "; ".join(reasons))


def _of_client(raw: Raw) -> Any:
    found = raw.call("PJRT_Client_TopologyDescription", client=raw.client).topology
    expect(found != ffi.NULL, expected="a topology", came="a null pointer")
    return found


def _named(raw: Raw) -> Any:
    found, answer = created(raw, *(raw.named_topology or ("", {})))
    if answer is not None and raw.named_topology is None:
        raise NotApplicable(f"none without a name (set {TOPOLOGY}): {answer}")
    raw.succeeded(_NAME + "Create", answer)
    return found


def created(raw: Raw, name: str, options: Any) -> tuple[Any, Answer | None]:
    """Make a topology by its name, destroyed when the case ends."""
    data = name.encode()
    values = raw.keep(NamedValues(options))
    args, answer = raw.attempt(
        _NAME + "Create",
        topology_name=raw.text(data) if data else ffi.NULL,
        topology_name_size=len(data),
        create_options=values.array,
        num_options=values.count,
    )
    if answer is None:
        raw.own(_NAME + "Destroy", topology=args.topology)
    return args.topology, answer


def _descriptions(raw: Raw, found: Any) -> list[Any]:
    args = raw.call(_NAME + "GetDeviceDescriptions", topology=found)
    return [args.descriptions[i] for i in range(args.num_descriptions)]


def _ids(raw: Raw, found: Any) -> list[int]:
    return [
        int(raw.call("PJRT_DeviceDescription_Id", device_description=one).id)
        for one in _descriptions(raw, found)
    ]


@api_case("the client's topology describes its devices", "PJRT_Client_TopologyDescription")
def client_topology_has_its_devices(raw: Raw) -> None:
    from devrt_pjrt.conformance.clients import all_devices, id_of

    found = _ids(raw, _of_client(raw))
    own = [id_of(raw, device) for device in all_devices(raw)]
    expect(sorted(found) == sorted(own), expected=f"ids {sorted(own)}", came=sorted(found))


@api_case("a topology is made without a device", _NAME + "Create", alone=True)
def topologies_are_made_without_a_device(raw: Raw) -> None:
    found = _named(raw)
    expect(_ids(raw, found), expected="descriptions of devices", came="none")


@api_case("a topology that nobody knows is an error, or one of this machine", _NAME + "Create",
          alone=True)  # fmt: skip
def strange_topologies_are_survived(raw: Raw) -> None:
    found, answer = created(raw, "no such topology", {})
    if answer is None:
        _ids(raw, found)


@api_case("a topology has a platform", _NAME + "PlatformName")
def topologies_have_a_platform(raw: Raw) -> None:
    found = topology(raw)
    for function, field in (
        ("PlatformName", "platform_name"),
        ("PlatformVersion", "platform_version"),
    ):
        came = text(raw.call(_NAME + function, topology=found), field)
        expect(came.strip(), expected=f"a text of {_NAME}{function}", came=repr(came))


@api_case("devices that are described have ids, kinds and attributes",
          _NAME + "GetDeviceDescriptions")  # fmt: skip
def described_devices_are_well_formed(raw: Raw) -> None:
    found = topology(raw)
    ids = _ids(raw, found)
    is_right = ids and min(ids) >= 0 and len(set(ids)) == len(ids)
    expect(is_right, expected="ids from 0 on, each once", came=ids[:50])
    few = _descriptions(raw, found)[:8]
    check_descriptions(raw, few)
    for one in few:
        args = raw.call("PJRT_DeviceDescription_Attributes", device_description=one)
        check_values(args.attributes, args.num_attributes, "a described device")


@api_case("attributes of a topology have names, types and stay as they are", _NAME + "Attributes")
def topologies_have_attributes(raw: Raw) -> None:
    found, seen = topology(raw), []
    for _ in range(2):
        args = raw.call(_NAME + "Attributes", topology=found)
        check_values(args.attributes, args.num_attributes, "a topology")
        seen.append(read_values(args.attributes, args.num_attributes))
    expect(seen[0] == seen[1], expected=f"{seen[0]} again", came=seen[1])


@api_case("a topology has one fingerprint", _NAME + "Fingerprint")
def topologies_have_a_fingerprint(raw: Raw) -> None:
    found = topology(raw)
    first, second = (
        int(raw.call(_NAME + "Fingerprint", topology=found).fingerprint) for _ in range(2)
    )
    expect(first == second, expected=f"{first:#x} again", came=f"{second:#x}")


def _written(raw: Raw, found: Any) -> bytes:
    args = raw.call(_NAME + "Serialize", topology=found)
    return written(args, "topology")


def _read(raw: Raw, data: bytes) -> tuple[Any, Answer | None]:
    args, answer = raw.attempt(
        _NAME + "Deserialize",
        serialized_topology=raw.text(data),
        serialized_topology_size=len(data),
    )
    if answer is None:
        raw.own(_NAME + "Destroy", topology=args.topology)
    return args.topology, answer


@api_case("a topology that was written is read as the same", _NAME + "Deserialize")
def topologies_are_written_and_read(raw: Raw) -> None:
    found = topology(raw)
    data = _written(raw, found)
    again, answer = _read(raw, data)
    raw.succeeded(_NAME + "Deserialize", answer)
    first, second = _ids(raw, found), _ids(raw, again)
    expect(first == second, expected=f"ids {first[:50]}", came=second[:50])


@api_case("bytes that are no topology are an error", _NAME + "Deserialize", alone=True)
def strange_bytes_are_no_topology(raw: Raw) -> None:
    _, answer = _read(raw, b"these bytes are no topology of any library")
    raw.is_refused(_NAME + "Deserialize", "bytes that are none", answer)


def ahead(raw: Raw, code: str | None = None) -> Any:
    """Compile a program for the topology, without a client; destroyed when the case ends."""
    found = topology(raw)
    args = raw.call(
        "PJRT_Compile",
        topology=found,
        program=program_of(raw) if code is None else program_of(raw, code),
        compile_options=raw.text(ONE_DEVICE),
        compile_options_size=len(ONE_DEVICE),
    )
    if args.executable == ffi.NULL:
        raise Failure("PJRT_Compile gives an executable", "a null pointer")
    raw.own("PJRT_Executable_Destroy", executable=args.executable)
    return args.executable


@api_case("a program is compiled for a topology without a client", "PJRT_Compile", deadline=90)
def programs_are_compiled_for_a_topology(raw: Raw) -> None:
    executable = ahead(raw)
    count = int(raw.call("PJRT_Executable_NumOutputs", executable=executable).num_outputs)
    expect(count == 1, expected="1 result", came=str(count))
    bytes_of(raw, executable)


@api_case("a program that is none is an error for a topology too", "PJRT_Compile", alone=True)
def invalid_programs_are_refused_for_a_topology(raw: Raw) -> None:
    raw.refused(
        "PJRT_Compile",
        "a program that is none",
        topology=topology(raw),
        program=program_of(raw, "this is no program"),
        compile_options=raw.text(ONE_DEVICE),
        compile_options_size=len(ONE_DEVICE),
    )


@api_case("a topology knows its kinds of memory", _NAME + "GetMemorySpaceKindIds")
def topologies_know_their_memories(raw: Raw) -> None:
    found = topology(raw)
    args = raw.call(_NAME + "GetMemorySpaceKindIds", topology=found)
    ids = list(args.memory_space_kind_ids[0 : args.num_memory_space_kind_ids])
    expect(ids and len(set(ids)) == len(ids), expected="numbers of kinds, each once", came=ids)
    function = _NAME + "MakeCanonicalShapeForMemorySpace"
    shape = raw.call(
        function,
        topology=found,
        memory_space_kind_id=ids[0],
        dims=raw.numbers((2, 3)),
        num_dims=2,
        element_type=11,
    )
    expect(shape.serialized_shape_size, expected="a ShapeProto", came="no bytes")
    if shape.serialized_shape_deleter:
        shape.serialized_shape_deleter(shape.serialized_shape)

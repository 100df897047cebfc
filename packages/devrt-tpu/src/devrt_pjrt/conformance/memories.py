"""Memories: their devices, kinds and ids."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import expect
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import text
from devrt_pjrt.conformance.raw import Raw

__all__: list[str] = []


def memories_of(raw: Raw, device: Any) -> list[Any]:
    """Return the memories that a device can address."""
    args = raw.call("PJRT_Device_AddressableMemories", device=device)
    return [args.memories[i] for i in range(args.num_memories)]


def kind_of(raw: Raw, memory: Any) -> str:
    """Return a memory's kind."""
    return text(raw.call("PJRT_Memory_Kind", memory=memory), "kind")


def _everywhere(raw: Raw) -> list[Any]:
    args = raw.call("PJRT_Client_AddressableMemories", client=raw.client)
    return [args.addressable_memories[i] for i in range(args.num_addressable_memories)]


@api_case("a device's memories are the client's, and its default is one of them",
          "PJRT_Device_DefaultMemory")  # fmt: skip
def default_memory_is_among_the_devices(raw: Raw) -> None:
    everywhere = _everywhere(raw)
    for device in raw.devices():
        near = memories_of(raw, device)
        expect(near, expected="a memory of each device", came="none")
        default = raw.call("PJRT_Device_DefaultMemory", device=device).memory
        expect(default in near, expected="the default memory among them", came="another pointer")
        strange = [memory for memory in near if memory not in everywhere]
        expect(not strange, expected="them among the client's", came=f"{len(strange)} are not")


@api_case("a memory knows the devices that can address it", "PJRT_Memory_AddressableByDevices")
def memories_know_their_devices(raw: Raw) -> None:
    for device in raw.devices():
        for memory in memories_of(raw, device):
            args = raw.call("PJRT_Memory_AddressableByDevices", memory=memory)
            found = [args.devices[i] for i in range(args.num_devices)]
            expect(device in found, expected=f"the device of {kind_of(raw, memory)!r} among those "
                   "that address it", came=f"{len(found)} others")  # fmt: skip


@api_case("ids of memories are unique", "PJRT_Memory_Id")
def memory_ids_are_unique(raw: Raw) -> None:
    ids = [int(raw.call("PJRT_Memory_Id", memory=memory).id) for memory in _everywhere(raw)]
    expect(len(set(ids)) == len(ids), expected="each id once", came=ids)


@api_case("a memory has a kind and names for people", "PJRT_Memory_Kind")
def memories_have_names(raw: Raw) -> None:
    for memory in _everywhere(raw):
        expect(kind_of(raw, memory), expected="a kind", came="an empty one")
        for function, field in (
            ("PJRT_Memory_ToString", "to_string"),
            ("PJRT_Memory_DebugString", "debug_string"),
        ):
            if raw.has(function):
                found = text(raw.call(function, memory=memory), field)
                expect(found.strip(), expected=f"a text of {function}", came=repr(found))


@api_case("memories of one kind have one number of it", "PJRT_Memory_Kind_Id")
def kinds_have_one_number(raw: Raw) -> None:
    pairs = {
        (kind_of(raw, memory), int(raw.call("PJRT_Memory_Kind_Id", memory=memory).kind_id))
        for memory in _everywhere(raw)
    }
    kinds = {kind for kind, _ in pairs}
    numbers = {number for _, number in pairs}
    expect(len(kinds) == len(pairs) == len(numbers), expected="one kind_id for each kind",
           came=sorted(pairs))  # fmt: skip

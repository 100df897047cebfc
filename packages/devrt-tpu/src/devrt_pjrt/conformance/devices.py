"""Devices and their descriptions."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import Failure, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.clients import all_devices, id_of
from devrt_pjrt.conformance.made import text
from devrt_pjrt.conformance.raw import Raw
from devrt_pjrt.conformance.table import check_values
from devrt_pjrt.library.values import read_values

__all__: list[str] = []


def described(raw: Raw) -> list[Any]:
    """Return the description of each device."""
    found = []
    for device in all_devices(raw):
        args = raw.call("PJRT_Device_GetDescription", device=device)
        expect(args.device_description != ffi.NULL, expected="a description", came="null")
        found.append(args.device_description)
    return found


@api_case("ids are unique and not negative", "PJRT_DeviceDescription_Id")
def device_ids_are_unique(raw: Raw) -> None:
    ids = [id_of(raw, device) for device in all_devices(raw)]
    is_right = min(ids) >= 0 and len(set(ids)) == len(ids)
    expect(is_right, expected="ids from 0 on, each once", came=ids)


@api_case("a device is of a kind, and has names for people", "PJRT_DeviceDescription_Kind")
def devices_have_names(raw: Raw) -> None:
    check_descriptions(raw, described(raw))


def check_descriptions(raw: Raw, descriptions: list[Any]) -> None:
    """Fail the case unless each description has a kind, two texts and attributes."""
    for one in descriptions:
        for function, field in (
            ("PJRT_DeviceDescription_Kind", "device_kind"),
            ("PJRT_DeviceDescription_DebugString", "debug_string"),
            ("PJRT_DeviceDescription_ToString", "to_string"),
        ):
            found = text(raw.call(function, device_description=one), field)
            expect(found.strip(), expected=f"a text of {function}", came=repr(found))


@api_case("a device belongs to its client's process", "PJRT_DeviceDescription_ProcessIndex")
def devices_belong_to_a_process(raw: Raw) -> None:
    own = int(raw.call("PJRT_Client_ProcessIndex", client=raw.client).process_index)
    near = raw.devices()
    for device in all_devices(raw):
        one = raw.call("PJRT_Device_GetDescription", device=device).device_description
        args = raw.call("PJRT_DeviceDescription_ProcessIndex", device_description=one)
        is_own = int(args.process_index) == own
        expect(is_own == (device in near), expected=f"process {own} for addressable devices only",
               came=f"process {args.process_index}")  # fmt: skip


@api_case("attributes of a description have names, types and stay as they are",
          "PJRT_DeviceDescription_Attributes")  # fmt: skip
def descriptions_have_attributes(raw: Raw) -> None:
    for one in described(raw):
        args = raw.call("PJRT_DeviceDescription_Attributes", device_description=one)
        check_values(args.attributes, args.num_attributes, "a device")
        first = read_values(args.attributes, args.num_attributes)
        again = raw.call("PJRT_DeviceDescription_Attributes", device_description=one)
        second = read_values(again.attributes, again.num_attributes)
        expect(first == second, expected=f"{first} again", came=second)


@api_case("coordinates are lists of numbers", "PJRT_DeviceDescription_Attributes")
def coordinates_are_numbers(raw: Raw) -> None:
    from devrt.testing.conformance import NotApplicable

    found = []
    for one in described(raw):
        args = raw.call("PJRT_DeviceDescription_Attributes", device_description=one)
        found.append(read_values(args.attributes, args.num_attributes).get("coords"))
    if not any(found):
        raise NotApplicable("no device has an attribute coords")
    is_right = all(isinstance(coords, tuple) for coords in found)
    expect(is_right, expected="coords of each device", came=found)


@api_case("attributes of a device are given back by their deleter", "PJRT_Device_GetAttributes")
def devices_have_attributes(raw: Raw) -> None:
    raw.need("PJRT_Device_GetAttributes")
    for device in raw.devices():
        args = raw.call("PJRT_Device_GetAttributes", device=device)
        check_values(args.attributes, args.num_attributes, "a device")
        if args.device_attributes != ffi.NULL:
            expect(args.attributes_deleter, expected="an attributes_deleter", came="null")
            args.attributes_deleter(args.device_attributes)


@api_case("figures of a device's memory fit each other", "PJRT_Device_MemoryStats")
def memory_figures_fit(raw: Raw) -> None:
    for device in raw.devices():
        args = raw.call("PJRT_Device_MemoryStats", device=device)
        used = int(args.bytes_in_use)
        expect(used >= 0, expected="bytes_in_use from 0 on", came=used)
        for name in ("peak_bytes_in_use", "bytes_limit", "bytes_reserved", "largest_alloc_size"):
            if getattr(args, f"{name}_is_set"):
                value = int(getattr(args, name))
                expect(value >= 0, expected=f"{name} from 0 on", came=value)
        for name in ("peak_bytes_in_use", "bytes_limit"):
            value = int(getattr(args, name))
            if getattr(args, f"{name}_is_set") and value < used:
                raise Failure(f"{name} of at least bytes_in_use, {used}", str(value))


@api_case("figures of a device's memory can be cleared", "PJRT_Device_ClearMemoryStats")
def memory_figures_are_cleared(raw: Raw) -> None:
    raw.call("PJRT_Device_ClearMemoryStats", device=raw.device())


@api_case("a tracking event of a device is made and ended", "PJRT_Device_CreateAsyncTrackingEvent")
def tracking_events_are_made(raw: Raw) -> None:
    raw.need("PJRT_AsyncTrackingEvent_Destroy")
    args = raw.call(
        "PJRT_Device_CreateAsyncTrackingEvent",
        device=raw.device(),
        description=raw.text(b"conform"),
        description_size=7,
    )
    raw.call("PJRT_AsyncTrackingEvent_Destroy", event=args.event)

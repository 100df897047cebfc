"""Clients: making them, what they say of themselves, and looking up devices."""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import expect_floats, put, text
from devrt_pjrt.conformance.raw import UNIMPLEMENTED, Raw

__all__: list[str] = []

_PAGE = 4096


@api_case("a client can be made", "PJRT_Client_Create", deadline=90)
def client_is_made(raw: Raw) -> None:
    client, answer = raw.create()
    if answer is not None:
        raise Failure("a client of this machine's devices", f"{answer}")
    expect(client != ffi.NULL, expected="a client", came="a null pointer")
    raw.call("PJRT_Client_Destroy", client=client)


@api_case("several clients live side by side, and end apart", "PJRT_Client_Destroy", deadline=90)
def clients_end_apart(raw: Raw) -> None:
    own = raw.client
    client, answer = raw.create()
    if answer is not None:
        raise NotApplicable(f"a process can have one client: {answer}")
    expect(client != own, expected="another client", came="the same one")
    raw.call("PJRT_Client_Destroy", client=client)
    expect_floats(raw, put(raw), (1.0, 2.0, 3.0, 4.0), "a buffer of the first client")


@api_case("the platform has a name and a version", "PJRT_Client_PlatformName")
def client_has_a_platform(raw: Raw) -> None:
    for function, field in (
        ("PJRT_Client_PlatformName", "platform_name"),
        ("PJRT_Client_PlatformVersion", "platform_version"),
    ):
        found = text(raw.call(function, client=raw.client), field)
        expect(found.strip(), expected=f"a text of {function}", came=repr(found))
        again = text(raw.call(function, client=raw.client), field)
        expect(found == again, expected=f"{found!r} again", came=repr(again))


@api_case("a client alone is process 0", "PJRT_Client_ProcessIndex")
def client_is_process_0(raw: Raw) -> None:
    index = int(raw.call("PJRT_Client_ProcessIndex", client=raw.client).process_index)
    expect(index == 0, expected="process_index 0", came=str(index))


def all_devices(raw: Raw) -> list[Any]:
    """Return every device of the client, of other processes too."""
    args = raw.call("PJRT_Client_Devices", client=raw.client)
    return [args.devices[i] for i in range(args.num_devices)]


def id_of(raw: Raw, device: Any) -> int:
    """Return a device's id."""
    described = raw.call("PJRT_Device_GetDescription", device=device).device_description
    return int(raw.call("PJRT_DeviceDescription_Id", device_description=described).id)


@api_case("addressable devices are among all devices", "PJRT_Client_AddressableDevices")
def addressable_devices_are_among_all(raw: Raw) -> None:
    everyone, near = all_devices(raw), raw.devices()
    expect(near, expected="at least one addressable device", came="none")
    expect(len(set(everyone)) == len(everyone), expected="each device once", came="one twice")
    missing = [d for d in near if d not in everyone]
    expect(not missing, expected="them among all devices", came=f"{len(missing)} are not")
    for device in everyone:
        came = bool(raw.call("PJRT_Device_IsAddressable", device=device).is_addressable)
        expect(came == (device in near), expected=f"is_addressable {device in near}", came=came)


@api_case("a device is found by its id", "PJRT_Client_LookupDevice")
def devices_are_found_by_id(raw: Raw) -> None:
    for device in all_devices(raw):
        number = id_of(raw, device)
        found = raw.call("PJRT_Client_LookupDevice", client=raw.client, id=number).device
        expect(found == device, expected=f"the device of id {number}", came="another pointer")


@api_case("an addressable device is found by its number in the machine",
          "PJRT_Client_LookupAddressableDevice")  # fmt: skip
def devices_are_found_by_local_number(raw: Raw) -> None:
    for device in raw.devices():
        number = int(raw.call("PJRT_Device_LocalHardwareId", device=device).local_hardware_id)
        if number < 0:
            raise NotApplicable("a device has no number in the machine (-1)")
        function = "PJRT_Client_LookupAddressableDevice"
        args = raw.call(function, client=raw.client, local_hardware_id=number)
        expect(args.addressable_device == device, expected=f"the device of local id {number}",
               came="another pointer")  # fmt: skip


def _refuses_id(raw: Raw, function: str, field: str, number: int) -> None:
    raw.refused(function, f"{field} {number}", client=raw.client, **{field: number})


@api_case("an id that no device has is an error", "PJRT_Client_LookupDevice", alone=True)
def unknown_ids_are_refused(raw: Raw) -> None:
    used = {id_of(raw, device) for device in all_devices(raw)}
    for number in (-1, max(used) + 1, 2**31 - 1):
        _refuses_id(raw, "PJRT_Client_LookupDevice", "id", number)


@api_case("a local number that no device has is an error",
          "PJRT_Client_LookupAddressableDevice", alone=True)  # fmt: skip
def unknown_local_numbers_are_refused(raw: Raw) -> None:
    for number in (-7, 1 << 20):
        _refuses_id(raw, "PJRT_Client_LookupAddressableDevice", "local_hardware_id", number)


@api_case("the default assignment gives each partition a device of its own",
          "PJRT_Client_DefaultDeviceAssignment")  # fmt: skip
def default_assignment_is_of_devices(raw: Raw) -> None:
    ids = {id_of(raw, device) for device in all_devices(raw)}
    for replicas, partitions in ((1, 1), (len(ids), 1), (1, len(ids))):
        space = raw.new("int[]", [-5] * (replicas * partitions))
        raw.call(
            "PJRT_Client_DefaultDeviceAssignment",
            client=raw.client,
            num_replicas=replicas,
            num_partitions=partitions,
            default_assignment_size=len(space),
            default_assignment=space,
        )
        came = list(space)
        is_right = set(came) <= ids and len(set(came)) == len(came)
        expect(is_right, expected=f"{len(space)} ids of {sorted(ids)}", came=came)


@api_case("an assignment that does not fit is an error",
          "PJRT_Client_DefaultDeviceAssignment", alone=True)  # fmt: skip
def small_assignments_are_refused(raw: Raw) -> None:
    space = raw.new("int[]", [-5] * 8)
    raw.refused(
        "PJRT_Client_DefaultDeviceAssignment",
        "4 replicas of 2 partitions and memory for 7 ids",
        client=raw.client,
        num_replicas=4,
        num_partitions=2,
        default_assignment_size=7,
        default_assignment=space,
    )
    expect(list(space) == [-5] * 8, expected="memory that stays as it is", came=list(space))


@api_case("memory of the host can be mapped for transfers, and unmapped", "PJRT_Client_DmaMap")
def host_memory_is_mapped(raw: Raw) -> None:
    raw.need("PJRT_Client_DmaMap", "PJRT_Client_DmaUnmap")
    memory = raw.new("char[]", 3 * _PAGE)
    start = int(ffi.cast("uintptr_t", memory))
    page = ffi.cast("void *", start + -start % _PAGE)
    raw.call("PJRT_Client_DmaMap", client=raw.client, data=page, size=_PAGE)
    raw.call("PJRT_Client_DmaUnmap", client=raw.client, data=page)


@api_case("a client without a cluster takes that it has none, or says so",
          "PJRT_Client_UpdateGlobalProcessInfo")  # fmt: skip
def process_info_is_taken(raw: Raw) -> None:
    function = "PJRT_Client_UpdateGlobalProcessInfo"
    _, answer = raw.attempt(function, client=raw.client, num_process_infos=0)
    if answer is not None and answer.code == UNIMPLEMENTED:
        raw.succeeded(function, answer)

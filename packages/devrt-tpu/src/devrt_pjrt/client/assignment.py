"""The devices that a plugin gives a program for which none are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devrt.errors import InvalidArgumentError
from devrt_pjrt._native import ffi
from devrt_pjrt.library.checks import number_of

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt_pjrt.connection.connection import Connection

__all__ = ["default_assignment"]

_OPERATION = "get_default_device_assignment"


def default_assignment(
    connection: Connection, num_replicas: int, num_partitions: int
) -> list[list[Device]]:
    """Return devices by replica and by partition; see `PjrtClient.get_default_device_assignment`.

    Raises
    ------
    InvalidArgumentError
        If there are fewer devices, or a number is below one.
    """
    replicas = number_of(num_replicas, "num_replicas", _OPERATION)
    width = number_of(num_partitions, "num_partitions", _OPERATION)
    devices = {device.id: device for device in connection.inventory.devices}
    if replicas < 1 or width < 1 or replicas * width > len(devices):  # not every plugin looks
        msg = (
            f"{replicas} x {width} devices cannot be assigned: {connection.client!r} has "
            f"{len(devices)}. Ask for one to {len(devices)}."
        )
        raise InvalidArgumentError(msg, operation=_OPERATION)
    ids = ffi.new("int[]", replicas * width)
    with connection.using(_OPERATION):
        connection.api.call(
            "PJRT_Client_DefaultDeviceAssignment",
            client=connection.pointer,
            num_replicas=replicas,
            num_partitions=width,
            default_assignment_size=len(ids),
            default_assignment=ids,
        )
    found = [devices[number] for number in ids]
    return [list(found[at : at + width]) for at in range(0, len(found), width)]

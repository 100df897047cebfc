"""What a client consists of: its devices and memories, and what its plugin says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.contract import Device
from devrt.errors import InternalError, InvalidArgumentError
from devrt_pjrt._native import ffi
from devrt_pjrt.client.device import PjrtDevice, PjrtMemory
from devrt_pjrt.client.lifetime import Lifetime
from devrt_pjrt.client.place import Place
from devrt_pjrt.library.api import text_of

if TYPE_CHECKING:
    from devrt_pjrt.client.store import Store
    from devrt_pjrt.library.library import Library

__all__ = ["Inventory"]

_TARGETS = (PjrtDevice, PjrtMemory, type(None))


class Inventory(Lifetime):
    """The devices and memories of a client, read once.

    Parameters
    ----------
    library
        The plugin.
    platform, pointer, store
        As for `Lifetime`.
    """

    def __init__(
        self, library: Library, platform: str, pointer: Any, store: Store | None = None
    ) -> None:
        self._library = library
        super().__init__(library.api, platform, pointer, store)
        self._places: dict[Any, Place] = {}

    def _read(self) -> None:
        owner: Any = self  # the whole client
        # Rows point into the survey, which must live as long as they are looked at.
        self._survey = survey = self._api.survey(self._pointer)
        about = survey.about
        self.plugin_platform = text_of(about.kind, about.kind_size)
        self._process = int(about.process_index)
        rows = survey.memories[0 : survey.num_memories]
        self._memories = [PjrtMemory(owner, row) for row in rows]
        rows = survey.devices[0 : survey.num_devices]
        made = [PjrtDevice(owner, row) for row in rows]
        self._by_address = {_address(device._pointer): device for device in made}
        self._devices = sorted(made, key=lambda device: device.id)
        self._local = [device for device in self._devices if device.is_addressable]
        if not self._local:
            msg = f"the PJRT plugin {self._library.label} made a client without a device."
            raise InternalError(msg, plugin=self._library.name)

    @property
    def platform(self) -> str:
        """The platform, as users name it."""
        return self._platform

    @property
    def platform_version(self) -> str:
        """The C API's version and what the plugin says of its own."""
        about = self._survey.about
        said = text_of(about.text, about.text_size).strip()
        return f"PJRT C API {self._api.major}.{self._api.minor}\n{said}"

    @property
    def runtime_type(self) -> str:
        """Always ``"pjrt"``."""
        return "pjrt"

    @property
    def program_formats(self) -> tuple[str, ...]:
        """StableHLO, as text or bytecode."""
        return ("stablehlo",)

    @property
    def pjrt_c_api_major_version(self) -> int:
        """The C API's major version, as the plugin has it."""
        return self._api.major

    @property
    def pjrt_c_api_minor_version(self) -> int:
        """The C API's minor version, as the plugin has it."""
        return self._api.minor

    def get_attributes(self) -> Mapping[str, Any]:
        """Return what the plugin says of itself, such as ``stablehlo_current_version``."""
        return self._library.attributes()

    def process_index(self) -> int:
        """Return the index of this process among those of the platform."""
        return self._process

    def devices(self) -> list[Device]:
        """Return every device of every process, ordered by ``id``."""
        return list(self._devices)

    def local_devices(self) -> list[Device]:
        """Return the devices that this process addresses, ordered by ``id``."""
        return list(self._local)

    def memories(self) -> list[PjrtMemory]:
        """Return the memories that this process addresses, ordered by ``id``."""
        return sorted(self._memories, key=lambda memory: memory.id)

    def device_from_local_hardware_id(self, local_hardware_id: int) -> PjrtDevice:
        """Return the device that the plugin knows by a hardware number."""
        for device in self._local if isinstance(local_hardware_id, int) else ():
            if device.local_hardware_id == local_hardware_id:
                return device
        known = ", ".join(str(device.local_hardware_id) for device in self._local)
        msg = f"{self!r} has no device of hardware id {local_hardware_id}; it has {known}."
        raise InvalidArgumentError(msg, local_hardware_id=local_hardware_id)

    def _place(self, target: Any, operation: str) -> Place:
        place = self._places.get(target) if isinstance(target, _TARGETS) else None
        if place is None:
            place = self._places[target] = self._resolve(target, operation)
        return place

    def _resolve(self, target: Any, operation: str) -> Place:
        device, memory = target, None
        if target is None:
            device = self._local[0]
        elif isinstance(target, PjrtMemory) and target.client is self and target._devices:
            device, memory = target._devices[0], target
        if not isinstance(device, PjrtDevice) or device.client is not self:
            msg = f"{operation} failed: {target!r} is no device and no memory of {self!r}."
            raise InvalidArgumentError(msg, operation=operation)
        if not device.is_addressable:
            msg = (
                f"{operation} failed: {device} belongs to process {device.process_index}, and "
                f"this one is {self._process}. Name a device of client.local_devices()."
            )
            raise InvalidArgumentError(msg, operation=operation, device=str(device))
        where = memory or device._default
        assert where is not None  # every device of this process has one
        pointer = ffi.NULL if where is device._default else where._pointer
        return Place(device, where, device._pointer, pointer)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))

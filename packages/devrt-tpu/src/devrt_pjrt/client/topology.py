"""Topologies: devices that are described and need not be there, and compiling for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from devrt.compiling.serialized import Serialized, with_checksum
from devrt.contract import Device, Topology
from devrt.errors import ClosedError, ForkedError, InvalidArgumentError
from devrt.topology import CompileOnlyDevice
from devrt_pjrt._native import ffi
from devrt_pjrt.connection.device import Description
from devrt_pjrt.library.api import text_of
from devrt_pjrt.library.checks import encoded, options_of
from devrt_pjrt.library.handle import Handle
from devrt_pjrt.library.values import NamedValues, check_types, read_values

if TYPE_CHECKING:
    from devrt_pjrt.library.library import Library
    from devrt_pjrt.programs.compiled import Executable

__all__ = ["PjrtTopology", "deserialize_topology", "make_topology"]


def make_topology(
    library: Library, platform: str, name: str = "", options: Mapping[str, Any] | None = None
) -> PjrtTopology:
    """Describe devices that need not be there.

    Parameters
    ----------
    library
        The plugin.
    platform
        What users call the platform.
    name
        The topology's name, as the platform's traits or its plugin have it.
    options
        The platform's own.

    Raises
    ------
    InvalidArgumentError
        If the name or an option is not valid.
    UnimplementedError
        If the plugin describes no devices.
    """
    given = options_of(options)
    encoded(name, "its name", "make_topology")
    check_types(given, library.traits.topology_options, f"a topology of platform {platform!r}")
    name, adapted = library.traits.adapt_topology(name, given)
    text, given = encoded(name, "its name", "make_topology"), dict(adapted)
    held, values = ffi.new("char[]", text), NamedValues(given)
    library.initialize()
    args = library.api.call(
        "PJRT_TopologyDescription_Create",
        topology_name=held,
        topology_name_size=len(text),
        create_options=values.array,
        num_options=values.count,
    )
    return PjrtTopology(library, platform, args.topology)


def deserialize_topology(library: Library, platform: str, data: bytes) -> PjrtTopology:
    """Rebuild a topology from what `PjrtTopology.serialize` returned.

    Raises
    ------
    InvalidArgumentError
        If the bytes are none.
    """
    if not isinstance(data, bytes) or not data:
        msg = f"a topology is rebuilt from bytes, not from {data!r:.40}."
        raise InvalidArgumentError(msg, operation="deserialize_topology")
    library.initialize()
    data = Serialized.read(data, "deserialize_topology").data
    held = ffi.from_buffer(data)
    args = library.api.call(
        "PJRT_TopologyDescription_Deserialize",
        serialized_topology=ffi.cast("char *", held),
        serialized_topology_size=len(data),
    )
    return PjrtTopology(library, platform, args.topology)


class PjrtTopology(Handle, Topology):
    """Devices as a plugin describes them.

    Parameters
    ----------
    library
        The plugin.
    platform
        What users call the platform; empty for the plugin's own word.
    pointer
        A ``PJRT_TopologyDescription*``, owned from now on unless ``owner`` is given.
    owner
        The client whose topology it is; kept alive.
    """

    def __init__(self, library: Library, platform: str, pointer: Any, owner: Any = None) -> None:
        self._library, self._owner = library, owner
        self._described: list[Description] | None = None
        api = self._api = library.api
        destroy = api.table.PJRT_TopologyDescription_Destroy

        def drop(pointer: Any) -> None:
            if api.is_lost():
                return
            error = destroy(api.new("PJRT_TopologyDescription_Destroy_Args", topology=pointer))
            if error:
                api.take(error, "PJRT_TopologyDescription_Destroy")

        self._pointer = pointer if owner is not None else ffi.gc(pointer, drop)
        self._platform = platform or self.plugin_platform()

    def plugin_platform(self) -> str:
        """Return the platform in the plugin's own word."""
        with self._using("PlatformName") as args:
            return text_of(args.platform_name, args.platform_name_size)

    @contextmanager
    def _using(self, function: str) -> Iterator[Any]:
        """Ask the plugin, and keep what it answers: a client's topology is destroyed with it."""
        owner = self._owner
        with owner.using(function) if owner is not None else nullcontext():
            yield self._api.call(f"PJRT_TopologyDescription_{function}", topology=self._pointer)

    @property
    def platform(self) -> str:
        return self._platform

    @property
    def platform_version(self) -> str:
        with self._using("PlatformVersion") as args:
            return text_of(args.platform_version, args.platform_version_size).strip()

    def get_attributes(self) -> Mapping[str, Any]:
        with self._using("Attributes") as args:
            return read_values(args.attributes, args.num_attributes)

    def fingerprint(self) -> int:
        with self._using("Fingerprint") as args:
            return int(args.fingerprint)

    def serialize(self) -> bytes:
        """Return bytes from which `deserialize_topology` rebuilds it."""
        with self._using("Serialize") as args:
            try:
                data = ffi.buffer(args.serialized_bytes, args.serialized_bytes_size)
                return with_checksum(bytes(data))
            finally:
                args.serialized_topology_deleter(args.serialized_topology)

    def descriptions(self) -> list[Description]:
        """Return what the plugin says of each device, ordered by id."""
        if self._described is None:
            with self._using("GetDeviceDescriptions") as args:
                rows = [args.descriptions[i] for i in range(args.num_descriptions)]
                found = [Description(self._api, row) for row in rows]
            self._described = sorted(found, key=lambda about: about.id)
        return list(self._described)

    def _make_compile_only_devices(self) -> list[Device]:
        return [
            CompileOnlyDevice(
                self._platform,
                {
                    **about.attributes,
                    "id": about.id,
                    "process_index": about.process_index,
                    "local_hardware_id": None,
                    "device_kind": about.kind,
                },
            )
            for about in self.descriptions()
        ]

    def compile(self, program: str | bytes, **options: Any) -> Executable:
        """Compile a program for these devices, of which none need be there.

        Parameters
        ----------
        program
            StableHLO as text or bytecode.
        **options
            Fields of `devrt_pjrt.CompileOptions`.

        Returns
        -------
        Executable
            With its size, cost and memory figures; ``serialize()`` gives what a machine with the
            devices loads.
        """
        from devrt_pjrt.programs.compile import compile_ahead

        with self._owner.using("compile") if self._owner is not None else nullcontext():
            count = len(self.descriptions())
            return compile_ahead(self._library, self._pointer, count, program, options, self)

    def __repr__(self) -> str:
        try:
            count = str(len(self.descriptions()))
        except (ClosedError, ForkedError):
            count = "unknown"
        return f"PjrtTopology({self._platform!r}, {count} devices)"

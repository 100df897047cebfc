"""The client of any PJRT plugin: devrt's whole contract over the C API."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.contract import (
    Buffer,
    Capabilities,
    Client,
    Device,
    HostBufferSemantics,
    LoadedExecutable,
    Memory,
)
from devrt.errors import InvalidArgumentError
from devrt_pjrt.buffers.memory_report import heap_profile, live_buffers, with_report
from devrt_pjrt.buffers.put import Putter
from devrt_pjrt.client.ending import wait_at_exit
from devrt_pjrt.library.handle import Handle

if TYPE_CHECKING:
    import numpy as np

    from devrt.compiling.options import CompileOptions
    from devrt.layout import Layout, PjRtLayout
    from devrt_pjrt.buffers.buffer import PjrtBuffer
    from devrt_pjrt.buffers.transfer import TransferManager
    from devrt_pjrt.client.topology import PjrtTopology
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.device import PjrtDevice, PjrtMemory
    from devrt_pjrt.programs.executable import PjrtLoadedExecutable

__all__ = ["PjrtClient"]


class PjrtClient(Handle, Client):
    """A live connection to a platform through a PJRT plugin; `make_client` makes one.

    Parameters
    ----------
    connection
        What all that is of the client shares.

    Attributes
    ----------
    connection : Connection
        The same.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._inventory = connection.inventory
        self._targets = connection.inventory.targets
        self._putter = Putter(connection)
        connection.client = self
        connection.explain = functools.partial(with_report, connection)
        wait_at_exit(connection)

    # -- what it is ---------------------------------------------------------------------------

    @property
    def platform(self) -> str:
        return self.connection.platform

    @property
    def plugin_platform(self) -> str:
        """The platform, in the plugin's own word."""
        return self._inventory.platform

    @property
    def platform_version(self) -> str:
        """The C API's version and what the plugin says of its own."""
        api = self.connection.api
        return f"PJRT C API {api.major}.{api.minor}\n{self._inventory.version}"

    @property
    def runtime_type(self) -> str:
        return "pjrt"

    @property
    def program_formats(self) -> tuple[str, ...]:
        return ("stablehlo",)

    @property
    def capabilities(self) -> Capabilities:
        """What can be counted on; what programs may do is the plugin's compiler's to refuse."""
        from devrt_pjrt.programs.custom_call import takes_custom_calls

        return Capabilities.of(
            self,
            asynchronous=True,
            donation=True,
            collectives=True,
            # A plugin that knows the others' devices was given them to run programs on them.
            programs_across_processes=self.device_count() > self.local_device_count(),
            custom_calls=takes_custom_calls(self.connection.api),
        )

    @property
    def options(self) -> Mapping[str, Any]:
        """What it was made with."""
        return self.connection.options

    @property
    def pjrt_c_api_major_version(self) -> int:
        """The C API's major version, as the plugin has it."""
        return self.connection.api.major

    @property
    def pjrt_c_api_minor_version(self) -> int:
        """The C API's minor version, as the plugin has it."""
        return self.connection.api.minor

    def get_attributes(self) -> Mapping[str, Any]:
        """Return what the plugin says of itself, such as ``stablehlo_current_version``."""
        return self.connection.library.attributes()

    @property
    def extensions(self) -> tuple[str, ...]:
        """The extensions of the C API that the plugin has, by the API's names for them."""
        return self.connection.api.extension_names()

    def process_index(self) -> int:
        return self._inventory.process_index

    def devices(self) -> list[Device]:
        return list(self._inventory.devices)

    def local_devices(self) -> list[Device]:
        return list(self._inventory.local)

    def memories(self) -> list[PjrtMemory]:
        """Return the memories that this process addresses, ordered by ``id``."""
        return sorted(self._inventory.memories, key=lambda memory: memory.id)

    def get_default_device_assignment(
        self, num_replicas: int, num_partitions: int = 1
    ) -> list[list[Device]]:
        """Return the devices that the plugin gives a program for which none are named."""
        from devrt_pjrt.client.assignment import default_assignment

        return default_assignment(self.connection, num_replicas, num_partitions)

    def device_from_local_hardware_id(self, local_hardware_id: int) -> PjrtDevice:
        local = self._inventory.local
        for device in local if isinstance(local_hardware_id, int) else ():
            if device.local_hardware_id == local_hardware_id:
                return device
        known = ", ".join(str(device.local_hardware_id) for device in local)
        msg = f"{self!r} has no device of hardware id {local_hardware_id}; it has {known}."
        raise InvalidArgumentError(msg, local_hardware_id=local_hardware_id)

    # -- buffers ------------------------------------------------------------------------------

    def buffer_from_pyval(
        self,
        argument: Any,
        device: Device | Memory | None = None,
        force_copy: bool = False,
        host_buffer_semantics: int = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
        layout: Layout | PjRtLayout | str | None = None,
    ) -> PjrtBuffer:
        """Start the transfer of a host value to a device; see `devrt.contract.Client`.

        Zero-copy semantics are the plugin's to use: most alias memory on a 64-byte boundary.
        The elements lie as `get_default_layout` says, or in the order of ``layout``, a `Layout`, a
        `PjRtLayout` or the text of one; the plugin's refusal of one is raised.
        """
        try:
            target = self._targets[device]
        except (KeyError, TypeError):  # a target that was not seen yet, or is none
            target = self._inventory.target(device, "buffer_from_pyval")
        semantics = 0 if force_copy else host_buffer_semantics
        if layout is not None:
            from devrt_pjrt.buffers.put_laid_out import put

            return put(self._putter, argument, layout, target, semantics)
        return self._putter.put(argument, target, semantics)

    def buffer_from_dlpack(
        self, value: Any, device: Device | None = None, copy: bool | None = None
    ) -> PjrtBuffer:
        """Take a tensor of another library through DLPack, without a copy where that can be.

        Parameters
        ----------
        value
            An object with ``__dlpack__``, or a capsule.
        device
            The device that the tensor lies on, or goes to; the first one when omitted.
        copy
            True copies always, False never; None copies where the memory cannot be viewed.

        Raises
        ------
        InvalidArgumentError
            If it cannot be viewed and ``copy`` is False.
        """
        from devrt_pjrt.buffers.from_dlpack import take

        return take(self._putter, value, self._inventory.target(device, "buffer_from_dlpack"), copy)

    def create_buffers_for_async_host_to_device(
        self,
        specs: Sequence[tuple[tuple[int, ...], Any]],
        memory: Device | Memory | None = None,
        layouts: Sequence[Layout | PjRtLayout | str | None] | None = None,
    ) -> TransferManager:
        """Make buffers whose data is sent later, piece by piece.

        Parameters
        ----------
        specs
            Shape and dtype of each buffer.
        memory
            Where they go; the first device's default memory when omitted.
        layouts
            How each buffer lies there; None, for all or one, for as `get_default_layout` says.
        """
        from devrt_pjrt.buffers.transfer import TransferManager

        target = self._inventory.target(memory, "create_buffers_for_async_host_to_device")
        return TransferManager(self.connection, specs, target, layouts)

    def create_uninitialized_buffer(
        self, shape: Sequence[int], dtype: Any, memory: Device | Memory | None = None
    ) -> PjrtBuffer:
        """Make a buffer whose elements are whatever its memory holds, such as a result's place.

        Parameters
        ----------
        shape, dtype
            Of the buffer.
        memory
            Where it goes; the first device's default memory when omitted.
        """
        from devrt_pjrt.buffers.buffer import PjrtBuffer
        from devrt_pjrt.buffers.raw import uninitialized

        target = self._inventory.target(memory, "create_uninitialized_buffer")
        handle, spec = uninitialized(self.connection, shape, dtype, target)
        return PjrtBuffer(self.connection, handle, spec, target.memory, target.device)

    def get_default_layout(
        self, dtype: np.dtype[Any], shape: Sequence[int], device: Device | Memory | None = None
    ) -> PjRtLayout:
        """Return how an array of a dtype and shape lies on every device by default."""
        from devrt.layout import PjRtLayout
        from devrt_pjrt.buffers.layout import default_layout

        return PjRtLayout(default_layout(self.connection, dtype, shape))

    def live_buffers(self) -> list[Buffer]:
        return list(live_buffers(self.connection))

    def heap_profile(self) -> bytes:
        """Return the live buffers as a gzipped pprof profile, by call site where one was noted.

        The values are ``space`` (bytes) and ``objects`` (count), the labels ``device``, ``kind``
        and ``array``. Where it was made is noted of buffers from 1 MiB on.
        """
        return heap_profile(self.connection)

    # -- programs -----------------------------------------------------------------------------

    def compile_and_load(
        self,
        program: str | bytes,
        devices: Sequence[Device] | None = None,
        compile_options: CompileOptions | None = None,
        **options: Any,
    ) -> PjrtLoadedExecutable:
        """Compile a StableHLO program and load it on devices.

        Parameters
        ----------
        program
            StableHLO as text or bytecode.
        devices
            The devices that it runs on; as many as the options say when omitted.
        compile_options
            Options, which keyword arguments change.
        **options
            See `devrt_pjrt.CompileOptions`, whose fields they are.
        """
        from devrt_pjrt.programs import compile as _compile

        given = {"compile_options": compile_options, **options}
        return _compile.compile_and_load(self.connection, program, devices, given)

    def compile(self, program: str | bytes, **options: Any) -> PjrtLoadedExecutable:
        return self.compile_and_load(program, None, **options)

    def serialize_executable(self, executable: LoadedExecutable) -> bytes:
        return executable.serialize()

    def deserialize_executable(
        self,
        serialized: bytes,
        devices: Sequence[Device] | None = None,
        compile_options: CompileOptions | None = None,
        **options: Any,
    ) -> PjrtLoadedExecutable:
        """Load an executable that was compiled earlier, perhaps on another machine.

        Parameters
        ----------
        serialized
            What `serialize_executable` gave.
        devices
            The devices that it runs on; those that it was compiled for when omitted.
        compile_options
            Options, which keyword arguments change.
        **options
            Fields of `devrt_pjrt.CompileOptions`, instead of those it was compiled with. Replicas,
            partitions and tuples stay as compiled.
        """
        from devrt_pjrt.programs import compile as _compile

        given = {"compile_options": compile_options, **options}
        return _compile.deserialize(self.connection, serialized, devices, given)

    def register_custom_call(self, name: str, function: Any, *, kind: str = "host") -> None:
        """Let programs of this plugin call a function; see `devrt.contract.Client`.

        On a GPU a function of kind ``"device"`` gets the stream too. The pointer may be of cffi.
        Raises `UnimplementedError` if the plugin takes no custom calls, or 256 callables are
        registered.
        """
        from devrt_pjrt.programs.custom_call import register_custom_call

        with self.connection.using("register_custom_call"):
            register_custom_call(self.connection, self.plugin_platform, name, function, kind)

    def live_executables(self) -> list[Any]:
        found = sorted(self.connection.executables.items())
        return [executable for _, executable in found if not executable.is_deleted()]

    def topology(self) -> PjrtTopology:
        from devrt_pjrt.client.topology import PjrtTopology

        with self.connection.using("topology"):
            api, pointer = self.connection.api, self.connection.pointer
            args = api.call("PJRT_Client_TopologyDescription", client=pointer)
        return PjrtTopology(
            self.connection.library, self.platform, args.topology, owner=self.connection
        )

    # -- its end ------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self.connection.is_closed

    def close(self) -> None:
        """Wait for the calls in flight and give all memory back. Idempotent.

        Views of buffers (NumPy arrays, DLPack tensors) stay valid; the plugin's client is
        destroyed with the last of them.

        Raises
        ------
        DevrtError
            If calls of other threads do not end, or a function that a program runs calls this.
        """
        self.connection.close()

    def __enter__(self) -> PjrtClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"PjrtClient({self.platform!r}, {len(self._inventory.devices)} devices{state})"

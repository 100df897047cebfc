"""The live connection to a platform."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.contract.buffer import Buffer, HostBufferSemantics
from devrt.contract.closing import Closing
from devrt.contract.members import Contract
from devrt.contract.transfers import BatchedTransfers

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract.capabilities import Capabilities
    from devrt.contract.collectives import Collectives
    from devrt.contract.device import Device, Memory
    from devrt.contract.executable import LoadedExecutable
    from devrt.contract.topology import Topology
    from devrt.layout import PjRtLayout

__all__ = ["Client"]


class Client(Closing, BatchedTransfers, metaclass=Contract):
    """A live connection to a platform: owns its devices, memories, buffers and executables.

    All members may be called from any thread. Those that wait release the GIL.

    Attributes
    ----------
    platform : str
        The platform served.
    platform_version : str
        The runtime underneath, for people to read: printable text, which may have several lines.
    runtime_type : str
        A short word for the implementation (``"native"``, ``"pjrt"``).
    program_formats : tuple of str
        The program formats that `compile_and_load` takes; empty if it takes none.
    capabilities : Capabilities
        What can be counted on, for callers to ask before they use it; by default what the client
        shows of itself. One that does more says so: ``Capabilities.of(self, donation=True)``.
    """

    @property
    @abc.abstractmethod
    def platform(self) -> str: ...

    @property
    @abc.abstractmethod
    def platform_version(self) -> str: ...

    @property
    @abc.abstractmethod
    def runtime_type(self) -> str: ...

    @property
    def program_formats(self) -> tuple[str, ...]:
        return ()

    @property
    def capabilities(self) -> Capabilities:
        from devrt.contract.capabilities import Capabilities

        return Capabilities.of(self)

    @abc.abstractmethod
    def process_index(self) -> int:
        """Return the index of this process among those of the platform."""

    def host_id(self) -> int:
        """Return `process_index` under its older name."""
        return self.process_index()

    def task_id(self) -> int:
        """Return `process_index` under jaxlib's oldest name."""
        return self.process_index()

    @abc.abstractmethod
    def devices(self) -> list[Device]:
        """Return every device of every process, ordered by ``id``: a list of the caller's own."""

    @abc.abstractmethod
    def local_devices(self) -> list[Device]:
        """Return the devices that this process addresses, ordered by ``id``."""

    def device_count(self) -> int:
        """Return the number of devices over all processes."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """Return the number of devices that this process addresses."""
        return len(self.local_devices())

    def device_from_local_hardware_id(self, local_hardware_id: int) -> Device:
        """Return the device of this process that the driver numbers so.

        Raises
        ------
        InvalidArgumentError
            If this process addresses no such device.
        """
        for device in self.local_devices():
            if device.local_hardware_id == local_hardware_id:
                return device
        from devrt.errors import InvalidArgumentError

        known = [device.local_hardware_id for device in self.local_devices()]
        msg = f"No local {self.platform} device has hardware id {local_hardware_id}: use {known}."
        raise InvalidArgumentError(msg, operation="device_from_local_hardware_id")

    def get_default_layout(
        self, dtype: np.dtype[Any], shape: Sequence[int], device: Device | Memory | None = None
    ) -> PjRtLayout:
        """Return the layout that a buffer gets when none is requested.

        Parameters
        ----------
        dtype
            The elements' dtype.
        shape
            The buffer's shape.
        device
            Where the buffer would lie; the first local device when None.
        """
        from devrt.layout import PjRtLayout, row_major

        return PjRtLayout(row_major(len(shape)))

    def get_default_device_assignment(
        self, num_replicas: int, num_partitions: int = 1
    ) -> list[list[Device]]:
        """Return the devices that a program gets when none are named: by replica, by partition.

        By default the first ones of this process.

        Raises
        ------
        InvalidArgumentError
            If there are fewer, or a number is below one.
        """
        devices, wanted = self.local_devices(), num_replicas * num_partitions
        if num_replicas < 1 or num_partitions < 1 or wanted > len(devices):
            from devrt.errors import InvalidArgumentError

            msg = (
                f"{num_replicas} x {num_partitions} devices cannot be assigned: this process has "
                f"{len(devices)} of platform {self.platform!r}. Ask for one to {len(devices)}."
            )
            raise InvalidArgumentError(msg, operation="get_default_device_assignment")
        width = num_partitions
        return [devices[at : at + width] for at in range(0, wanted, width)]

    def defragment(self) -> None:
        """Give memory that is kept for reuse back, where the backend keeps any."""
        return None

    @abc.abstractmethod
    def buffer_from_pyval(
        self,
        argument: Any,
        device: Device | Memory | None = None,
        force_copy: bool = False,
        host_buffer_semantics: int = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
    ) -> Buffer:
        """Start the transfer of a host value to a device.

        Parameters
        ----------
        argument
            A NumPy array, a NumPy or Python scalar, or an object with the buffer protocol or
            ``__array__``, as a buffer of any client is. Keeps its dtype; may be strided in any way.
            What the argument raises while it is read goes to the caller as it is.
        device
            A device of this client (its default memory is taken), a memory of this client, or None
            for the first local device.
        force_copy
            Never alias the source, whatever ``host_buffer_semantics`` allows.
        host_buffer_semantics
            What the caller promises about the source.

        Returns
        -------
        Buffer
            A buffer of the argument's shape and dtype. Does not wait for the device.

        Raises
        ------
        InvalidTypeError
            If the argument is no array or has a dtype that a device cannot hold.
        InvalidArgumentError
            If ``device`` is none of these.
        OutOfMemoryError
            If the memory is full.
        """

    def buffer_from_external(self, value: Any, copy: bool | None = None) -> Buffer | None:
        """Take over an array of another library that lies on a device of this client.

        Parameters
        ----------
        value
            An object with ``__dlpack__`` or ``__cuda_array_interface__``. It must not change while
            the buffer, or a copy that is being made, reads it.
        copy
            True copies always, False never; None where the elements are not dense, or not aligned
            as the device needs them.

        Returns
        -------
        Buffer or None
            On the device where the array lies, ready when its owner's work and a copy have ended;
            does not wait. None if it lies on no device of this client.

        Raises
        ------
        InvalidTypeError
            If it has a dtype that no device holds, a mask, or is not what the protocols say.
        InvalidArgumentError
            If ``copy`` is False and a copy is needed.
        """
        return None

    def batched_buffer_from_pyval(
        self,
        argument: Any,
        devices: Sequence[Device | Memory],
        offsets: Sequence[tuple[int, ...]],
        shape: tuple[int, ...],
        host_buffer_semantics: int = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
    ) -> list[Buffer]:
        """Start the transfer of one block of a host array to each of several devices.

        Parameters
        ----------
        argument
            As for `buffer_from_pyval`.
        devices
            The targets; may repeat memories, and blocks may coincide.
        offsets
            For each target, the index in ``argument`` of its block's first element.
        shape
            Shape of every block.
        host_buffer_semantics
            What the caller promises about the source.

        Returns
        -------
        list of Buffer
            One for each target, in order. Does not wait.
        """
        import numpy as np

        host = np.asarray(argument)
        return [
            self.buffer_from_pyval(
                host[tuple(slice(o, o + n) for o, n in zip(offset, shape, strict=True))],
                device,
                False,
                host_buffer_semantics,
            )
            for device, offset in zip(devices, offsets, strict=True)
        ]

    @abc.abstractmethod
    def live_buffers(self) -> list[Buffer]:
        """Return the buffers that are neither deleted nor collected, oldest first."""

    def live_arrays(self) -> list[Buffer]:
        """Return `live_buffers` under jaxlib's name."""
        return self.live_buffers()

    def live_executables(self) -> list[LoadedExecutable]:
        """Return the executables that are neither deleted nor collected, oldest first."""
        return []

    def compile_and_load(
        self, program: str | bytes, devices: Sequence[Device] | None = None, **options: Any
    ) -> LoadedExecutable:
        """Compile a program and load it on devices.

        Raises
        ------
        UnimplementedError
            If the client takes no program of this format.
        """
        _unimplemented(self, "compile_and_load", "it takes no program format yet")

    def compile(self, program: str | bytes, **options: Any) -> LoadedExecutable:
        """Compile and load, under jaxlib's older name."""
        return self.compile_and_load(program, None, **options)

    def serialize_executable(self, executable: LoadedExecutable) -> bytes:
        """Return a compiled program as bytes, for `deserialize_executable`."""
        return executable.serialize()

    def deserialize_executable(
        self, serialized: bytes, devices: Sequence[Device] | None = None, **options: Any
    ) -> LoadedExecutable:
        """Load what `serialize_executable` gave, of this or another process.

        Raises
        ------
        UnimplementedError
            If the client loads no compiled programs.
        """
        _unimplemented(self, "deserialize_executable", "it loads no compiled programs")

    def register_custom_call(self, name: str, function: Any, *, kind: str = "host") -> None:
        """Let programs call a function by a name, in every client of this kind in the process.

        Parameters
        ----------
        name
            The target that ``stablehlo.custom_call`` names; with ``api_version = 4 : i32``.
        function
            A callable, which may replace another; or native code, an XLA FFI handler
            (``devrt/pjrt/c_api/ffi.h`` of the native SDK), as an address, a capsule, or a function
            pointer of ctypes, which must stay valid until the process ends.
        kind
            ``"host"``: the callable gets a NumPy array of its own for each argument, and the
            call's attributes by keyword; it returns an array for each result, of its shape and
            dtype. ``"device"``: it gets a `DeviceCall`, with addresses: nothing is copied. For
            native code the same.

        Raises
        ------
        UnimplementedError
            If the client takes no custom calls, or no more of them.
        PluginError
            If the name is taken, also by another kind of client with the same compiler's library.

        Notes
        -----
        It is called on the threads of programs, takes the GIL, and must not wait for work of the
        same client. What it raises becomes the error of the program's results. At the end of the
        interpreter calls are waited for, and then refused.
        """
        _unimplemented(self, "register_custom_call", "it takes no custom calls")

    def collectives(
        self, devices: Sequence[Device] | None = None, *, timeout: float = 300.0
    ) -> Collectives:
        """Return the group of some devices.

        Devices may be of other processes of the job. Then each of these calls this with the same
        list, which connects them anew each time, and waits for the others.

        Parameters
        ----------
        devices
            The device of each rank; all of this process when omitted.
        timeout
            Seconds to wait for the other processes.

        Raises
        ------
        UnimplementedError
            If the client has no collectives outside programs.
        InvalidArgumentError
            If a device is not of this client, or is given twice, or none is of this process; if
            some are of other processes, and the client was made without a job.
        DeadlineExceededError, PeerLostError
            If a process does not come, or is lost.
        BackendUnavailableError
            If the library that makes them is not there; the message says what to install.
        """
        _unimplemented(self, "collectives", "it has none outside programs")

    def heap_profile(self) -> bytes:
        """Return what lives in memory, by allocation site, as a gzipped pprof profile."""
        _unimplemented(self, "heap_profile", "it records no allocation sites yet")

    def topology(self) -> Topology:
        """Return a description of the client's devices, those of other processes too."""
        from devrt.topology import describe_devices

        return describe_devices(self.devices())

    @abc.abstractmethod
    def close(self) -> None:
        """Wait for the work in flight and give all memory back. Idempotent.

        What the host was shown stays readable. Programs that devrt keeps for the next call are
        dropped then, as they would keep the client.
        """

    @property
    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Whether `close` was called."""


def _unimplemented(client: Client, operation: str, why: str) -> NoReturn:
    from devrt.errors import UnimplementedError

    msg = f"{operation} is not offered by the {client.platform} client: {why}."
    raise UnimplementedError(msg, operation=operation, platform=client.platform)

"""Programs loaded on devices, and running them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.compiling.device_assignment import DeviceAssignment
from devrt.contract import Buffer, Client, Device, LoadedExecutable, OpSharding
from devrt.errors import UnimplementedError
from devrt_pjrt._native import ffi
from devrt_pjrt.library.handle import Handle
from devrt_pjrt.programs.compiled import Executable
from devrt_pjrt.programs.run import Runner

if TYPE_CHECKING:
    from devrt.compiling.hlo_modules import CompiledModule
    from devrt.compiling.memory_stats import CompiledMemoryStats
    from devrt.compiling.options import CompileOptions
    from devrt.layout import PjRtLayout
    from devrt_pjrt.buffers.spec import Spec
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.device import PjrtDevice
    from devrt_pjrt.programs.token import PjrtToken

__all__ = ["PjrtLoadedExecutable"]

_numbers = itertools.count()


class PjrtLoadedExecutable(Handle, LoadedExecutable):
    """A compiled program on devices of one client; `PjrtClient.compile_and_load` makes one."""

    def __init__(
        self,
        connection: Connection,
        pointer: Any,
        options: CompileOptions | None,
        source: bytes | None = None,
        donated: tuple[int, ...] | None = None,
    ) -> None:
        self._connection = connection
        api = connection.api
        found = api.call("PJRT_LoadedExecutable_GetExecutable", loaded_executable=pointer)
        self.executable = Executable(api, found.executable, connection, source, donated)
        repr(self.executable)  # kept from here on, as errors about the end name it
        bound = _devices_of(connection, pointer)
        # A portable executable is bound to none until it runs.
        is_portable = not bound or (options is not None and options.compile_portable_executable)
        self._devices = list(connection.inventory.local) if is_portable else bound
        self._options, self._is_portable = options, is_portable
        is_one = self.executable.num_replicas * self.executable.num_partitions == 1
        self._assignment = None if is_one else _assignment_of(connection, pointer)
        self._runner = Runner(connection, pointer, self.executable, self._devices, is_portable)
        self.execute = self._runner.execute  # type: ignore[method-assign]  # one call less
        connection.executables[next(_numbers)] = self

    @property
    def name(self) -> str:
        return self.executable.name

    @property
    def client(self) -> Client:
        return self._connection.client

    def local_devices(self) -> list[Device]:
        """Return the devices of this process that the program runs on, in argument order.

        For a portable executable those that it may run on, each by itself.
        """
        return list(self._devices)

    def execute(
        self, arguments: Sequence[Buffer], device: Device | None = None, launch_id: int = 0
    ) -> list[Buffer]:
        """Start the program on one device and return its results. Does not wait.

        Parameters
        ----------
        arguments
            One buffer for each parameter, on the program's device.
        device
            Where a portable executable runs; the arguments' device when omitted.
        launch_id
            A number of this launch, which is equal on all hosts that take part in it; plugins tell
            by it that hosts launch programs in another order.
        """
        return self._runner.execute(arguments, device, launch_id)

    def execute_with_token(self, arguments: Sequence[Buffer]) -> tuple[list[Buffer], PjrtToken]:
        """Do as `execute`, and return with the results a token of the program's end."""
        return self._runner.execute_with_token(arguments)

    def execute_sharded(
        self,
        arguments: Sequence[Sequence[Buffer]],
        with_tokens: bool = False,
        launch_id: int = 0,
    ) -> Any:
        """Start the program on all its devices and return results by output, then by device.

        Parameters
        ----------
        arguments
            For each parameter, one buffer on each of `local_devices`, in any order.
        with_tokens
            Whether to return ``(results, tokens)``, with a token of each device's end.
        launch_id
            As for `execute`.
        """
        return self._runner.execute_sharded(arguments, with_tokens, launch_id)

    def device_assignment(self) -> list[list[Device]]:
        """Return the devices by replica, then by partition; of a portable executable each alone."""
        if self._is_portable:
            return [[device] for device in self._devices]
        if self._assignment is None:
            return super().device_assignment()
        devices = {device.id: device for device in self._connection.inventory.devices}
        return [[devices[number] for number in row] for row in self._assignment.ids]

    def serialize(self) -> bytes:
        """Return the executable as bytes; see `PjrtClient.deserialize_executable`."""
        with self._connection.using("serialize"):
            self._runner.check_not_deleted("serialize")
            return self.executable.serialize()

    @property
    def fingerprint(self) -> bytes:
        return self.executable.fingerprint

    def cost_analysis(self) -> Mapping[str, Any]:
        return self.executable.cost_analysis()

    def memory_analysis(self) -> CompiledMemoryStats:
        """Return what the program takes of memory."""
        return self.executable.memory_analysis()

    def get_compiled_memory_stats(self) -> dict[str, int]:
        return self.executable.get_compiled_memory_stats()

    def size_of_generated_code_in_bytes(self) -> int:
        return self.executable.size_of_generated_code_in_bytes()

    def optimized_program(self) -> tuple[str, bytes]:
        """Return the program as the compiler left it: its format, and its bytes."""
        return self.executable.optimized_program()

    def hlo_modules(self) -> list[CompiledModule]:
        """Return the optimised program: one module, with its text and its bytes."""
        return self.executable.hlo_modules()

    def compile_options(self) -> CompileOptions:
        """Return the options that it was compiled with, or loaded with in their place."""
        return self._options or self.executable.compile_options()

    def parameter_specs(self) -> list[Spec] | None:
        """Return dtype and shape of each argument on each device; None where nobody knows."""
        return self.executable.parameter_specs()

    def output_specs(self) -> list[Spec]:
        """Return dtype and shape of each result on each device."""
        return self.executable.output_specs()

    @property
    def parameters(self) -> list[tuple[tuple[int, ...], Any]]:
        return self.executable.parameters

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], Any]]:
        return self.executable.outputs

    @property
    def num_replicas(self) -> int:
        return self.executable.num_replicas

    @property
    def num_partitions(self) -> int:
        return self.executable.num_partitions

    @property
    def donated_parameters(self) -> list[int]:
        return self.executable.donated_parameters

    @property
    def is_collective(self) -> bool:
        return len(self._devices) > 1 and self.executable.known("is_collective").may_communicate

    @property
    def custom_calls(self) -> list[str]:
        return self.executable.custom_calls

    def get_parameter_shardings(self) -> list[OpSharding]:
        return self.executable.get_parameter_shardings()

    def get_output_shardings(self) -> list[OpSharding]:
        return self.executable.get_output_shardings()

    def get_parameter_layouts(self) -> list[PjRtLayout]:
        """Return how each argument must lie in memory, on each device.

        A buffer lies so when it is put with that ``layout``; where it is row-major, by itself.
        """
        return self.executable.get_parameter_layouts()

    def get_output_layouts(self) -> list[PjRtLayout]:
        return self.executable.get_output_layouts()

    def get_parameter_memory_kinds(self) -> list[str]:
        try:
            return self.executable.get_parameter_memory_kinds()
        except UnimplementedError:
            return list(super().get_parameter_memory_kinds())

    def get_output_memory_kinds(self) -> list[str]:
        try:
            return self.executable.get_output_memory_kinds()
        except UnimplementedError:
            return list(super().get_output_memory_kinds())

    def get_hlo_text(self) -> str:
        return self.executable.get_hlo_text()

    def delete(self) -> None:
        self._runner.delete()
        self.executable.forget_source()

    def is_deleted(self) -> bool:
        """Return whether `delete` was called, or the client closed."""
        return self._runner.is_deleted or self._connection.is_closed

    def __repr__(self) -> str:
        state = ", deleted" if self.is_deleted() else ""
        return f"PjrtLoadedExecutable({self.executable!r} on {self._devices}{state})"


def _assignment_of(connection: Connection, pointer: Any) -> DeviceAssignment | None:
    """Return which devices a loaded executable is for; None where the plugin does not tell."""
    try:
        args = connection.api.call("PJRT_LoadedExecutable_GetDeviceAssignment", executable=pointer)
    except UnimplementedError:
        return None
    try:
        data = bytes(ffi.buffer(args.serialized_bytes, args.serialized_bytes_size))
        return DeviceAssignment.deserialize(data)
    finally:
        args.serialized_device_assignment_deleter(args.serialized_device_assignment)


def _devices_of(connection: Connection, pointer: Any) -> list[PjrtDevice]:
    args = connection.api.call("PJRT_LoadedExecutable_AddressableDevices", executable=pointer)
    return [
        connection.inventory.device_at(args.addressable_devices[i])
        for i in range(args.num_addressable_devices)
    ]

"""Compiled programs: what they are, and running them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from devrt._hlo_text import hlo_text
from devrt._op_sharding import OpSharding
from devrt.contract import Buffer, Device, LoadedExecutable
from devrt.errors import DeletedError, UnimplementedError
from devrt_tpu.pjrt._api import Api, text_of
from devrt_tpu.pjrt._handle import Handle
from devrt_tpu.pjrt._hlo import HloFacts, custom_calls, read_module
from devrt_tpu.pjrt._native import ffi
from devrt_tpu.pjrt._run import Runner
from devrt_tpu.pjrt._seal import seal
from devrt_tpu.pjrt._spec import Spec, spec_of
from devrt_tpu.pjrt._values import read_values

if TYPE_CHECKING:
    from devrt._compile_options import CompileOptions
    from devrt_tpu.pjrt._client import PjrtClient
    from devrt_tpu.pjrt._device import PjrtDevice

__all__ = ["Executable", "MemoryAnalysis", "PjrtLoadedExecutable"]

_numbers = itertools.count()


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """What a program takes of a device's memory, and of the host's, in bytes.

    Attributes
    ----------
    generated_code_size_in_bytes, argument_size_in_bytes, output_size_in_bytes, \
alias_size_in_bytes, temp_size_in_bytes : int
        On the device: its code, what it takes and returns, what of that it shares, and the rest.
    host_generated_code_size_in_bytes, host_argument_size_in_bytes, host_output_size_in_bytes, \
host_alias_size_in_bytes, host_temp_size_in_bytes : int
        The same on the host.
    peak_memory_in_bytes : int
        The most at one time; 0 where the plugin does not say.
    total_size_in_bytes : int
        All allocations; 0 where the plugin does not say.
    """

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    host_generated_code_size_in_bytes: int
    host_argument_size_in_bytes: int
    host_output_size_in_bytes: int
    host_alias_size_in_bytes: int
    host_temp_size_in_bytes: int
    peak_memory_in_bytes: int
    total_size_in_bytes: int


class Executable(Handle):
    """A compiled program that is bound to no device.

    Parameters
    ----------
    api
        The plugin that compiled it.
    pointer
        A ``PJRT_Executable*``, owned from now on.
    client
        Whose loaded executable it is of; None where it was compiled ahead of time.
    """

    def __init__(self, api: Api, pointer: Any, client: PjrtClient | None = None) -> None:
        self._api = api
        self._client = client
        destroy = api.table.PJRT_Executable_Destroy

        def drop(pointer: Any) -> None:
            if api.is_lost():
                return
            error = destroy(api.new("PJRT_Executable_Destroy_Args", executable=pointer))
            if error:
                api.take(error, "PJRT_Executable_Destroy")

        self._pointer: Any = ffi.gc(pointer, drop)

    def _ask(self, function: str, **fields: Any) -> Any:
        with self._client._using(function) if self._client is not None else nullcontext():
            pointer = self._pointer
            if pointer is None:
                msg = f"{function} failed: its loaded executable is gone. Keep that one."
                raise DeletedError(msg, operation=function)
            return self._api.call(f"PJRT_Executable_{function}", executable=pointer, **fields)

    def release(self) -> None:
        """Give the plugin's object back: it must not outlive the client of what it is of."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            ffi.release(pointer)

    @functools.cached_property
    def name(self) -> str:
        """The program's name."""
        args = self._ask("Name")
        return text_of(args.executable_name, args.executable_name_size)

    @functools.cached_property
    def num_replicas(self) -> int:
        """Number of replicas."""
        return int(self._ask("NumReplicas").num_replicas)

    @functools.cached_property
    def num_partitions(self) -> int:
        """Number of partitions of each replica."""
        return int(self._ask("NumPartitions").num_partitions)

    @functools.cached_property
    def num_outputs(self) -> int:
        """Number of arrays that the program returns."""
        return int(self._ask("NumOutputs").num_outputs)

    def output_specs(self) -> list[Spec]:
        """Return dtype and shape of each result, as each device sees it."""
        count = self.num_outputs
        types = self._ask("OutputElementTypes")
        dims = self._ask("OutputDimensions")
        found, at = [], 0
        for i in range(count):
            size = int(dims.dim_sizes[i])
            shape = tuple(int(dims.dims[at + j]) for j in range(size))
            found.append(spec_of(int(types.output_types[i]), shape))
            at += size
        return found

    def output_memory_kinds(self) -> list[str]:
        """Return the memory kind of each result."""
        args = self._ask("OutputMemoryKinds")
        return [
            text_of(args.memory_kinds[i], args.memory_kind_sizes[i])
            for i in range(args.num_outputs)
        ]

    def parameter_memory_kinds(self) -> list[str]:
        """Return the memory kind of each argument."""
        args = self._ask("ParameterMemoryKinds")
        return [
            text_of(args.memory_kinds[i], args.memory_kind_sizes[i])
            for i in range(args.num_parameters)
        ]

    def size_of_generated_code_in_bytes(self) -> int:
        """Return the size of the code; below 0 where the plugin does not know."""
        return int(self._ask("SizeOfGeneratedCodeInBytes").size_in_bytes)

    def fingerprint(self) -> bytes:
        """Return bytes that are equal for equal programs and equal options."""
        args = self._ask("Fingerprint")
        return bytes(ffi.buffer(args.executable_fingerprint, args.executable_fingerprint_size))

    def cost_analysis(self) -> Mapping[str, Any]:
        """Return what running the program costs, such as ``flops`` and ``bytes accessed``."""
        args = self._ask("GetCostAnalysis")
        return read_values(args.properties, args.num_properties)

    def memory_analysis(self) -> MemoryAnalysis:
        """Return what the program takes of memory."""
        args = self._ask("GetCompiledMemoryStats")
        names = [field.name for field in dataclasses.fields(MemoryAnalysis)]
        return MemoryAnalysis(*(int(getattr(args, name)) for name in names))

    def optimized_program(self) -> tuple[str, bytes]:
        """Return the program as the compiler left it: its format, and its bytes."""
        program = self._api.new("PJRT_Program")
        self._ask("OptimizedProgram", program=program)
        room = ffi.new("char[]", program.code_size)
        program.code = room
        self._ask("OptimizedProgram", program=program)
        return text_of(program.format, program.format_size), bytes(ffi.buffer(room))

    def serialize(self) -> bytes:
        """Return the executable as bytes, which a client of the same plugin loads."""
        args = self._ask("Serialize")
        try:
            return seal(bytes(ffi.buffer(args.serialized_bytes, args.serialized_bytes_size)))
        finally:
            args.serialized_executable_deleter(args.serialized_executable)

    def compile_options(self) -> bytes:
        """Return the serialised ``CompileOptionsProto`` that the program was compiled with."""
        args = self._ask("GetCompileOptions")
        try:
            return bytes(ffi.buffer(args.serialized_bytes, args.serialized_bytes_size))
        finally:
            args.serialized_compile_options_deleter(args.serialized_compile_options)

    @functools.cached_property
    def facts(self) -> HloFacts | None:
        """What the optimised program says of itself; None where the plugin does not give it."""
        try:
            form, data = self.optimized_program()
        except UnimplementedError:
            return None
        if form not in ("hlo", "hlo_with_config"):
            return None
        return read_module(data, with_config=form == "hlo_with_config")

    def custom_calls(self) -> list[str]:
        """Return the targets of the custom calls that the optimised program makes."""
        form, data = self.optimized_program()
        return custom_calls(data, with_config=form == "hlo_with_config")

    def __repr__(self) -> str:
        return f"Executable({self.name!r}, {self.num_replicas}x{self.num_partitions})"


class PjrtLoadedExecutable(Handle, LoadedExecutable):
    """A compiled program on devices of one client; `PjrtClient.compile_and_load` makes one."""

    def __init__(self, client: PjrtClient, pointer: Any, options: CompileOptions | None) -> None:
        self._client = client
        api = client._api
        found = api.call("PJRT_LoadedExecutable_GetExecutable", loaded_executable=pointer)
        self.executable = Executable(api, found.executable, client)
        repr(self.executable)  # kept from here on, as it is asked for in errors about the end
        bound = _devices_of(client, pointer)
        # A portable executable is bound to none until it runs.
        is_portable = not bound or (options is not None and options.compile_portable_executable)
        self._devices = list(client._local) if is_portable else bound
        self._runner = Runner(client, pointer, self.executable, self._devices, is_portable)
        self.execute = self._runner.execute  # type: ignore[method-assign]  # one call less
        client._executables[next(_numbers)] = self

    @property
    def name(self) -> str:
        """The program's name."""
        return self.executable.name

    @property
    def client(self) -> PjrtClient:
        """The client that compiled or loaded it."""
        return self._client

    def local_devices(self) -> list[Device]:
        """Return the devices of this process that the program runs on, in argument order.

        For a portable executable those that it may run on, each by itself.
        """
        return list(self._devices)

    def execute(self, arguments: Sequence[Buffer], device: Device | None = None) -> list[Buffer]:
        """Start the program on one device and return its results. Does not wait.

        Parameters
        ----------
        arguments
            One buffer for each parameter, on the program's device.
        device
            Where a portable executable runs; the arguments' device when omitted.
        """
        return self._runner.execute(arguments, device)

    def execute_sharded(self, arguments: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        """Start the program on all its devices and return results by output, then by device.

        Parameters
        ----------
        arguments
            For each parameter, one buffer on each of `local_devices`, in any order.
        """
        return self._runner.execute_sharded(arguments)

    def serialize(self) -> bytes:
        """Return the executable as bytes; see `PjrtClient.deserialize_executable`."""
        with self._client._using("serialize"):
            return self.executable.serialize()

    def fingerprint(self) -> bytes:
        """Return bytes that are equal for equal programs and equal options."""
        return self.executable.fingerprint()

    def cost_analysis(self) -> Mapping[str, Any]:
        """Return what running the program costs."""
        return self.executable.cost_analysis()

    def memory_analysis(self) -> MemoryAnalysis:
        """Return what the program takes of memory."""
        return self.executable.memory_analysis()

    def optimized_program(self) -> tuple[str, bytes]:
        """Return the program as the compiler left it: its format, and its bytes."""
        return self.executable.optimized_program()

    def parameter_specs(self) -> list[Spec] | None:
        """Return dtype and shape of each argument on each device; None where nobody knows."""
        return self._runner.parameter_specs()

    def output_specs(self) -> list[Spec]:
        """Return dtype and shape of each result on each device."""
        return self.executable.output_specs()

    @property
    def parameters(self) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each parameter, of one device's shard."""
        specs = self.parameter_specs()
        if specs is None:
            raise self._unimplemented("parameters")
        return [(spec.shape, spec.dtype) for spec in specs]

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each output, of one device's shard."""
        return [(spec.shape, spec.dtype) for spec in self.output_specs()]

    @property
    def num_replicas(self) -> int:
        """Number of replicas."""
        return self.executable.num_replicas

    @property
    def donated_parameters(self) -> list[int]:
        """Indices of the parameters whose buffers a call deletes."""
        return list(self._facts("donated_parameters").donated)

    @property
    def is_collective(self) -> bool:
        """Whether its devices may wait for each other."""
        return len(self._devices) > 1 and self._facts("is_collective").may_communicate

    @property
    def custom_calls(self) -> list[str]:
        """The targets of the custom calls that the optimised program makes."""
        return self.executable.custom_calls()

    def get_parameter_shardings(self) -> list[OpSharding]:
        """Return how the compiler divided each parameter; empty with one partition."""
        facts = self._facts("get_parameter_shardings")
        return [OpSharding.parse(data) for data in facts.parameter_shardings]

    def get_output_shardings(self) -> list[OpSharding]:
        """Return how the compiler divided each output; empty with one partition."""
        facts = self._facts("get_output_shardings")
        return [OpSharding.parse(data) for data in facts.result_shardings]

    def get_hlo_text(self) -> str:
        """Return the compiler's own program as text in HLO's notation, for people to read."""
        form, data = self.optimized_program()
        if form != "hlo_with_config":
            raise self._unimplemented("get_hlo_text")
        return hlo_text(data)

    def _facts(self, operation: str) -> HloFacts:
        facts = self.executable.facts
        if facts is None:
            raise self._unimplemented(operation)
        return facts

    def delete(self) -> None:
        """Unload the program once no execution in flight uses it. Idempotent."""
        self._runner.delete()

    def is_deleted(self) -> bool:
        """Return whether `delete` was called, or the client closed."""
        return self._runner.is_deleted or self._client.is_closed

    def __repr__(self) -> str:
        state = ", deleted" if self.is_deleted() else ""
        return f"PjrtLoadedExecutable({self.executable!r} on {self._devices}{state})"


def _devices_of(client: PjrtClient, pointer: Any) -> list[PjrtDevice]:
    args = client._api.call("PJRT_LoadedExecutable_AddressableDevices", executable=pointer)
    return [
        client._by_address[int(ffi.cast("uintptr_t", args.addressable_devices[i]))]
        for i in range(args.num_addressable_devices)
    ]

"""Compiled programs: as they are, and loaded on devices."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from devrt.contract.members import Contract

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract.buffer import Buffer
    from devrt.contract.client import Client
    from devrt.contract.device import Device
    from devrt.contract.op_sharding import OpSharding
    from devrt.layout import PjRtLayout

__all__ = ["CallTable", "Executable", "ExecutionToken", "LoadedExecutable"]


class Executable(metaclass=Contract):
    """A compiled program that is bound to no device, such as `Topology.compile` makes.

    Attributes
    ----------
    name : str
        The program's name.
    num_replicas : int
        How many copies of the program run together; 1 by default.
    num_partitions : int
        Among how many devices each copy is divided; 1 by default.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @property
    def parameters(self) -> Sequence[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each parameter, of one device's shard."""
        raise _unimplemented(self, "parameters")

    @property
    def outputs(self) -> Sequence[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each output, of one device's shard."""
        raise _unimplemented(self, "outputs")

    @property
    def num_replicas(self) -> int:
        return 1

    @property
    def num_partitions(self) -> int:
        return 1

    @property
    def donated_parameters(self) -> Sequence[int]:
        """Indices of the parameters whose buffers a call deletes; none by default."""
        return []

    @property
    def custom_calls(self) -> Sequence[str]:
        """The targets of the custom calls that the compiled program makes; none by default."""
        return []

    @property
    def fingerprint(self) -> bytes:
        """Bytes that are equal for equal programs and equal options."""
        raise _unimplemented(self, "fingerprint")

    def get_parameter_layouts(self) -> Sequence[PjRtLayout]:
        """Return how each parameter must lie in memory; row-major by default."""
        return _row_major(self.parameters)

    def get_output_layouts(self) -> Sequence[PjRtLayout]:
        """Return how each output lies in memory; row-major by default."""
        return _row_major(self.outputs)

    def get_parameter_memory_kinds(self) -> Sequence[str]:
        """Return the memory kind of each parameter."""
        raise _unimplemented(self, "get_parameter_memory_kinds")

    def get_output_memory_kinds(self) -> Sequence[str]:
        """Return the memory kind of each output."""
        raise _unimplemented(self, "get_output_memory_kinds")

    def cost_analysis(self) -> Mapping[str, Any]:
        """Return what running the program costs, such as ``flops`` and ``bytes accessed``."""
        raise _unimplemented(self, "cost_analysis")

    def get_compiled_memory_stats(self) -> Mapping[str, int]:
        """Return what the program takes of a device's memory, and of the host's, in bytes."""
        raise _unimplemented(self, "get_compiled_memory_stats")

    def size_of_generated_code_in_bytes(self) -> int:
        """Return the size of the code; below 0 where nobody knows."""
        return -1

    def serialize(self) -> bytes:
        """Return the executable as bytes, for `Client.deserialize_executable`."""
        raise _unimplemented(self, "serialize")

    def get_parameter_shardings(self) -> list[OpSharding]:
        """Return how the compiler divided each parameter; empty with one partition."""
        raise _unimplemented(self, "get_parameter_shardings")

    def get_output_shardings(self) -> list[OpSharding]:
        """Return how the compiler divided each output; empty with one partition."""
        raise _unimplemented(self, "get_output_shardings")

    def get_hlo_text(self) -> str:
        """Return the compiler's own program as text in HLO's notation, for people to read."""
        raise _unimplemented(self, "get_hlo_text")

    def optimized_program(self) -> tuple[str, bytes]:
        """Return the compiler's own program: its format, and its bytes.

        XLA's format is ``"hlo_with_config"``, a serialised ``HloModuleProtoWithConfig``.
        """
        raise _unimplemented(self, "optimized_program")

    def hlo_modules(self) -> Sequence[Any]:
        """Return `optimized_program` in jaxlib's form: a list of one module.

        It has a ``name``, ``to_string()`` and ``as_serialized_hlo_module_proto()``.
        """
        raise _unimplemented(self, "hlo_modules")

    def compile_options(self) -> Any:
        """Return the `devrt.compiling.options.CompileOptions` that it was compiled with."""
        raise _unimplemented(self, "compile_options")


class ExecutionToken(metaclass=Contract):
    """The end of a program on one device, apart from its results."""

    @abc.abstractmethod
    def is_ready(self) -> bool:
        """Return whether the program has ended."""

    @abc.abstractmethod
    def block_until_ready(self) -> Any:
        """Wait until the program has ended; raises the error that it failed with."""


class CallTable(Protocol):
    """Calls by the keys of their arguments, which are compared by identity; see `key_table`."""

    @property
    def find(self) -> Callable[[tuple[Any, ...]], Any]:
        """Takes a tuple of arguments, calls what was added for their keys, and returns its result.

        None, with nothing done, where one is no array or there is no such call.
        """

    def add(
        self,
        keys: Sequence[Any],
        call: Callable[[Any], Any],
        build: Callable[[Any], Any] | None,
    ) -> None:
        """Add what is called with the arguments, and then with that result."""

    def clear(self) -> None:
        """Forget the calls. What was made of the table finds none any more."""

    def shortcut(
        self,
        context: Any,
        stamp: Any,
        otherwise: Callable[..., Any],
        explain: Callable[[tuple[Any, ...], Exception], Any],
    ) -> Callable[..., Any]:
        """Return a function that calls by the table, for any arguments.

        While ``context.stamp`` is ``stamp`` it calls what the table has for arguments by position.
        For all else it returns what ``otherwise`` does with the arguments. If a call of the table
        raises, it calls ``explain`` with the tuple of arguments and the error, which raises.
        """


class LoadedExecutable(Executable):
    """A compiled program, loaded on the devices it was compiled for.

    Attributes
    ----------
    client : Client
        The client that compiled or loaded it.
    num_partitions : int
        Among how many devices each copy is divided; by default all that there are.
    """

    @property
    @abc.abstractmethod
    def client(self) -> Client: ...

    @property
    def num_partitions(self) -> int:
        return max(1, len(self.local_devices()) // self.num_replicas)

    @property
    def is_collective(self) -> bool:
        """Whether its devices may wait for each other; by default whether there are several."""
        return len(self.local_devices()) > 1

    def get_parameter_memory_kinds(self) -> Sequence[str]:
        """Return the memory kind of each parameter; by default that of the device's default."""
        return [self.local_devices()[0].default_memory().kind] * len(self.parameters)

    def get_output_memory_kinds(self) -> Sequence[str]:
        """Return the memory kind of each output; by default that of the device's default."""
        return [self.local_devices()[0].default_memory().kind] * len(self.outputs)

    @abc.abstractmethod
    def local_devices(self) -> list[Device]:
        """Return the devices of this process that the program runs on, in argument order."""

    def device_assignment(self) -> list[list[Device]]:
        """Return the devices by replica, then by partition; by default the local ones in order."""
        devices, width = self.local_devices(), self.num_partitions
        return [devices[at : at + width] for at in range(0, len(devices), width)]

    @abc.abstractmethod
    def execute(self, arguments: Sequence[Buffer]) -> list[Buffer]:
        """Start the program on one device and return its results. Does not wait.

        Raises
        ------
        InvalidArgumentError
            If the number, dtype, shape or device of an argument does not fit the program.
        """

    @abc.abstractmethod
    def execute_sharded(
        self, arguments: Sequence[Sequence[Buffer]], with_tokens: bool = False
    ) -> Any:
        """Start the program on all its devices and return results by output, then by device.

        Parameters
        ----------
        arguments
            For each parameter, one buffer on each of `local_devices`, in their order.
        with_tokens
            Whether to return ``(results, tokens)`` instead, with one `ExecutionToken` for each
            device.
        """

    def execute_with_token(
        self, arguments: Sequence[Buffer]
    ) -> tuple[list[Buffer], ExecutionToken]:
        """Do as `execute`, and return with the results a token of the program's end.

        It is the only way to wait for a program without results.
        """
        raise _unimplemented(self, "execute_with_token")

    def array_caller(
        self,
        array_class: type[Any],
        takes: Sequence[Any],
        first: Sequence[Sequence[Buffer]],
        gives: Sequence[tuple[Any, Any, Any]],
        is_committed: bool,
        gives_one: bool,
    ) -> Callable[[Sequence[Any]], Any] | None:
        """Return what calls the program with arrays faster than `execute` by way of Python.

        It takes a list or tuple of the arguments, which follow the buffers ``first``, and returns a
        list of arrays, one for each result. For a program on one device an argument may be a
        buffer. It returns None, and does nothing, where an argument is no array that lies as the
        program takes it, or does not fit.

        Parameters
        ----------
        array_class
            `devrt.Array`; its slots are those that its constructor sets.
        takes
            The sharding of each argument, over the program's devices in their order. An array that
            has this object as its sharding lies there; one that has none yet, and one buffer in the
            default memory of the program's one device, gets it.
        first
            Buffers of the first parameters, one for each device.
        gives
            For each result what its array gets: the sharding, the shape (None for the shape of its
            one buffer), and the key of dispatch.
        is_committed
            Whether results are committed to their place.
        gives_one
            Whether the array of an only result is returned itself.

        Returns
        -------
        callable or None
            None, the default, where there is no such way.
        """
        del array_class, takes, first, gives, is_committed, gives_one
        return None

    def key_table(self, array_class: type[Any]) -> CallTable | None:
        """Return a new table of calls by the keys of their arguments, faster than one in Python.

        Parameters
        ----------
        array_class
            `devrt.Array`, whose slot ``_key`` has an array's key or None.

        Returns
        -------
        CallTable or None
            None, the default, where there is no such table.
        """
        del array_class
        return None

    @abc.abstractmethod
    def delete(self) -> None:
        """Unload the program once no execution in flight uses it. Idempotent."""

    @abc.abstractmethod
    def is_deleted(self) -> bool:
        """Return whether `delete` was called."""


def _row_major(arrays: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> list[PjRtLayout]:
    from devrt.layout import PjRtLayout, row_major

    return [PjRtLayout(row_major(len(shape))) for shape, _ in arrays]


def _unimplemented(executable: Executable, operation: str) -> Exception:
    from devrt.errors import UnimplementedError

    client = getattr(executable, "client", None)
    whose = "this program" if client is None else f"the executables of the {client.platform} client"
    facts = {} if client is None else {"platform": client.platform}
    return UnimplementedError(
        f"{operation} is not offered by {whose}.", operation=operation, **facts
    )

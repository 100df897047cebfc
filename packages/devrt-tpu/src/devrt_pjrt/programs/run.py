"""Running a loaded executable."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.errors import (
    DeadlineExceededError,
    DeletedError,
    DevrtError,
    InvalidArgumentError,
    StatusCode,
    UnimplementedError,
    UnraisableErrorWarning,
)
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers.buffer import PjrtBuffer, handles_of
from devrt_pjrt.buffers.laid_out import LaidOutBuffer
from devrt_pjrt.buffers.layout import is_dense
from devrt_pjrt.buffers.spec import Spec
from devrt_pjrt.connection.event import Event
from devrt_pjrt.library.apart import INTERRUPTS, call_apart
from devrt_pjrt.library.checks import checked_launch_id, listed
from devrt_pjrt.programs.arguments import Arguments
from devrt_pjrt.programs.stall import Stall
from devrt_pjrt.programs.token import PjrtToken

if TYPE_CHECKING:
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.device import PjrtDevice, PjrtMemory
    from devrt_pjrt.programs.compiled import Executable

__all__ = ["Runner"]

_NEW_RESULT = ffi.typeof("devrt_result *")
_NEW_HANDLES = ffi.typeof("uintptr_t[]")
_execute_one = lib.devrt_execute_one
_NULL = ffi.NULL
_LAST_THAT_TAKES_APART = (0, 106)  # of the C API; devrt-cpu's engines have the same
_PATIENCE = 1.0
"""Seconds for an argument that depends on data to be sent, perhaps by another thread."""

Output = tuple[Spec, "PjrtMemory", Callable[..., PjrtBuffer]]


class Runner:
    """Owns a loaded executable, a ``PJRT_LoadedExecutable*``, and runs it.

    ``devices`` are those of this process that it runs on, in argument order; a portable executable
    runs on any one of them.
    """

    def __init__(
        self,
        connection: Connection,
        pointer: Any,
        executable: Executable,
        devices: list[PjrtDevice],
        is_portable: bool,
    ) -> None:
        self._connection = connection
        self._pointer: Any = pointer
        self._executable = executable
        self._devices = devices
        self._is_portable = is_portable
        self.is_deleted = False
        # Errors name the program when nothing can be queried any more.
        self._label = f"program {executable.name!r}"
        self._label_here = f"{self._label} on {devices[0]}" if devices else self._label
        facts = executable.facts
        self._parameters = executable.parameter_specs()
        takes = facts.parameters if facts is not None else ()
        self._arguments = Arguments(connection, self._label, self._parameters, takes)
        self._donated = executable.donated  # None: perhaps any of them
        self._outputs = [self._outputs_on(device) for device in devices]
        self._one = devices[0] if len(devices) == 1 and not is_portable else None
        # A loop over little data is run on the caller's thread, however often it goes round.
        is_host = connection.traits.runs_on_caller
        self._may_block = is_host and facts is not None and facts.has_loop
        self._is_plain = (
            self._one is not None
            and self._parameters is not None
            and self._arguments.are_dense
            and self._donated == ()
            and not self._may_block
        )
        # One after the other is four times as fast on a processor, and hangs where devices wait
        # for each other; a result on the wrong device would show in its memory. Later libraries
        # begin a program once all its shards are there.
        takes_apart = is_host and connection.library.version <= _LAST_THAT_TAKES_APART
        self._one_by_one = takes_apart and facts is not None and not facts.may_communicate
        # The others wait for a device whose argument has failed for ever, and the client with them.
        self._needs_arrived = is_host and len(devices) > 1 and not self._one_by_one
        self._is_collective = facts is not None and facts.is_collective
        self._devices_array = ffi.new("PJRT_Device *[]", [d.pointer for d in devices])
        self._donated_array = ffi.new("int64_t[]", list(self._donated or ()))
        connection.runners.add(self)

    def _outputs_on(self, device: PjrtDevice) -> list[Output]:
        specs, kinds = self._executable.output_specs(), self._kinds()
        facts = self._executable.facts
        results = facts.results if facts is not None else ()
        made: list[Output] = []
        for at, spec in enumerate(specs):
            memory: Any = device.memory(kinds[at]) if kinds else device.default_memory()
            dense = len(results) != len(specs) or is_dense(results[at])
            kind = PjrtBuffer if dense else partial(LaidOutBuffer, layout=results[at].layout)
            made.append((spec, memory, kind))
        return made

    def _kinds(self) -> list[str]:
        try:
            return self._executable.get_output_memory_kinds()
        except UnimplementedError:
            return []

    # -- one device ---------------------------------------------------------------------------

    def execute(
        self, arguments: Sequence[Any], device: Any = None, launch_id: int = 0
    ) -> list[Any]:
        """Run on one device; see `PjrtLoadedExecutable.execute`."""
        if arguments.__class__ is not list:
            arguments = listed(arguments, "execute", "arguments")
        arguments = tuple(arguments)  # nobody else can take a buffer out of this one meanwhile
        if not self._is_plain or device is not None or launch_id:
            return self._execute_chosen(arguments, device, launch_id)[0]
        here, parameters = self._one, self._parameters
        assert parameters is not None
        if len(arguments) != len(parameters):
            self._arguments.check_count(len(arguments))
        handles = handles_of(arguments, parameters, here)
        if handles is None:
            return self._execute_chosen(arguments, device)[0]  # which refuses it, or does not
        pointer = self._pointer
        if pointer is None or self.is_deleted:
            self._refuse_deleted()
        outputs = self._outputs[0]
        connection = self._connection
        if len(outputs) != 1:
            return self._execute_many(handles, arguments, outputs)
        spare = connection.results
        result = spare.pop() if spare else ffi.new(_NEW_RESULT)
        connection.last_run = self._label_here
        # One result fits into the structure itself.
        status = _execute_one(connection.core, pointer, handles, len(handles), _NULL, 1, result)
        if status:
            self._fail(status, result, arguments)
        handle = result.handle
        spare.append(result)
        spec, memory, kind = outputs[0]
        return [kind(connection, handle, spec, memory, self._devices[0])]

    def _execute_many(
        self, handles: list[int], arguments: Sequence[Any], outputs: list[Output]
    ) -> list[Any]:
        self._connection.last_run = self._label_here
        connection, here, count = self._connection, self._devices[0], len(outputs)
        made, result = ffi.new(_NEW_HANDLES, count), ffi.new(_NEW_RESULT)
        status = _execute_one(
            connection.core, self._pointer, handles, len(handles), made, count, result
        )
        if status:
            self._fail(status, result, arguments)
        return [
            kind(connection, handle, spec, memory, here)
            for handle, (spec, memory, kind) in zip(made, outputs, strict=True)
        ]

    def execute_with_token(self, arguments: Sequence[Any]) -> tuple[list[Any], PjrtToken]:
        """Run on one device, and return a token of the end beside the results."""
        arguments = tuple(listed(arguments, "execute", "arguments"))
        made, (token,) = self._execute_chosen(arguments, None, with_tokens=True)
        return made, token

    def _execute_chosen(
        self,
        arguments: Sequence[Any],
        device: Any,
        launch_id: int = 0,
        *,
        with_tokens: bool = False,
    ) -> tuple[list[Any], list[PjrtToken]]:
        """Run where there is something to choose or to take over."""
        if len(self._devices) != 1 and not self._is_portable:
            msg = (
                f"execute failed: {self._label} runs on {len(self._devices)} devices. Call "
                "execute_sharded with one buffer on each for every parameter."
            )
            raise InvalidArgumentError(msg, operation="execute")
        here: Any = self._devices[0]
        client = self._connection.client
        if self._is_portable:
            here = device or (getattr(arguments[0], "device", None) if arguments else here)
            if not getattr(here, "is_addressable", False) or here.client is not client:
                msg = f"execute failed: {here!r} is no device of {client!r} in this process."
                raise InvalidArgumentError(msg, operation="execute")
        elif device is not None and device is not here:
            msg = (
                f"execute failed: {self._label} was compiled for {here}, not for {device}. "
                "Compile it with compile_portable_executable=True."
            )
            raise InvalidArgumentError(msg, operation="execute")
        self._arguments.check([(a,) for a in arguments], [here])
        chosen = ffi.new("PJRT_Device *[]", [here.pointer]) if self._is_portable else ffi.NULL
        outputs = self._outputs_on(here) if self._is_portable else self._outputs[0]
        (made,), tokens = self._run(
            [list(arguments)],
            [here],
            [outputs],
            chosen,
            one_by_one=False,
            launch_id=checked_launch_id(launch_id),
            with_tokens=with_tokens,
        )
        return made, tokens

    # -- all devices --------------------------------------------------------------------------

    def execute_sharded(
        self, arguments: Sequence[Sequence[Any]], with_tokens: bool, launch_id: int
    ) -> Any:
        """Run on all devices; see `PjrtLoadedExecutable.execute_sharded`."""
        devices = self._devices
        if self._is_portable:
            msg = f"execute_sharded failed: {self._label} is portable, and runs on one device."
            raise InvalidArgumentError(msg, operation="execute_sharded")
        arguments = listed(arguments, "execute_sharded", "arguments")
        self._arguments.check_count(len(arguments))
        ordered = [
            self._arguments.by_device(at, shards, devices) for at, shards in enumerate(arguments)
        ]
        self._arguments.check(ordered, devices)
        by_device = [[shards[i] for shards in ordered] for i in range(len(devices))]
        chosen = self._devices_array if self._one_by_one and len(devices) > 1 else ffi.NULL
        made, tokens = self._run(
            by_device,
            devices,
            self._outputs,
            chosen,
            one_by_one=bool(chosen),
            launch_id=checked_launch_id(launch_id),
            with_tokens=with_tokens,
        )
        results = [list(shards) for shards in zip(*made, strict=True)]
        return (results, tokens) if with_tokens else results

    def _run(
        self,
        by_device: list[list[Any]],
        devices: list[PjrtDevice],
        outputs: list[list[Output]],
        chosen: Any,
        *,
        one_by_one: bool,
        launch_id: int,
        with_tokens: bool,
    ) -> tuple[list[list[Any]], list[PjrtToken]]:
        connection, count = self._connection, len(outputs[0])
        if self._pointer is None or self.is_deleted:
            self._refuse_deleted()
        run = ffi.new("devrt_execution *")
        run.executable = self._pointer
        run.num_devices, run.num_args, run.num_outputs = len(devices), len(by_device[0]), count
        run.devices, run.one_by_one = chosen, one_by_one
        run.needs_arrived, run.is_collective = self._needs_arrived, self._is_collective
        # Nobody may know how many arguments the program takes, or which of them it takes over.
        donated: Sequence[int] | None = self._donated
        array = self._donated_array
        if donated is None:
            donated = range(run.num_args)
            array = ffi.new("int64_t[]", list(donated))
        run.num_donated = bisect.bisect_left(donated, run.num_args)
        run.donated = array
        run.launch_id = launch_id
        watches = ffi.new("devrt_watch *[]", len(devices)) if with_tokens else ffi.NULL
        run.watches = watches
        handles = [buffer.handle for buffers in by_device for buffer in buffers]
        made = ffi.new(_NEW_HANDLES, max(1, len(devices) * count))
        result = ffi.new(_NEW_RESULT)
        connection.last_run = self._label_here
        donations: Stall | None = None
        while status := self._start(run, handles, made, result, by_device):
            if status == lib.DEVRT_BUSY:
                donations = donations or Stall(connection.core)
                donations.check(self._label, devices)
                continue
            given = [b for buffers in by_device for b in buffers]
            if status not in (lib.DEVRT_WAITING, lib.DEVRT_PROMISED):
                self._fail(status, result, given)
            if result.index < len(given):
                self._await(given, status, result)
            else:  # it is another program's turn
                connection.refuse_if_stuck("execute_sharded")
        results = [
            [
                kind(connection, made[row * count + at], spec, memory, device)
                for at, (spec, memory, kind) in enumerate(outputs[row])
            ]
            for row, device in enumerate(devices)
        ]
        return results, [PjrtToken(Event.of_watch(connection, w)) for w in watches or ()]

    def _start(self, run: Any, handles: list[int], made: Any, result: Any, buffers: Any) -> int:
        core = self._connection.core

        calls, call = self._connection.calls, object()

        def execute() -> tuple[int, Any]:
            try:
                return int(lib.devrt_execute(core, run, handles, made, result)), (self, buffers)
            finally:
                calls.discard(call)

        def drop(late: tuple[int, Any]) -> None:
            for handle in made if late[0] == lib.DEVRT_OK else ():
                lib.devrt_release(handle)

        if not self._may_block:
            return execute()[0]
        if threading.current_thread() is threading.main_thread():
            calls.add(call)
        return call_apart(execute, core=core, on_late=drop)[0]

    def _await(self, given: Sequence[Any], status: int, result: Any) -> None:
        """Wait for an argument, or raise its own error; not for data that may never be sent."""
        transfers = self._connection.managers
        owes = status == lib.DEVRT_PROMISED and any(t.owes_data() for t in transfers)
        try:
            given[result.index].wait("execute_sharded", _PATIENCE if owes else None)
        except DeadlineExceededError:
            self._fail(status, result, given)

    # -- failures -----------------------------------------------------------------------------

    def _fail(self, status: int, result: Any, buffers: Sequence[Any]) -> NoReturn:
        if status in (lib.DEVRT_DELETED, lib.DEVRT_PROMISED):
            at = int(result.index)
            number = at % max(1, len(buffers) // max(1, len(self._devices)))
            head = f"execute failed: argument {number} of {self._label}, {buffers[at]!r},"
            facts: dict[str, Any] = {"operation": "execute", "argument": number}
            if status == lib.DEVRT_DELETED:
                raise DeletedError(f"{head} was deleted or donated. Put it again.", **facts)
            msg = f"{head} has not come, and its devices wait for each other. Send its data first."
            raise DevrtError(msg, code=StatusCode.FAILED_PRECONDITION, **facts)
        error = self._connection.error(status, "execute", result, program=self._executable.name)
        if INTERRUPTS:
            raise INTERRUPTS.pop() from error
        raise error

    def _refuse_deleted(self) -> NoReturn:
        if self._connection.is_closed:
            raise self._connection.error(lib.DEVRT_CLOSED, "execute", None)
        self.check_not_deleted("execute")
        raise AssertionError(self._label)

    def check_not_deleted(self, operation: str) -> None:
        """Raise if `delete` was called."""
        if self.is_deleted or self._pointer is None:
            msg = f"{operation} failed: {self._label} was deleted. Compile it again."
            raise DeletedError(msg, operation=operation)

    # -- the end ------------------------------------------------------------------------------

    def delete(self) -> None:
        """Free what the executable holds on devices; its handle stays until `destroy`."""
        if self.is_deleted or self._pointer is None or self._connection.is_closed:
            self.is_deleted = True
            return
        self.is_deleted = True
        with self._connection.using("delete"):
            self._connection.api.call("PJRT_LoadedExecutable_Delete", executable=self._pointer)

    def destroy(self) -> None:
        """Give the handle back; for the client that closes, and for the collector."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._executable.release()
            self._connection.api.call("PJRT_LoadedExecutable_Destroy", executable=pointer)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is None:
            return
        core = self._connection.core
        if lib.devrt_core_enter(core) == lib.DEVRT_OK:
            try:
                self.destroy()
            except DevrtError as error:
                import warnings

                warnings.warn(str(error), UnraisableErrorWarning, stacklevel=2)
            finally:
                lib.devrt_core_leave(core)

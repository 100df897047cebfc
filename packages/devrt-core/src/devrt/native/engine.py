"""How the clients of a native backend compile: by a PJRT plugin that shares their memory.

The general part, for each backend to derive from. Nothing opens a library before a client compiles.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from devrt.compiling import Program
from devrt.compiling.completion import assign_devices, complete, device_ids
from devrt.compiling.hlo import HloModule, refuse_feed
from devrt.compiling.load_or_compile import load_or_compile
from devrt.compiling.loading import read_to_load
from devrt.compiling.options import CompileOptions
from devrt.compiling.quirks import Quirk, refuse
from devrt.compiling.refusals import check, compile_explained, custom_calls_explained
from devrt.compiling.serialized import Serialized, origin_of
from devrt.errors import ClosedError, DeviceLostError, InvalidArgumentError
from devrt.native.custom_calls import custom_calls_of
from devrt.native.engines import cache_of

if TYPE_CHECKING:
    from devrt.compiling.custom_call_registry import Handler
    from devrt.compiling.device_assignment import DeviceAssignment
    from devrt.compiling.load_or_compile import CacheSource
    from devrt.compiling.quirks import Flag

__all__ = ["Engine", "EngineLibrary"]


class EngineLibrary(Protocol):
    """A compiler's library: where it is, and what is known to be wrong with it."""

    @property
    def path(self) -> str:
        """Where it is."""

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """What is wrong with it, as far as is known."""


Found = TypeVar("Found", bound=EngineLibrary)


class Engine(Generic[Found]):
    """How the clients of one backend compile; a backend derives from it.

    Needed are `native`, `library` and `more_devices`; the other members without an underscore that
    have a default are there to be overridden.

    Parameters
    ----------
    platform
        The platform.
    package
        The package that the native module is in; also the name of the distribution, with hyphens.
    """

    def __init__(self, platform: str, package: str) -> None:
        self.platform = platform
        self.package = package

    # -- what the backend says --------------------------------------------------------------------

    @property
    def native(self) -> Any:
        """The native module."""
        raise NotImplementedError

    def library(self, client: Any) -> Found:
        """Return the library that a client compiles with; opens nothing."""
        raise NotImplementedError

    def opened(self, client: Any) -> Found:
        """Return the same, once it is known that opening it does not end the process."""
        return self.library(client)

    def more_devices(self, needed: int) -> str:
        """Return what to do about a program that needs more devices than the client has."""
        raise NotImplementedError

    def platform_version(self, client: Any, own: str) -> str:
        """Return the versions of the backend, which is given, and of the compiler."""
        return f"{own}, {self.library(client).path}"

    def check_flags(self, library: Found, flags: Mapping[str, object], operation: str) -> None:
        """Refuse flags of the caller's that a compiler does not have."""

    def flags(self, library: Found, program: Program) -> Mapping[str, Flag | str]:
        """Return the flags that a program is compiled with, unless the caller gives others."""
        return {}

    def compiler(self, library: Found) -> str:
        """Return the file that compiles, where the library hands programs on to another."""
        return library.path

    def quiet(self, library: Found) -> AbstractContextManager[None]:
        """Return what keeps a library's informational lines off standard error."""
        return nullcontext()

    def handlers(self) -> Sequence[str]:
        """Return the custom calls that the backend answers itself."""
        return ()

    def provided_words(self) -> str:
        """Return a sentence on those, for the error on a custom call that nobody answers."""
        return ""

    def is_provided(self, name: str) -> bool:
        """Return whether the backend answers a custom call itself."""
        return name in self.handlers()

    def named_calls(self, code: bytes) -> Iterable[str]:
        """Return the calls of `handlers` that a program's bytes name, where it cannot be read."""
        return ()

    def provide(self, library: Found, names: Iterable[str]) -> None:
        """Have a library's programs find the handlers of those custom calls."""

    def machine(self, client: Any) -> Sequence[str]:
        """Return what compiled programs depend on beside this host's processor."""
        return ()

    def numbers(self, client: Any, library: Found) -> Mapping[int, int]:
        """Return the compiler's numbers of the devices that it knows, by their ids.

        They are this process's, by their places in `local_devices`, unless the compiler says
        otherwise: one that is part of a job knows the devices of all processes.
        """
        return {device: number for number, device in enumerate(_local_ids(client))}

    def check_compiled(self, source: Program, executable: Any) -> None:
        """Refuse a compiled program that the backend cannot run."""

    # -- what clients have ------------------------------------------------------------------------

    def compile_and_load(
        self,
        client: Any,
        program: str | bytes,
        devices: Sequence[Any] | None = None,
        compile_options: CompileOptions | None = None,
        **options: Any,
    ) -> Any:
        """Compile a StableHLO program and load it on devices.

        Parameters
        ----------
        client
            The client whose devices and memory the program uses.
        program
            StableHLO as text or as portable bytecode.
        devices
            Where it runs: one device for each replica and partition, replicas outermost. None for
            the first devices of this process, as many as the program needs.
        compile_options
            Options, in place of keyword arguments.
        **options
            The fields of `devrt.compiling.options.CompileOptions`.

        Returns
        -------
        devrt.contract.LoadedExecutable
            The program, ready to be called.

        Raises
        ------
        UnimplementedError
            If no compiler is installed, the program has parameters or outputs that no buffer can
            be, or makes a custom call that nobody answers; the message names it.
        InvalidArgumentError
            If the program does not parse, with line and column, or an option or device does not
            fit.
        """
        operation = "compile_and_load"
        source = Program.of(program)
        check(source, operation)
        library = self.opened(client)
        refuse(library.quirks, source, operation)
        given = CompileOptions.of({"compile_options": compile_options, **options})
        complete = self._complete(client, library, source, devices, given, operation)
        chosen = complete.serialize()

        def compile(code: bytes) -> Any:
            return self.native._compile(client, library.path, code, "mlir", chosen)

        with self.quiet(library), self._explained():
            facts = source.facts
            self.provide(
                library, facts.custom_calls if facts.is_whole else self.named_calls(source)
            )
            executable = load_or_compile(
                self._cache(client, library, complete),
                self.platform,
                library.path,
                facts,
                (self.platform, source, chosen, *self.machine(client)),
                answers=self.is_provided,
                load=lambda known: self.native._deserialize(client, library.path, known, chosen),
                compile=functools.partial(compile_explained, source, compile),
                serialize=lambda made: made._serialize(),
            )
        self.check_compiled(source, executable)
        return executable

    def serialize_executable(self, client: Any, executable: Any) -> bytes:
        """Return a compiled program as bytes, for `deserialize_executable`."""
        if executable.client is not client:
            msg = "the executable belongs to another client. Serialise it there."
            raise InvalidArgumentError(msg, operation="serialize_executable")
        data: bytes = executable.serialize()
        return data

    def deserialize_executable(
        self,
        client: Any,
        serialized: bytes,
        devices: Sequence[Any] | None = None,
        compile_options: CompileOptions | None = None,
        **options: Any,
    ) -> Any:
        """Load what `serialize_executable` gave, of this or another process.

        Without devices and options it runs on the devices, by number, that it was compiled for, or
        that it was loaded on when it was serialised. Options leave its replicas and partitions as
        they are, and its devices, unless others are named.

        Raises
        ------
        InvalidArgumentError
            If the bytes are no such executable, are damaged, or come from another version of the
            compiler or another kind of machine.
        """
        operation = "deserialize_executable"
        given = CompileOptions.of({"compile_options": compile_options, **options})
        library = self.opened(client)
        ids = {number: device for device, number in self.numbers(client, library).items()}
        read = functools.partial(self._read, library=library.path, operation=operation)
        found, chosen = read_to_load(serialized, devices, given, read, ids)
        over = found.options
        if chosen is not None:
            done = self._complete(client, library, Program(), devices, chosen, operation)
            over = done.serialize()
        code = found.data
        with self.quiet(library), self._explained():
            self.provide(library, self.named_calls(code))
            loaded = self.native._deserialize(client, library.path, code, over)
        if b"infeed" in code or b"outfeed" in code:
            refuse_feed(HloModule.read(loaded.optimized_program()[1]), self.platform, loaded.delete)
        return loaded

    def register_custom_call(
        self, client: Any, name: str, function: Any, *, kind: str = "host"
    ) -> None:
        """Let programs call a function; see `devrt.contract.Client.register_custom_call`."""
        if client.is_closed:
            msg = (
                f"register_custom_call failed: the {self.platform} client is closed. Make a new "
                "client."
            )
            raise ClosedError(msg, operation="register_custom_call", platform=self.platform)
        library = self.library(client)
        with self.quiet(library):
            custom_calls_of(self.package).register(
                name,
                function,
                kind,
                functools.partial(self._bind, library.path),
                owner=f"the {self.platform} platform",
                scope=library.path,
                library=self.compiler(library),
                reserved=self.handlers(),
                platform=self.platform,
            )

    # -- how --------------------------------------------------------------------------------------

    def _cache(self, client: Any, library: Found, options: CompileOptions) -> CacheSource | None:
        """Return what opens the disk cache for a program; None for one of several processes.

        Their compilers share the search for the fastest code of such a program: one that loaded it
        would leave the others waiting.
        """
        if client.device_count() == client.local_device_count():
            return cache_of(client)
        numbers, assigned = self.numbers(client, library), options.assignment()
        local = {numbers[device] for device in _local_ids(client)}
        is_local = assigned is None or all(local.issuperset(row) for row in assigned.ids)
        return cache_of(client) if is_local else None

    def _bind(self, library: str, handler: Handler, address: int | None) -> int:
        if address is None:
            slot: int = self.native._register_custom_call(library, handler.name, handler.is_device)
        else:
            slot = self.native._register_native_custom_call(library, handler.name, address)
        return slot

    def _explained(self) -> AbstractContextManager[None]:
        """Turn the compiler's error on an unknown custom call into one that says what to do."""
        return custom_calls_explained(self.platform, self.provided_words)

    def _read(self, data: bytes, library: str, operation: str) -> Serialized:
        """Return what `engines.serialized` was given, for a compiler's library."""
        found = Serialized.read(data, operation)
        if not found.made_by:
            msg = (
                f"{operation} failed: these bytes cannot be loaded here: they are no executable "
                f"that {self.package.replace('_', '-')} serialised. Compile again."
            )
            raise InvalidArgumentError(msg, operation=operation)
        found.check_origin(origin_of(library), operation)
        return found

    def _complete(
        self,
        client: Any,
        library: Found,
        program: Program,
        devices: Sequence[Any] | None,
        options: CompileOptions,
        operation: str,
    ) -> CompileOptions:
        """Fill in what was left to the program, the devices or the client."""
        if options.compile_portable_executable:
            msg = (
                "compile_portable_executable is for programs without devices, and those of the "
                f"{self.platform} platform are bound to some. Leave it out."
            )
            raise InvalidArgumentError(msg, operation=operation)
        self.check_flags(library, options.env_option_overrides, operation)
        named = device_ids(client, devices, operation)
        local = _local_ids(client)
        made = complete(options, program, named, operation)
        remedy = self.more_devices(made.device_count)
        made = assign_devices(made, named, local, operation, remedy)
        numbers = self.numbers(client, library)
        return made.replace(
            env_option_overrides={**self.flags(library, program), **options.env_option_overrides},
            device_assignment=self._engine_numbers(made.assignment(), numbers, operation),
        )

    def _engine_numbers(
        self, assignment: DeviceAssignment | None, numbers: Mapping[int, int], operation: str
    ) -> DeviceAssignment | None:
        """Return an assignment by the engine's numbers."""
        usable = {device: number for device, number in numbers.items() if number != _LOST}
        try:
            return assignment and assignment.renumbered(usable)
        except KeyError as error:
            device = error.args[0]
        if device in numbers:
            name = f"{self.platform}:{device}"
            msg = (
                f"{operation} failed: {name} was lost before the client's first program, and the "
                f"compiler has the other devices alone, which are {sorted(usable)}. Run on those, "
                "or close the client and make a new one."
            )
            raise DeviceLostError(msg, operation=operation, device=name)
        msg = (
            f"{operation} failed: device {device} is none of this process's, nor of another's that "
            f"the compiler knows. Use ids of these: {sorted(usable)}."
        )
        raise InvalidArgumentError(msg, operation=operation)


_LOST = -1
"""The number of a device that was lost before the engine was made: `kLost` of the native half."""


def _local_ids(client: Any) -> list[int]:
    """Return the ids of this process's devices, in their order."""
    return [device.id for device in client.local_devices()]

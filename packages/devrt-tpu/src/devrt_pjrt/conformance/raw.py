"""A library's function table, called with nothing in between, as a careful C program would.

What devrt's client makes sure of before it calls a library is left out here on purpose: these calls
are how the conformance kit learns what the library itself does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from devrt.errors import DevrtError
from devrt.testing.conformance import Failure, NotApplicable
from devrt_pjrt._native import ffi
from devrt_pjrt.library.api import structure_type, text_of
from devrt_pjrt.library.library import Library
from devrt_pjrt.library.values import NamedValues

__all__ = ["CODES", "Answer", "Raw", "Ready"]

CODES = {
    number: name.removeprefix("PJRT_Error_Code_")
    for number, name in ffi.typeof("PJRT_Error_Code").elements.items()
}
"""The names of error codes."""

UNIMPLEMENTED = 12
_PATIENCE = 20.0  # seconds for an event; a case has 30
_callbacks: list[Any] = []  # a late call must find its callback: they live as long as the process


class Answer(NamedTuple):
    """The code and the message of an error, which is destroyed."""

    code: int
    message: str

    def __str__(self) -> str:
        return f"{CODES.get(self.code, self.code)}: {self.message.strip()[:500]}"


class Ready:
    """The calls of an event's callback: for each the error that it was given, or None."""

    def __init__(self) -> None:
        self.calls: list[Answer | None] = []
        self._called = threading.Event()

    def add(self, answer: Answer | None) -> None:
        self.calls.append(answer)
        self._called.set()

    def wait(self, what: str, seconds: float = _PATIENCE) -> Answer | None:
        """Return the first call's error, or None."""
        if not self._called.wait(seconds):
            raise Failure(f"{what} ready within {seconds:g} s", "its callback was not called")
        return self.calls[0]


_clients: dict[int, tuple[Any, Answer | None]] = {}
"""The clients of this process, by the address of the table."""


class Raw:
    """One library in this process.

    Parameters
    ----------
    library
        The library, open.
    note
        Called with a kind of note and what is noted: ``called`` and a function's name before each
        call of it, so that a crash has a name; ``probed`` where the call is only to be refused.
    options
        What the client is created with.
    topology
        The name and the options of a topology that the library can make, where one is known.
    """

    def __init__(
        self,
        library: Library,
        note: Callable[[str, str], None],
        options: Mapping[str, Any],
        topology: tuple[str, Mapping[str, Any]] | None,
    ) -> None:
        self.library = library
        self.options = options
        self.named_topology = topology
        self.api = library.api
        self.table = library.api.table
        self.note = note
        self._scope = ExitStack()
        self._kept: list[Any] = []

    @contextmanager
    def freeing(self) -> Iterator[None]:
        """Destroy at the end what is owned within, the last first."""
        with ExitStack() as scope:
            self._scope = scope
            yield
        self._kept.clear()

    # -- calls --------------------------------------------------------------------------------

    def calling(self, function: str) -> None:
        """Note that a function is called now."""
        self.note("called", function)

    def has(self, function: str) -> bool:
        """Return whether the table has a function."""
        return self.api.has(function)

    def need(self, *functions: str) -> None:
        """End the case as not applicable where the table lacks a function."""
        for function in functions:
            if not self.has(function):
                raise NotApplicable(f"the library has no {function}")

    def attempt(self, function: str, **fields: Any) -> tuple[Any, Answer | None]:
        """Call a function; return its arguments, and its error or None."""
        self.need(function)
        return self.attempt_with(function, self.arguments(f"{function}_Args", **fields))

    def attempt_with(
        self, function: str, args: Any, kind: str = "called"
    ) -> tuple[Any, Answer | None]:
        """Do as `attempt` with arguments that are made already; ``kind`` is that of the note."""
        self.need(function)
        self.start()
        self.note(kind, function)
        return args, self.take(getattr(self.table, function)(args))

    def call(self, function: str, **fields: Any) -> Any:
        """Call a function and return its arguments; an error fails the case.

        One that says that the function is unimplemented makes it not applicable.
        """
        args, answer = self.attempt(function, **fields)
        self.succeeded(function, answer)
        return args

    def succeeded(self, function: str, answer: Answer | None) -> None:
        """Fail the case for an error, but for UNIMPLEMENTED, where it is not applicable."""
        if answer is None:
            return
        self._check_implemented(function, answer)
        raise Failure(f"{function} returns no error", str(answer))

    def _check_implemented(self, function: str, answer: Answer) -> None:
        if answer.code == UNIMPLEMENTED:
            self.note("unimplemented", function)
            raise NotApplicable(f"{function} is unimplemented: {answer.message.strip()[:300]}")

    def refused(self, function: str, why: str, **fields: Any) -> Answer:
        """Call a function that has to return an error; return that."""
        _, answer = self.attempt(function, **fields)
        return self.is_refused(function, why, answer)

    def is_refused(self, function: str, why: str, answer: Answer | None) -> Answer:
        """Fail the case if there is no error."""
        if answer is None:
            raise Failure(f"{function} returns an error for {why}", "no error")
        self._check_implemented(function, answer)
        return answer

    def take(self, error: Any) -> Answer | None:
        """Return an error's code and message, and destroy it; None for none."""
        if not error:
            return None
        message = self.arguments("PJRT_Error_Message_Args", error=error)
        self.calling("PJRT_Error_Message")
        self.table.PJRT_Error_Message(message)
        code = self.arguments("PJRT_Error_GetCode_Args", error=error)
        self.calling("PJRT_Error_GetCode")
        failed = self.table.PJRT_Error_GetCode(code)
        number = -1 if failed else int(code.code)
        answer = Answer(number, text_of(message.message, message.message_size))
        self.calling("PJRT_Error_Destroy")
        self.table.PJRT_Error_Destroy(self.arguments("PJRT_Error_Destroy_Args", error=error))
        return answer

    def start(self) -> None:
        """Initialise the library, once."""
        if not self.library.is_initialized:
            self.calling("PJRT_Plugin_Initialize")
            self.library.initialize()

    # -- memory -------------------------------------------------------------------------------

    def arguments(self, structure: str, **fields: Any) -> Any:
        """Return a structure with its size filled in, which lives as long as the case."""
        return self.keep(self.api.new(structure, **fields))

    def keep(self, value: Any) -> Any:
        """Return a value that lives as long as the case."""
        self._kept.append(value)
        return value

    def new(self, kind: str, value: Any = None) -> Any:
        """Return C memory that lives as long as the case."""
        return self.keep(ffi.new(kind, value))

    def numbers(self, values: Any, kind: str = "int64_t[]") -> Any:
        """Return an array of ints, null where there are none."""
        return self.new(kind, list(values)) if values else ffi.NULL

    def text(self, data: bytes) -> Any:
        """Return characters."""
        return self.new("char[]", data)

    def own(self, function: str, **fields: Any) -> None:
        """Call a function that destroys when the case ends."""
        self._scope.callback(self._destroy, function, fields)

    def _destroy(self, function: str, fields: dict[str, Any]) -> None:
        self.call(function, **fields)

    # -- events -------------------------------------------------------------------------------

    def on_ready(self, event: Any) -> Ready:
        """Ask to be called when an event is ready."""
        ready = Ready()

        @ffi.callback("void(PJRT_Error *, void *)")  # type: ignore[untyped-decorator]
        def called(error: Any, _: Any) -> None:
            ready.add(self.take(error))

        _callbacks.append(called)
        self.call("PJRT_Event_OnReady", event=event, callback=called, user_arg=ffi.NULL)
        return ready

    def settle(self, event: Any, what: str, *, owned: bool = True) -> Answer | None:
        """Wait for an event, destroy it if it is the case's, and return its error."""
        if event == ffi.NULL:
            raise Failure(f"an event of {what}", "a null pointer")
        ready = self.on_ready(event)
        answer = ready.wait(f"the event of {what} is")
        if owned:
            self.call("PJRT_Event_Destroy", event=event)
        return answer

    @contextmanager
    def ready_by_its_end(self, event: Any, what: str) -> Iterator[None]:
        """Fail the case unless an event is made ready within the block; destroy it."""
        ready = self.on_ready(event)
        if ready.calls:
            raise Failure(f"{what}, not ready before that", "it is ready")
        yield
        answer = ready.wait(f"{what} is")
        self.call("PJRT_Event_Destroy", event=event)
        if answer is not None:
            raise Failure(f"{what} without an error", str(answer))

    def done(self, event: Any, what: str) -> None:
        """Wait for an event that has to come without an error, and destroy it."""
        answer = self.settle(event, what)
        if answer is not None:
            raise Failure(f"the event of {what} has no error", str(answer))

    # -- the client ---------------------------------------------------------------------------

    def create(self, **fields: Any) -> tuple[Any, Answer | None]:
        """Make a client with the options that the kit's caller gives."""
        values = self.keep(NamedValues(self.options))
        args, answer = self.attempt(
            "PJRT_Client_Create", create_options=values.array, num_options=values.count, **fields
        )
        return args.client, answer

    def _made(self) -> tuple[Any, Answer | None]:
        key = int(ffi.cast("uintptr_t", self.table))
        if key not in _clients:
            _clients[key] = self.create()
        return _clients[key]

    @property
    def client(self) -> Any:
        """The client of this process; where none can be made the case is not applicable."""
        try:
            client, answer = self._made()
        except DevrtError as error:
            raise NotApplicable(f"the library could not be initialised: {error}") from error
        if answer is not None:
            raise NotApplicable(f"no client could be made: {answer}")
        if not client:
            raise NotApplicable("no client could be made: PJRT_Client_Create gave a null pointer")
        return client

    def devices(self) -> list[Any]:
        """Return the client's addressable devices."""
        function = "PJRT_Client_AddressableDevices"
        if not self.has(function):
            everyone = self.call("PJRT_Client_Devices", client=self.client)
            return [everyone.devices[i] for i in range(everyone.num_devices)]
        args = self.call(function, client=self.client)
        return [args.addressable_devices[i] for i in range(args.num_addressable_devices)]

    def device(self) -> Any:
        """Return the first addressable device."""
        found = self.devices()
        if not found:
            raise NotApplicable("the client has no addressable device")
        return found[0]

    def size_of(self, structure: str) -> int:
        """Return a structure's size as libraries count it."""
        return structure_type(structure)[1]

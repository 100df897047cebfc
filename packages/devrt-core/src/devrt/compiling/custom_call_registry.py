"""Functions that compiled programs call by a name: one registry for every client.

A plugin forgets no handler, so what is known of them lives as long as the process. How a plugin
comes to call them is the client's part: it binds a name to a slot, and asks for the slot's answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from devrt import dtypes
from devrt._support.words import words
from devrt.compiling.custom_call_address import address_of
from devrt.compiling.hlo import ELEMENT_TYPE_CODES
from devrt.contract import DeviceCall, RawBuffer
from devrt.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    PeerLostError,
    PluginError,
    StatusCode,
)

if TYPE_CHECKING:
    import numpy as np

__all__ = ["CustomCallRegistry", "Handler", "code_of", "dtype_of"]

Call = tuple[Sequence[RawBuffer], Sequence[RawBuffer], Mapping[str, Any], int]
"""Arguments, results, attributes and stream of one call."""


class CustomCallRegistry:
    """What was registered with the plugins of one kind of client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: dict[int, Handler] = {}
        self._known: dict[Hashable, int | None] = {}  # the slot; None for native code

    def register(
        self,
        name: str,
        function: Any,
        kind: str,
        bind: Callable[[Handler, int | None], int],
        *,
        owner: str,
        scope: Hashable = None,
        library: str = "",
        reserved: Collection[str] = (),
        **facts: Any,
    ) -> None:
        """Register a function; see `devrt.contract.Client.register_custom_call`.

        Parameters
        ----------
        name, function, kind
            As there.
        bind
            Registers the name with the plugin, for the handler or for the address of native code,
            and returns the slot that it took.
        owner
            What the name is registered with, for the error.
        scope
            What tells plugins apart that have names of their own.
        library
            The file of the compiler, where one is known: XLA has a table of names for each, which
            all kinds of clients of the process share and in which a name's first function stays.
        reserved
            Names that are taken from the beginning.
        **facts
            Attributes of the error.

        Raises
        ------
        PluginError
            If the name is taken; one callable may take another's place, but not another kind of
            client's.
        InvalidArgumentError
            If an argument is none of these.
        """
        handler = _checked(name, function, kind)
        address = address_of(function)
        key = scope, name
        with self._lock, _first_of(library, _Named(self, handler, owner), **facts):
            if address is None and self._is_replaced(key, handler):
                return
            if key in self._known or name in reserved:
                msg = (
                    f"custom call {name!r} is registered with {owner} already, which cannot "
                    "forget a handler. Use another name."
                )
                raise PluginError(msg, name=name, **facts)
            slot = bind(handler, address)
            self._known[key] = slot if address is None else None
            if address is None:
                self._handlers[slot] = handler

    def answer(self, slot: int, read: Callable[[], Call]) -> tuple[int, str] | None:
        """Call a slot's function; on whatever thread the program runs.

        Parameters
        ----------
        slot
            Which one.
        read
            Reads what the plugin gives.

        Returns
        -------
        tuple or None
            The status code and the message of what it raised, or None.

        Raises
        ------
        KeyboardInterrupt
            If it raised that in the main thread: it was meant for the program that waits for this.
        """
        handler = self._handlers.get(slot)
        if handler is None:
            with self._lock:  # a name is bound a moment before its handler is here
                handler = self._handlers.get(slot)
        if handler is None:
            return int(StatusCode.CANCELLED), "the process's Python interpreter ends"
        try:
            handler.call(*read())
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and _is_main():
                raise
            return int(code_of(error)), handler.describe(error)
        return None

    def clear(self) -> None:
        """Release the functions, at the end of the interpreter, before what they hold."""
        self._handlers.clear()

    def _is_replaced(self, key: Hashable, handler: Handler) -> bool:
        """Put another function of Python behind a name that has one."""
        slot = self._known.get(key)
        if slot is None or self._handlers[slot].is_device != handler.is_device:
            return False
        self._handlers[slot] = handler
        return True


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


@dataclasses.dataclass(frozen=True, slots=True)
class Handler:
    """A function of Python, by the name that programs call it by.

    Attributes
    ----------
    name : str
        The custom call's target.
    function : callable
        What is called.
    is_device : bool
        Whether it takes a `DeviceCall`, instead of arrays and attributes.
    """

    name: str
    function: Callable[..., Any]
    is_device: bool

    def call(
        self,
        arguments: Sequence[RawBuffer],
        results: Sequence[RawBuffer],
        attributes: Mapping[str, Any],
        stream: int = 0,
    ) -> None:
        """Call the function, and fill the results with what it returns.

        Raises
        ------
        ValueError
            If it returns something else than the results take. What it raises itself goes through.
        """
        if self.is_device:
            given = tuple(arguments), tuple(results), dict(attributes)
            self.function(DeviceCall(*given, stream))
            return
        made = self.function(*map(_copied, arguments), **attributes)
        values = made if isinstance(made, tuple | list) else () if made is None else (made,)
        if len(values) != len(results):
            msg = f"it must return {len(results)} array(s), and returned {len(values)}"
            raise ValueError(msg)
        for at, (value, result) in enumerate(zip(values, results, strict=True)):
            _fill(at, value, result)

    def describe(self, error: BaseException) -> str:
        """Return an error that it raised, with the line, as the program's error says it."""
        text = f"custom call {self.name!r}{_place_of(error)} raised "
        text += f"{type(error).__name__}: {words(error)}"
        return text.replace("\0", " ").encode(errors="replace").decode()


class _Named(NamedTuple):
    """What has a name in a library's table."""

    registry: CustomCallRegistry
    handler: Handler
    owner: str


_named: dict[tuple[str, str], _Named] = {}
"""By library and name, for as long as the process lives, as XLA forgets none."""


@contextlib.contextmanager
def _first_of(library: str, new: _Named, **facts: Any) -> Iterator[None]:
    """Note who has a name of a library once it is registered.

    Another function of another kind of client is refused: its programs would call the first.
    """
    name = new.handler.name
    first = _named.get((os.path.realpath(library), name), new) if library else new
    if first.registry is not new.registry and first.handler != new.handler:
        msg = (
            f"custom call {name!r} is registered with {first.owner} already, and programs of both "
            f"are compiled by {library}, which calls one function by a name. Use another name."
        )
        raise PluginError(msg, name=name, **facts)
    yield
    if library and first.registry is new.registry:
        _named[os.path.realpath(library), name] = new


_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_BITS = {element.code: element.bits for element in dtypes.ELEMENT_TYPES}


@functools.cache
def dtype_of(number: int) -> np.dtype[Any]:
    """Return the dtype of one of XLA's element types.

    Raises
    ------
    NotImplementedError
        If NumPy has no bytes for it.
    """
    code = ELEMENT_TYPE_CODES.get(number, 0)
    if _BITS.get(code, 0) < 8:
        msg = f"element type {number} of XLA cannot be given to a function of Python"
        raise NotImplementedError(msg)
    return dtypes.to_numpy(code)


def _checked(name: object, function: Any, kind: object) -> Handler:
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"a custom call's name is a string, not {name!r}.", name=name)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        msg = f"a custom call's name is text, and {name!r} cannot be written as UTF-8."
        raise InvalidTypeError(msg, name=name) from error
    if kind not in ("host", "device"):
        msg = f"custom call {name!r}: kind must be 'host' or 'device', not {kind!r}."
        raise InvalidArgumentError(msg, name=name)
    return Handler(name, function, kind == "device")


def _copied(buffer: RawBuffer) -> np.ndarray[Any, Any]:
    """Return an argument as an array of its own: the plugin's memory ends with the call."""
    import numpy as np

    made = np.empty(buffer.shape, buffer.dtype)
    if made.nbytes:
        ctypes.memmove(made.ctypes.data, buffer.address, made.nbytes)
    return made


def _fill(at: int, value: object, result: RawBuffer) -> None:
    import numpy as np

    given = np.asarray(value)
    if given.shape != result.shape or given.dtype != result.dtype:
        msg = (
            f"result {at} must be {result.dtype.name}{list(result.shape)}, and is "
            f"{given.dtype.name}{list(given.shape)}"
        )
        raise ValueError(msg)
    dense = np.ascontiguousarray(given)
    if dense.nbytes:
        ctypes.memmove(result.address, dense.ctypes.data, dense.nbytes)


def _place_of(error: BaseException) -> str:
    """Return the line that raised; of an error of devrt's own the caller's, if there is one.

    None for an error of what devrt itself calls for a program, as that which tells a lost process.
    """
    frames = _frames(error)
    if not frames or isinstance(error, PeerLostError):
        return ""
    if frames[-1][0].startswith(_OWN):
        frames = [frame for frame in frames if not frame[0].startswith((_OWN, _LIBRARY))][:1]
    return f" ({frames[-1][0]}:{frames[-1][1]})" if frames else ""


def _frames(error: BaseException) -> list[tuple[str, int]]:
    """Return the files and lines that an error came through, the outermost first."""
    found, at = [], error.__traceback__
    while at is not None:
        found.append((at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    return found


def code_of(error: BaseException) -> StatusCode:
    """Return the status of an error that any library may have raised."""
    code = _own_code(error)
    if code in _CODES:
        return StatusCode(code)
    for kind, status in _KINDS:
        if isinstance(error, kind):
            return status
    named = (status for status in StatusCode if status.value and status.name in words(error))
    return next(named, StatusCode.INTERNAL)


def _own_code(error: BaseException) -> int | None:
    """Return an error's ``code`` where it can be a status: exits have one that is none."""
    if isinstance(error, SystemExit):
        return None
    code = None
    with contextlib.suppress(Exception):  # it may be a property of anybody's
        code = getattr(error, "code", None)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


_CODES = frozenset(StatusCode) - {StatusCode.OK}
_KINDS: tuple[tuple[type[BaseException], StatusCode], ...] = (
    (TimeoutError, StatusCode.DEADLINE_EXCEEDED),
    (MemoryError, StatusCode.RESOURCE_EXHAUSTED),
    (NotImplementedError, StatusCode.UNIMPLEMENTED),
    (ValueError, StatusCode.INVALID_ARGUMENT),
    (TypeError, StatusCode.INVALID_ARGUMENT),
)

"""The errors that devrt raises, split by who must act.

Every error carries the absl/PJRT status ``code`` and the data it speaks of as attributes, pickles
with both, and has a message that says what failed, on which object, why, and what to do next.
"""

from __future__ import annotations

import copy
import enum
from typing import Any, Self

__all__ = [
    "BackendInitializationError",
    "BackendUnavailableError",
    "ClosedError",
    "ConcretizationTypeError",
    "ConfigError",
    "ContractDeprecationWarning",
    "DeadlineExceededError",
    "DeletedError",
    "DeviceLostError",
    "DevrtError",
    "DevrtWarning",
    "DiscoveryWarning",
    "DistributedError",
    "ForkedError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidIndexError",
    "InvalidTypeError",
    "NoBackendError",
    "NonConcreteBooleanIndexError",
    "OutOfMemoryError",
    "PeerLostError",
    "PluginBusyError",
    "PluginContractError",
    "PluginError",
    "PluginLoadError",
    "SelectionError",
    "StatusCode",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnboundAxisError",
    "UnexpectedTracerError",
    "UnimplementedError",
    "UnknownPlatformError",
    "UnraisableErrorWarning",
    "from_status",
]


class StatusCode(enum.IntEnum):
    """Status codes shared by absl, gRPC and the PJRT C API (``PJRT_Error_Code``)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class DevrtError(RuntimeError):
    """Root of every error that devrt raises.

    Parameters
    ----------
    message
        What failed, on which object, why, and what to do.
    code
        Status code; the class's own when omitted.
    **data
        Facts about the failure, kept as attributes (``operation``, ``device``, ``plugin`` ...).

    Attributes
    ----------
    code : StatusCode
        The absl/PJRT status code.
    """

    default_code: StatusCode = StatusCode.UNKNOWN

    def __init__(
        self, message: str = "", /, *, code: StatusCode | int | None = None, **data: Any
    ) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else StatusCode(code)
        self._data = data
        for name, value in data.items():
            setattr(self, name, value)

    @property
    def message(self) -> str:
        """The text alone, without the exception's type."""
        return str(self.args[0]) if self.args else ""

    @property
    def data(self) -> dict[str, Any]:
        """The facts that the error was raised with, by name."""
        return dict(self._data)

    def fresh(self) -> Self:
        """Return a copy to raise again: the same cause, and no traceback of earlier raises."""
        copied = copy.copy(self)
        copied.__cause__ = self.__cause__
        return copied

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, int(self.code), self._data)


def _rebuild(cls: type[DevrtError], message: str, code: int, data: dict[str, Any]) -> DevrtError:
    return cls(message, code=code, **data)


class PluginError(DevrtError):
    """A plugin is at fault: its author or its installation must be fixed."""

    default_code = StatusCode.FAILED_PRECONDITION


class PluginLoadError(PluginError):
    """A plugin's module could not be imported or its library not be opened."""


class PluginContractError(PluginError):
    """A plugin loaded, but what it returned is not what the plugin contract asks for."""

    default_code = StatusCode.INVALID_ARGUMENT


class PluginBusyError(PluginError):
    """A plugin was requested by what it waits for itself; unlike other failures it is not kept."""


class BackendInitializationError(PluginError):
    """A backend that was there failed to make its client."""

    default_code = StatusCode.INTERNAL


class SelectionError(DevrtError):
    """No installed backend satisfies what was requested."""

    default_code = StatusCode.NOT_FOUND


class UnknownPlatformError(SelectionError):
    """Nothing installed serves the platform that was named."""


class NoBackendError(SelectionError):
    """No backend at all is installed, or none is left after the policy was applied."""


class BackendUnavailableError(SelectionError):
    """The platform's backend is installed, but cannot be used on this machine."""

    default_code = StatusCode.UNAVAILABLE


class ConfigError(DevrtError, ValueError):
    """A configuration option, its value, or where it comes from is wrong."""

    default_code = StatusCode.INVALID_ARGUMENT


class InvalidArgumentError(DevrtError, ValueError):
    """The caller passed a value that cannot be used."""

    default_code = StatusCode.INVALID_ARGUMENT


class InvalidTypeError(InvalidArgumentError, TypeError):
    """The caller passed an object of a type that cannot be used."""


class ConcretizationTypeError(InvalidTypeError):
    """A traced function needs the value of an array, which is not known while it is traced."""


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was to become a NumPy array."""


class TracerBoolConversionError(ConcretizationTypeError):
    """The truth of a traced value is needed, as ``if`` and ``while`` do."""


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was to become a Python integer, as shapes and ``range`` need."""


class UnboundAxisError(InvalidArgumentError, NameError):
    """A collective names an axis that no enclosing manual computation binds."""


class InvalidIndexError(InvalidArgumentError, IndexError):
    """An index does not fit the array, or is none."""


class NonConcreteBooleanIndexError(ConcretizationTypeError, IndexError):
    """Truth values that are traced were to select elements: how many is not known yet."""


class UnexpectedTracerError(DevrtError):
    """A traced value was used after its trace had ended."""

    default_code = StatusCode.FAILED_PRECONDITION


class DeletedError(DevrtError):
    """A buffer or array was used after it had been deleted or donated."""

    default_code = StatusCode.FAILED_PRECONDITION


class ClosedError(DevrtError):
    """A client, or a handle that belongs to it, was used after the client was closed."""

    default_code = StatusCode.FAILED_PRECONDITION


class ForkedError(DevrtError):
    """A forked process used what stayed in its parent: clients, and imports under way there."""

    default_code = StatusCode.FAILED_PRECONDITION


class OutOfMemoryError(DevrtError, MemoryError):
    """A memory is full; the message carries the allocator's summary."""

    default_code = StatusCode.RESOURCE_EXHAUSTED


class DeviceLostError(DevrtError):
    """A device stopped answering; its client must be closed and made again."""

    default_code = StatusCode.DATA_LOSS


class DeadlineExceededError(DevrtError, TimeoutError):
    """An operation did not finish within the time it was given."""

    default_code = StatusCode.DEADLINE_EXCEEDED


class UnimplementedError(DevrtError, NotImplementedError):
    """The operation is not offered by this backend, or not yet by devrt."""

    default_code = StatusCode.UNIMPLEMENTED


class NoInterfaceError(UnimplementedError, AttributeError):
    """An array does not show itself through a protocol of other libraries; `hasattr` says so."""


class DistributedError(DevrtError):
    """Another process of the cluster failed, or the coordination service did."""

    default_code = StatusCode.UNAVAILABLE


class PeerLostError(DistributedError):
    """Processes of the cluster died, stopped or left, and what waited for them cannot end.

    ``processes`` has their ids, ``phases`` what each did last.
    """


class InternalError(DevrtError):
    """A promise that devrt or a backend makes to itself was broken: a bug to report."""

    default_code = StatusCode.INTERNAL


class DevrtWarning(UserWarning):
    """Root of the warnings that devrt issues."""


class DiscoveryWarning(DevrtWarning):
    """Something that was installed, set or plugged in is left aside, and the user may not know."""


class ContractDeprecationWarning(DevrtWarning, DeprecationWarning):
    """A plugin uses a deprecated name of the plugin contract; Python shows it to its authors."""


class UnraisableErrorWarning(DevrtWarning):
    """A failure where nothing can be raised: a destructor or a completion callback."""


_BY_CODE: dict[StatusCode, type[DevrtError]] = {
    StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    StatusCode.OUT_OF_RANGE: InvalidArgumentError,
    StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    StatusCode.RESOURCE_EXHAUSTED: OutOfMemoryError,
    StatusCode.UNIMPLEMENTED: UnimplementedError,
    StatusCode.INTERNAL: InternalError,
    StatusCode.DATA_LOSS: DeviceLostError,
}

_BY_REASON: dict[str, type[DevrtError]] = {
    "deleted": DeletedError,
    "closed": ClosedError,
    "forked": ForkedError,
    "peer": PeerLostError,
    "type": InvalidTypeError,
    "interface": NoInterfaceError,
}


_BY_NAME = {cls.__name__: cls for cls in (*_BY_CODE.values(), *_BY_REASON.values())}


def _raised_class(message: str, status: StatusCode) -> type[DevrtError] | None:
    """Return the first class that a text names as raised, and that is one of this status."""
    for text in message.split(" raised ")[1:]:
        cls = _BY_NAME.get(text.partition(":")[0])
        if cls is PeerLostError or (cls and cls.default_code == status):
            return cls
    return None


def _lost_processes(message: str) -> tuple[int, ...]:
    """Return the processes that the text of a loss names: ``Lost: processes 1, 3.``."""
    words = message.partition("Lost: process")[2].partition(".")[0]
    return tuple(int(word) for word in words.removeprefix("es").split(",") if word.strip())


def from_status(code: int, message: str, /, *, reason: str = "", **data: Any) -> DevrtError:
    """Make the error for a native status; the one translation that native modules use.

    Parameters
    ----------
    code
        A `StatusCode` value other than ``OK``; any other number counts as ``UNKNOWN``.
    message
        The text of the error.
    reason
        A finer cause within the code: ``"deleted"``, ``"closed"``, ``"forked"``, ``"peer"``,
        ``"type"``, ``"interface"``, or empty.
    **data
        Attributes of the error; empty strings are left out.

    Returns
    -------
    DevrtError
        An instance of the class that matches ``reason``, or else ``code``; not raised.
    """
    known = code in StatusCode._value2member_map_  # a foreign runtime may number its own
    status = StatusCode(code) if known else StatusCode.UNKNOWN
    cls = _BY_REASON.get(reason) or _BY_CODE.get(status, DevrtError)
    # A function of Python raised it in a program, of which this is the text.
    cls = _raised_class(message, status) or cls
    if cls is PeerLostError:
        data["processes"] = _lost_processes(message)
    return cls(message, code=status, **{k: v for k, v in data.items() if v != ""})

"""What is checked before a serialised executable is loaded, and what it keeps of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from devrt.compiling.device_assignment import DeviceAssignment
from devrt.compiling.options import CompileOptions
from devrt.compiling.serialized import Serialized
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.wire.protobuf import Message

__all__ = ["read_to_load", "stored_options"]

_OPERATION = "deserialize_executable"
_MOST = (1 << 31) - 1


def read_to_load(
    serialized: object,
    devices: object,
    options: CompileOptions,
    read: Callable[[bytes], Serialized],
    ids: Mapping[int, int] | None = None,
    *,
    is_host_code: bool = True,
) -> tuple[Serialized, CompileOptions | None]:
    """Read what a user wants loaded, and the options to load it with.

    Replicas, partitions and tuples were settled when it was compiled, and stay. So do its devices,
    unless others are named.

    Parameters
    ----------
    serialized
        What the user gives.
    devices
        The devices that the user names, or None.
    options
        The options that the user gives, for `devrt.compiling.completion` to complete.
    read
        Reads the bytes.
    ids
        The ids of devices by the numbers that the bytes have for them; None where they have ids.
    is_host_code
        Whether XLA's host compiler made them: of bytes without a checksum their options are then
        checked. Other plugins have formats of their own.

    Returns
    -------
    Serialized, CompileOptions or None
        None for the options that are with the bytes, as the user gives no other.

    Raises
    ------
    InvalidTypeError
        If it is no bytes.
    InvalidArgumentError
        If the bytes are empty, are no executable, or the options are not its own.
    """
    if not isinstance(serialized, bytes | bytearray | memoryview):
        kind = type(serialized).__name__
        msg = f"{_OPERATION} failed: a serialised executable is bytes, not of type {kind}."
        raise InvalidTypeError(msg, operation=_OPERATION)
    if not len(serialized):
        raise _refused("there are no bytes. Serialise the executable again.")
    if options.parameter_is_tupled_arguments:
        raise _refused(
            "whether a program takes its arguments in a tuple is settled when it is compiled. "
            "Leave parameter_is_tupled_arguments out."
        )
    found = read(bytes(serialized))
    if devices is None and options == CompileOptions():
        if is_host_code and not found.is_checked and found.data.startswith(b"\n"):
            _check_stored(found.data)
        return found, None
    is_placed = devices is not None or options.device_assignment is not None
    stored = _stored(found)
    if stored is None:
        _check_counts(options, is_placed)
        return found, options
    settled = _settled(options, stored)
    return found, settled if is_placed else _placed(settled, stored, ids)


def _stored(found: Serialized) -> Message | None:
    """Return the ``CompileOptionsProto`` with an executable; None where there is none to see.

    XLA's plugins write an ``ExecutableAndOptionsProto``: 2 compile_options.
    """
    try:
        stored = Message(found.options) if found.options else Message(found.data).message(2)
        build = stored.message(3)
    except InvalidArgumentError:
        return None
    return stored if build.number(4) and build.number(5) else None


def stored_options(data: bytes) -> bytes:
    """Return the serialised compile options within a plugin's bytes.

    Raises
    ------
    UnimplementedError
        If none can be seen there.
    """
    if _stored(Serialized(data)) is None:
        msg = "the compile options cannot be seen in this plugin's serialised executables."
        raise UnimplementedError(msg, operation="compile_options")
    return bytes(Message(data).part(2))


def _check_stored(data: bytes) -> None:
    """Refuse options with unchecked bytes that end the process: XLA takes no counts below one.

    Only XLA's own forms are looked at, which begin with a field 1: options are 2, behind the code,
    or 1, before it. XLA reads bytes that were cut as far as they go, and then lacks the options.
    """
    try:
        whole = Message(data)
    except InvalidArgumentError as error:
        raise _refused(f"the bytes are cut off or damaged: {error}") from error
    build = _build_of(whole, 2) or _build_of(whole, 1)
    if build is None:
        raise _refused(
            "the bytes do not show how many replicas and partitions they are for: they are damaged "
            "or of another format. Serialise the executable again, or give num_replicas and "
            "num_partitions."
        )
    if any(not -1 <= device <= _MOST for device in build.ints(1)):
        raise _refused(
            "the bytes name no device that there can be. Serialise the executable again."
        )
    if 9 in build:
        DeviceAssignment.deserialize(bytes(build.part(9)))


def _build_of(whole: Message, number: int) -> Message | None:
    """Return the ``ExecutableBuildOptionsProto`` in a field; None where it has no counts."""
    try:
        build = whole.message(number).message(3)
    except InvalidArgumentError:
        return None
    return build if all(0 < build.number(count) <= _MOST for count in (4, 5)) else None


def _check_counts(options: CompileOptions, is_placed: bool) -> None:
    is_counted = options.num_replicas is not None and options.num_partitions is not None
    if not (is_placed or is_counted or options.compile_portable_executable):
        raise _refused(
            "the bytes do not show how many replicas and partitions they are for, which options "
            "must say. Give num_replicas and num_partitions too, or devices."
        )


def _settled(options: CompileOptions, stored: Message) -> CompileOptions:
    build = stored.message(3)
    counts = {"num_replicas": build.number(4), "num_partitions": build.number(5)}
    for name, value in counts.items():
        if getattr(options, name) not in (None, value):
            raise _refused(f"{name} is {value} since it was compiled. Leave {name} out.")
    return options.replace(parameter_is_tupled_arguments=bool(stored.number(2)), **counts)


def _placed(
    options: CompileOptions, stored: Message, ids: Mapping[int, int] | None
) -> CompileOptions:
    """Return options with the devices that an executable was compiled for, if it was for some."""
    build = stored.message(3)
    if stored.number(4):
        return options.replace(compile_portable_executable=True)
    if 9 not in build or options.compile_portable_executable:
        return options
    assignment = DeviceAssignment.deserialize(bytes(build.part(9)))
    try:
        placed = assignment if ids is None else assignment.renumbered(ids)
    except KeyError as error:
        raise _refused(
            f"it is for device number {error}, which is not here. Name devices."
        ) from None
    return options.replace(device_assignment=placed)


def _refused(problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{_OPERATION} failed: {problem}", operation=_OPERATION)

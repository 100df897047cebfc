"""What compile options leave open: replicas, partitions and devices.

The caller's word comes first, then the program's, then the number of devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from devrt._support.words import kind_of
from devrt.compiling.options import CompileOptions
from devrt.contract import Device
from devrt.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from devrt.compiling.program import Program

__all__ = ["assign_devices", "complete", "device_ids", "refuse_too_few"]


def device_ids(client: object, devices: object, operation: str) -> list[int] | None:
    """Return the ids of the devices that a caller named; None where the choice is the client's.

    Raises
    ------
    InvalidTypeError
        If they are no sequence of devices.
    InvalidArgumentError
        If there is none, one is another client's, or one is named twice.
    """
    if devices is None:
        return None
    if not isinstance(devices, Iterable):
        msg = f"devices must be a sequence of devices, not of type {type(devices).__name__}."
        raise _wrong_type(msg, operation)
    given = list(devices)
    for device in given:
        if not isinstance(device, Device):
            msg = f"devices must hold devices, and one is of type {kind_of(device)}."
            raise _wrong_type(msg, operation)
        if device.client is not client:
            msg = f"{device!r} is another client's. Use devices of {client!r}."
            raise _refused(msg, operation)
    ids = [device.id for device in given]
    if not ids:
        raise _refused("devices is empty. Name some, or leave it out.", operation)
    _check_distinct(ids, operation)
    return ids


def complete(
    options: CompileOptions, program: Program, named: Sequence[int] | None, operation: str
) -> CompileOptions:
    """Return options that say how many replicas and partitions there are, and of which dialect.

    Parameters
    ----------
    options
        The caller's.
    program
        The program; an empty one where there is none to look at.
    named
        What `device_ids` returned.
    operation
        What errors name.

    Raises
    ------
    InvalidArgumentError
        If the number of named devices is another, or there is a device assignment too.
    """
    facts, assigned = program.facts, options.assignment()
    if assigned is not None:
        if named is not None:
            raise _refused("give either devices or device_assignment, not both.", operation)
        replicas, partitions = assigned.replica_count(), assigned.computation_count()
    else:
        by_program = facts.num_replicas or 1, facts.num_partitions or 1
        replicas = options.num_replicas or by_program[0]
        # A program for one device runs on each of those that are named.
        by_devices = len(named) // replicas if named is not None and by_program == (1, 1) else 0
        partitions = options.num_partitions or by_devices or by_program[1]
    shardy = options.use_shardy_partitioner
    made = options.replace(
        num_replicas=replicas,
        num_partitions=partitions,
        use_shardy_partitioner=facts.has_shardy if shardy is None else shardy,
    )
    if named is not None and made.device_count != len(named):
        msg = f"the program needs {_needed(made)}, and {len(named)} were named. Name as many."
        raise _refused(msg, operation)
    return made


def assign_devices(
    options: CompileOptions,
    named: Sequence[int] | None,
    local: Sequence[int],
    operation: str,
    remedy: str,
) -> CompileOptions:
    """Return complete options with a device assignment, replicas outermost.

    Parameters
    ----------
    options
        What `complete` returned. An assignment that they have stays.
    named
        What `device_ids` returned.
    local
        The ids of this process's devices, of which the first are taken where none were named.
    operation
        What errors name.
    remedy
        How to have more devices, as a sentence.

    Raises
    ------
    InvalidArgumentError
        If there are too few.
    """
    if options.device_assignment is not None:
        return options
    if named is None:
        refuse_too_few(options, len(local), "there are", operation, remedy)
    ids = (local if named is None else named)[: options.device_count]
    size = options.num_partitions or 1
    rows = [list(ids[at : at + size]) for at in range(0, len(ids), size)]
    return options.replace(device_assignment=rows)


def refuse_too_few(
    options: CompileOptions, available: int, where: str, operation: str, remedy: str
) -> None:
    """Refuse options for more devices than are ``available`` where ``where`` says.

    Raises
    ------
    InvalidArgumentError
        If there are too few.
    """
    if options.device_count > available:
        msg = f"the program needs {_needed(options)}, and {where} {available}. {remedy}"
        raise _refused(msg, operation)


def _check_distinct(ids: Sequence[int], operation: str) -> None:
    if len(set(ids)) != len(ids):
        raise _refused(f"name each device once, by its id: {list(ids)} does not.", operation)


def _needed(options: CompileOptions) -> str:
    counts = f"{options.num_replicas} replica(s) of {options.num_partitions} partition(s)"
    return f"{options.device_count} devices ({counts})"


def _refused(problem: str, operation: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{operation} failed: {problem}", operation=operation)


def _wrong_type(problem: str, operation: str) -> InvalidTypeError:
    return InvalidTypeError(f"{operation} failed: {problem}", operation=operation)

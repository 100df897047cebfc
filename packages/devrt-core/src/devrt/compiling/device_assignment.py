"""Which device runs which replica and partition of a program."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import bytes_field, fields, int_field, ints, packed

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DeviceAssignment"]


class DeviceAssignment:
    """Device numbers by replica and computation.

    Parameters
    ----------
    ids
        One row per replica, one device number per computation.

    Raises
    ------
    InvalidArgumentError
        If there is no device, the rows differ in length, or a number is no integer, negative or
        there twice.
    """

    __slots__ = ("_ids",)

    def __init__(self, ids: Iterable[Iterable[int]]) -> None:
        try:
            self._ids = tuple(tuple(operator.index(device) for device in row) for row in ids)
        except TypeError as error:
            msg = f"a device assignment is rows of device ids, not {ids!r}."
            raise InvalidArgumentError(msg) from error
        flat = tuple(device for row in self._ids for device in row)
        if not flat or len({len(row) for row in self._ids}) != 1:
            msg = f"a device assignment has rows of one length, and {self!r} does not."
            raise InvalidArgumentError(msg, ids=flat)
        if min(flat) < 0 or len(set(flat)) != len(flat):
            msg = f"a device assignment names each device once, by its id: {list(flat)} does not."
            raise InvalidArgumentError(msg, ids=flat)

    @staticmethod
    def create(array: np.ndarray[Any, Any]) -> DeviceAssignment:
        """Make an assignment from an integer array of shape (replicas, computations).

        Raises
        ------
        InvalidArgumentError
            If the array is not two-dimensional, empty, not of integers, negative, or names a
            device twice.
        """
        import numpy as np

        ids = np.asarray(array)
        if ids.ndim != 2 or ids.dtype.kind not in "iu" or not ids.size:
            msg = (
                "a device assignment needs a two-dimensional array of integers, indexed by "
                f"[replica][computation], not shape {ids.shape} of {ids.dtype}."
            )
            raise InvalidArgumentError(msg, shape=ids.shape)
        return DeviceAssignment(ids.tolist())

    @property
    def ids(self) -> tuple[tuple[int, ...], ...]:
        """The device numbers: a row for each replica."""
        return self._ids

    def replica_count(self) -> int:
        """Return the number of replicas."""
        return len(self._ids)

    def computation_count(self) -> int:
        """Return the number of computations per replica."""
        return len(self._ids[0])

    def renumbered(self, numbers: Mapping[int, int]) -> DeviceAssignment:
        """Return the assignment with each device under another number.

        Raises
        ------
        KeyError
            If a device has none.
        """
        return DeviceAssignment([[numbers[device] for device in row] for row in self._ids])

    def serialize(self) -> bytes:
        """Return the assignment as XLA's ``DeviceAssignmentProto``.

        Fields (``xla/xla_data.proto``): 1 replica_count, 2 computation_count, 3 repeated
        ComputationDevice, whose field 1 is the packed list of its replicas' devices.
        """
        columns = range(self.computation_count())
        return (
            int_field(1, self.replica_count())
            + int_field(2, self.computation_count())
            + b"".join(bytes_field(3, packed(1, (row[c] for row in self._ids))) for c in columns)
        )

    @staticmethod
    def deserialize(data: bytes) -> DeviceAssignment:
        """Read what `serialize`, or XLA, wrote.

        Raises
        ------
        InvalidArgumentError
            If ``data`` is no such message.
        """
        try:
            columns = [_replica_ids(value) for number, value in fields(data) if number == 3]
            counts = {number: value for number, value in fields(data) if number in (1, 2)}
            rows = list(zip(*columns, strict=True))
            if not rows or counts != {1: len(rows), 2: len(columns)}:
                raise ValueError(f"counts {counts} for {len(rows)} by {len(columns)} devices")
            return DeviceAssignment(rows)
        except (ValueError, IndexError, TypeError) as error:
            msg = f"these bytes ({reprlib.repr(data)}) are no DeviceAssignmentProto: {error}."
            raise InvalidArgumentError(msg) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceAssignment):
            return NotImplemented
        return self._ids == other._ids

    def __hash__(self) -> int:
        return hash(self._ids)

    def __repr__(self) -> str:
        return f"DeviceAssignment({[list(row) for row in self._ids]})"


def _replica_ids(message: Any) -> list[int]:
    return [device for number, value in fields(message) if number == 1 for device in ints(value)]

"""Which device runs which replica and partition of a program."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DeviceAssignment"]


class DeviceAssignment:
    """Device numbers by replica and computation.

    Made by `create` or `deserialize`.

    Parameters
    ----------
    ids
        One row per replica, one device number per computation.
    """

    __slots__ = ("_ids",)

    def __init__(self, ids: Iterable[Iterable[int]]) -> None:
        self._ids = tuple(tuple(int(device) for device in row) for row in ids)

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
        flat = ids.ravel().tolist()
        if min(flat) < 0 or len(set(flat)) != len(flat):
            msg = f"a device assignment names each device once, by its id: {flat} does not."
            raise InvalidArgumentError(msg, ids=tuple(flat))
        return DeviceAssignment(ids.tolist())

    def replica_count(self) -> int:
        """Return the number of replicas."""
        return len(self._ids)

    def computation_count(self) -> int:
        """Return the number of computations per replica."""
        return len(self._ids[0])

    def serialize(self) -> bytes:
        """Return the assignment as XLA's ``DeviceAssignmentProto``.

        Fields (``xla/xla_data.proto``): 1 replica_count, 2 computation_count, 3 repeated
        ComputationDevice, whose field 1 is the packed list of its replicas' devices.
        """
        columns = [
            _field(3, _field(1, b"".join(_varint(row[column]) for row in self._ids)))
            for column in range(self.computation_count())
        ]
        counts = (
            b"\x08" + _varint(self.replica_count()) + b"\x10" + _varint(self.computation_count())
        )
        return counts + b"".join(columns)

    @staticmethod
    def deserialize(data: bytes) -> DeviceAssignment:
        """Read what `serialize`, or XLA, wrote.

        Raises
        ------
        InvalidArgumentError
            If ``data`` is no such message.
        """
        try:
            columns = [_replica_ids(value) for number, value in _fields(data) if number == 3]
            counts = {number: value for number, value in _fields(data) if number in (1, 2)}
            rows = list(zip(*columns, strict=True))
            if not rows or counts != {1: len(rows), 2: len(columns)}:
                raise ValueError(f"counts {counts} for {len(rows)} by {len(columns)} devices")
        except (ValueError, IndexError, TypeError) as error:
            msg = f"these bytes ({reprlib.repr(data)}) are no DeviceAssignmentProto: {error}."
            raise InvalidArgumentError(msg) from error
        return DeviceAssignment(rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceAssignment):
            return NotImplemented
        return self._ids == other._ids

    def __hash__(self) -> int:
        return hash(self._ids)

    def __repr__(self) -> str:
        return f"DeviceAssignment({[list(row) for row in self._ids]})"


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _replica_ids(message: bytes) -> list[int]:
    ids: list[int] = []
    for number, value in _fields(message):
        if number != 1:
            continue
        if isinstance(value, int):
            ids.append(value)
        else:
            ids.extend(_varints(value))
    if any(device >= 1 << 63 for device in ids):  # an int64 below zero
        raise ValueError("it names a negative device")
    return ids


def _varints(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _read_varint(data, position)
        yield value


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if not byte & 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a varint is longer than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        if key & 7 == 0:
            value, position = _read_varint(data, position)
            yield key >> 3, value
        elif key & 7 == 2:
            length, position = _read_varint(data, position)
            if position + length > len(data):
                raise ValueError("it ends within a field")
            yield key >> 3, data[position : position + length]
            position += length
        else:
            raise ValueError(f"wire type {key & 7} is not expected")

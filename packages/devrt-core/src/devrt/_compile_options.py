"""Options of a compilation, in the form that XLA's plugins take them."""

from __future__ import annotations

import dataclasses
import operator
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devrt._device_assignment import DeviceAssignment
from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["CompileOptions"]

_MOST = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How a program is compiled.

    Attributes
    ----------
    num_replicas, num_partitions : int
        The program runs on the product of both. Each replica has arguments of its own; partitions
        share the arguments of one program. None: as the program or the devices say, else 1.
    device_assignment : DeviceAssignment or sequence of sequence of int, optional
        Ids of the devices: for each replica, its partitions.
    use_spmd_partitioning : bool, optional
        Whether the compiler divides one program by its shardings; None: where there are partitions.
    use_shardy_partitioner : bool, optional
        Whether shardings are written in Shardy; None: as the program has them.
    allow_spmd_sharding_propagation_to_parameters, allow_spmd_sharding_propagation_to_output : \
sequence of bool
        Whether the compiler may choose the sharding of each, or of all where there is one value.
    env_option_overrides : Mapping[str, str or bool or int or float]
        The compiler's own flags (``xla_...``), each by its name without dashes.
    """

    num_replicas: int | None = None
    num_partitions: int | None = None
    device_assignment: DeviceAssignment | Sequence[Sequence[int]] | None = None
    use_spmd_partitioning: bool | None = None
    use_shardy_partitioner: bool | None = None
    allow_spmd_sharding_propagation_to_parameters: Sequence[bool] = ()
    allow_spmd_sharding_propagation_to_output: Sequence[bool] = ()
    env_option_overrides: Mapping[str, str | bool | int | float] = dataclasses.field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        for name in ("num_replicas", "num_partitions"):
            _check_count(name, getattr(self, name))
        for name in ("use_spmd_partitioning", "use_shardy_partitioner"):
            if not isinstance(getattr(self, name), bool | None):
                raise _invalid(name, getattr(self, name), "True, False or None")
        if not isinstance(self.env_option_overrides, Mapping):
            raise _invalid(
                "env_option_overrides", self.env_option_overrides, "a mapping from names to values"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CompileOptions:
        """Make options from their names and values.

        Raises
        ------
        InvalidArgumentError
            If there is no option of a name, or a value is none that it can have.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                msg = f"there is no compile option {name!r}; there are: {', '.join(known)}."
                raise InvalidArgumentError(msg, option=name)
        return cls(**options)

    def replace(self, **changes: Any) -> CompileOptions:
        """Return these options with some changed."""
        return dataclasses.replace(self, **changes)

    def assignment(self) -> DeviceAssignment | None:
        """Return the device assignment, checked against the counts; None if there is none."""
        given = self.device_assignment
        if given is None:
            return None
        if not isinstance(given, DeviceAssignment):
            try:
                given = DeviceAssignment([[operator.index(i) for i in row] for row in given])
                given.computation_count()
            except (TypeError, IndexError) as error:
                raise _invalid("device_assignment", given, "rows of device ids") from error
        shape = given.replica_count(), given.computation_count()
        wanted = self.num_replicas or shape[0], self.num_partitions or shape[1]
        if shape != wanted:
            msg = (
                f"the device assignment has {shape[0]} replicas of {shape[1]} partitions, and the "
                f"program has {wanted[0]} of {wanted[1]}."
            )
            raise InvalidArgumentError(msg, option="device_assignment")
        return given

    def serialize(self) -> bytes:
        """Return the options as a ``CompileOptionsProto``, the same bytes for equal options.

        Fields (``xla/pjrt/proto/compile_options.proto``): 3 executable_build_options, 7
        env_option_overrides. Of the former: 4 num_replicas, 5 num_partitions, 6
        use_spmd_partitioning, 9 device_assignment, 12 and 18 propagation to outputs and to
        parameters, 19 use_shardy_partitioner.
        """
        build = _number(4, self.num_replicas or 1) + _number(5, self.num_partitions or 1)
        spmd = self.use_spmd_partitioning
        build += _number(6, (self.num_partitions or 1) > 1 if spmd is None else spmd)
        assignment = self.assignment()
        if assignment is not None:
            build += _message(9, assignment.serialize())
        build += _flags(12, self.allow_spmd_sharding_propagation_to_output)
        build += _flags(18, self.allow_spmd_sharding_propagation_to_parameters)
        build += _number(19, bool(self.use_shardy_partitioner))
        overrides = sorted(self.env_option_overrides.items())
        return _message(3, build) + b"".join(
            _message(7, _message(1, name.encode()) + _message(2, _override(name, value)))
            for name, value in overrides
        )


def _check_count(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise _invalid(name, value, f"an int from 1 to {_MOST}, or None")


def _override(name: str, value: Any) -> bytes:
    """Return an ``OptionOverrideProto``: 1 string, 2 bool, 3 int64, 4 double."""
    if not isinstance(name, str) or not name or name.startswith("-"):
        raise _invalid("env_option_overrides", name, "names without dashes")
    if isinstance(value, bool):
        return _number(2, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return _number(3, value)
    if isinstance(value, float):
        return _varint(4 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        return _message(1, value.encode())
    msg = f"the flag {name!r} must be a string, a bool, an int or a float, not {value!r}."
    raise InvalidTypeError(msg, option=name)


def _invalid(name: str, value: Any, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the compile option {name} must be {wanted}, and is {value!r}.", option=name
    )


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # as protocol buffers write a number below 0
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _message(field: int, payload: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


def _flags(field: int, values: Iterable[bool]) -> bytes:
    packed = bytes(bool(value) for value in values)
    return _message(field, packed) if packed else b""

"""Options of a compilation, as plugins take them.

Source: ``compile_options.proto`` of XLA, whose field numbers are used here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from devrt._device_assignment import DeviceAssignment
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_tpu.pjrt._protobuf import (
    bool_field,
    bytes_field,
    double_field,
    float_field,
    int_field,
    packed,
)

__all__ = ["CompileOptions"]

_MOST = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How a program is compiled.

    Attributes
    ----------
    num_replicas, num_partitions : int
        The program runs on the product of both. Replicas have inputs of their own, partitions
        share one program's.
    device_assignment : sequence of sequence of int, optional
        Ids of the devices: for each replica, its partitions. None leaves the choice to the plugin.
    use_spmd_partitioning : bool, optional
        Whether XLA splits the program by its shardings; None: where there are partitions.
    use_shardy_partitioner : bool, optional
        Whether shardings are Shardy's; None: as the program has them.
    parameter_is_tupled_arguments : bool
        Whether all arguments come as one tuple.
    compile_portable_executable : bool
        Whether the executable runs on any one device, chosen at each call.
    allow_spmd_sharding_propagation_to_parameters, allow_spmd_sharding_propagation_to_output : \
sequence of bool
        Whether XLA may choose the sharding of each, or of all where there is one value.
    exec_time_optimization_effort, memory_fitting_effort : float
        From -1 to 1; 0 is the compiler's default.
    device_memory_size : int
        Bytes that the program may use; 0 for what the device has.
    flags : Mapping[str, str or bool or int or float]
        The compiler's own flags (``xla_...``), each by its name without dashes.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    device_assignment: Sequence[Sequence[int]] | None = None
    use_spmd_partitioning: bool | None = None
    use_shardy_partitioner: bool | None = None
    parameter_is_tupled_arguments: bool = False
    compile_portable_executable: bool = False
    allow_spmd_sharding_propagation_to_parameters: Sequence[bool] = ()
    allow_spmd_sharding_propagation_to_output: Sequence[bool] = ()
    exec_time_optimization_effort: float = 0.0
    memory_fitting_effort: float = 0.0
    device_memory_size: int = 0
    flags: Mapping[str, str | bool | int | float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("num_replicas", "num_partitions"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
                raise _invalid(name, value, f"an int from 1 to {_MOST}")
        for name in ("parameter_is_tupled_arguments", "compile_portable_executable"):
            if not isinstance(getattr(self, name), bool):
                raise _invalid(name, getattr(self, name), "True or False")
        for name in ("use_spmd_partitioning", "use_shardy_partitioner"):
            if not isinstance(getattr(self, name), bool | None):
                raise _invalid(name, getattr(self, name), "True, False or None")
        for name in ("exec_time_optimization_effort", "memory_fitting_effort"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not -1 <= value <= 1:
                raise _invalid(name, value, "a number from -1 to 1")
        size = self.device_memory_size
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 1 << 63:
            raise _invalid("device_memory_size", size, "a number of bytes")
        if not isinstance(self.flags, Mapping):
            raise _invalid("flags", self.flags, "a mapping from names to values")
        self._check_assignment()

    def _check_assignment(self) -> None:
        rows = self.device_assignment
        if rows is None:
            return
        try:
            sizes = {len(row) for row in rows}
            numbers = [int(number) for row in rows for number in row]
        except (TypeError, ValueError) as error:
            raise _invalid("device_assignment", rows, "rows of device ids") from error
        if len(rows) != self.num_replicas or sizes != {self.num_partitions}:
            wanted = f"{self.num_replicas} row(s) of {self.num_partitions} device id(s)"
            raise _invalid("device_assignment", rows, wanted)
        if len(set(numbers)) != len(numbers) or any(number < 0 for number in numbers):
            raise _invalid("device_assignment", rows, "different devices, none below 0")

    def replace(self, **changes: Any) -> CompileOptions:
        """Return these options with some changed."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CompileOptions:
        """Return options from their names and values; the error lists the names that there are."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [name for name in options if name not in known]
        if unknown:
            msg = (
                f"there is no compile option {unknown[0]!r}; options: {', '.join(known)}. "
                "The compiler's own flags go into flags."
            )
            raise InvalidArgumentError(msg, option=unknown[0])
        return cls(**options)

    def serialize(self) -> bytes:
        """Return the options as a serialised ``CompileOptionsProto``, equal for equal options."""
        return (
            bool_field(2, self.parameter_is_tupled_arguments)
            + bytes_field(3, self._build_options())
            + bool_field(4, self.compile_portable_executable)
            + b"".join(
                bytes_field(7, bytes_field(1, name.encode()) + bytes_field(2, _flag(name, value)))
                for name, value in sorted(self.flags.items())
            )
        )

    def _build_options(self) -> bytes:
        to_parameters = self.allow_spmd_sharding_propagation_to_parameters
        to_output = self.allow_spmd_sharding_propagation_to_output
        spmd = self.use_spmd_partitioning
        rows = self.device_assignment
        # The device's ordinal stands for "any" below 0, which is also what the default means.
        return (
            int_field(1, -1)
            + int_field(4, self.num_replicas)
            + int_field(5, self.num_partitions)
            + bool_field(6, self.num_partitions > 1 if spmd is None else spmd)
            + (bytes_field(9, DeviceAssignment(rows).serialize()) if rows is not None else b"")
            + (packed(12, map(bool, to_output)) if to_output else b"")
            + (int_field(15, self.device_memory_size) if self.device_memory_size else b"")
            + (packed(18, map(bool, to_parameters)) if to_parameters else b"")
            + bool_field(19, bool(self.use_shardy_partitioner))
            + float_field(20, self.exec_time_optimization_effort)
            + float_field(21, self.memory_fitting_effort)
        )


def _flag(name: str, value: Any) -> bytes:
    if not isinstance(name, str) or not name or name.startswith("-"):
        raise _invalid("flags", name, "names without dashes")
    if isinstance(value, bool):
        return int_field(2, int(value))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return int_field(3, value)
    if isinstance(value, float):
        return double_field(4, value)
    if isinstance(value, str):
        return bytes_field(1, value.encode())
    msg = f"flag {name!r} must be a string, a bool, an int or a float, and is {value!r}."
    raise InvalidTypeError(msg, option=name)


def _invalid(name: str, value: Any, wanted: str) -> InvalidArgumentError:
    msg = f"compile option {name} must be {wanted}, and is {value!r}."
    return InvalidArgumentError(msg, option=name, value=value)

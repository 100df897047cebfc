"""Options of a compilation, in the form that XLA's plugins take them.

Source of the field numbers: ``compile_options.proto`` of XLA.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from devrt.compiling.device_assignment import DeviceAssignment
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.wire.protobuf import (
    Message,
    bool_field,
    bytes_field,
    double_field,
    float_field,
    int_field,
    packed,
)

__all__ = ["CompileOptions"]

_MOST = 1 << 20

_COUNTS = ("num_replicas", "num_partitions")
_FLAGS = ("parameter_is_tupled_arguments", "compile_portable_executable")
_CHOICES = ("use_spmd_partitioning", "use_shardy_partitioner")
_EFFORTS = ("exec_time_optimization_effort", "memory_fitting_effort")
_PROPAGATIONS = (
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How a program is compiled.

    Attributes
    ----------
    num_replicas, num_partitions : int
        The program runs on the product of both. Each replica has arguments of its own; partitions
        share the arguments of one program. None: as the program or the devices say, else 1.
    device_assignment : DeviceAssignment or sequence of sequence of int, optional
        Ids of the devices: for each replica, its partitions. None leaves the choice to the client.
    use_spmd_partitioning : bool, optional
        Whether the compiler divides one program by its shardings; None: where there are partitions.
    use_shardy_partitioner : bool, optional
        Whether shardings are written in Shardy; None: as the program has them.
    parameter_is_tupled_arguments : bool
        Whether all arguments come as one tuple.
    compile_portable_executable : bool
        Whether the executable runs on any one device, chosen at each call.
    allow_spmd_sharding_propagation_to_parameters, allow_spmd_sharding_propagation_to_output : \
sequence of bool
        Whether the compiler may choose the sharding of each, or of all where there is one value.
    exec_time_optimization_effort, memory_fitting_effort : float
        From -1 to 1; 0 is the compiler's default.
    device_memory_size : int
        Bytes that the program may use; 0 for what the device has.
    env_option_overrides : Mapping[str, str or bool or int or float]
        The compiler's own flags (``xla_...``), each by its name without dashes.

    Raises
    ------
    InvalidArgumentError
        If a value is none that its option can have, or the assignment does not fit the counts.
    InvalidTypeError
        If a flag's value is of a type that no flag has.
    """

    num_replicas: int | None = None
    num_partitions: int | None = None
    device_assignment: DeviceAssignment | Sequence[Sequence[int]] | None = None
    use_spmd_partitioning: bool | None = None
    use_shardy_partitioner: bool | None = None
    parameter_is_tupled_arguments: bool = False
    compile_portable_executable: bool = False
    allow_spmd_sharding_propagation_to_parameters: Sequence[bool] = ()
    allow_spmd_sharding_propagation_to_output: Sequence[bool] = ()
    exec_time_optimization_effort: float = 0.0
    memory_fitting_effort: float = 0.0
    device_memory_size: int = 0
    env_option_overrides: Mapping[str, str | bool | int | float] = dataclasses.field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and not (_is_int(value) and 1 <= value <= _MOST):
                raise _invalid(name, value, f"an int from 1 to {_MOST}, or None")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise _invalid(name, getattr(self, name), "True or False")
        for name in _CHOICES:
            if not isinstance(getattr(self, name), bool | None):
                raise _invalid(name, getattr(self, name), "True, False or None")
        for name in _EFFORTS:
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not -1 <= value <= 1
            ):
                raise _invalid(name, value, "a number from -1 to 1")
        for name in _PROPAGATIONS:
            value = getattr(self, name)
            if not isinstance(value, Sequence) or not all(isinstance(v, bool | int) for v in value):
                raise _invalid(name, value, "a sequence of bools")
        size = self.device_memory_size
        if not _is_int(size) or not 0 <= size < 1 << 63:
            raise _invalid("device_memory_size", size, "a number of bytes")
        overrides = self.env_option_overrides
        if not isinstance(overrides, Mapping):
            raise _invalid("env_option_overrides", overrides, "a mapping from names to values")
        for name, value in overrides.items():
            _override(name, value)
        self.assignment()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CompileOptions:
        """Make options from their names and values.

        Parameters
        ----------
        options
            Fields by name; under ``compile_options`` other options, which the fields change.

        Raises
        ------
        InvalidArgumentError
            If there is no option of a name, or a value is none that it can have.
        InvalidTypeError
            If ``compile_options`` is neither options nor None.
        """
        fields = dict(options)
        given = fields.pop("compile_options", None)
        if given is not None and not isinstance(given, cls):
            msg = f"compile_options must be CompileOptions, not of type {type(given).__name__}."
            raise InvalidTypeError(msg, option="compile_options")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in fields:
            if name not in known:
                msg = (
                    f"there is no compile option {name!r}; there are: {', '.join(known)}. "
                    "The compiler's own flags go into env_option_overrides."
                )
                raise InvalidArgumentError(msg, option=name)
        return cls(**fields) if given is None else given.replace(**fields)

    def replace(self, **changes: Any) -> CompileOptions:
        """Return these options with some changed."""
        return dataclasses.replace(self, **changes)

    @property
    def device_count(self) -> int:
        """How many devices they are for; what is left open counts as one."""
        return (self.num_replicas or 1) * (self.num_partitions or 1)

    def assignment(self) -> DeviceAssignment | None:
        """Return the device assignment, checked against the counts; None if there is none."""
        given = self.device_assignment
        if given is None:
            return None
        if not isinstance(given, DeviceAssignment):
            given = _assignment(given)
        shape = given.replica_count(), given.computation_count()
        wanted = self.num_replicas or shape[0], self.num_partitions or shape[1]
        if shape != wanted:
            msg = (
                f"the device_assignment has {shape[0]} replicas of {shape[1]} partitions, and the "
                f"program has {wanted[0]} of {wanted[1]}."
            )
            raise InvalidArgumentError(msg, option="device_assignment")
        return given

    def serialize(self) -> bytes:
        """Return the options as a ``CompileOptionsProto``, the same bytes for equal options.

        Fields: 2 parameter_is_tupled_arguments, 3 executable_build_options, 4
        compile_portable_executable, 7 env_option_overrides.
        """
        overrides = sorted(self.env_option_overrides.items())
        return (
            bool_field(2, self.parameter_is_tupled_arguments)
            + bytes_field(3, self._build_options())
            + bool_field(4, self.compile_portable_executable)
            + b"".join(
                bytes_field(7, bytes_field(1, name.encode()) + bytes_field(2, _override(name, v)))
                for name, v in overrides
            )
        )

    @classmethod
    def deserialize(cls, data: bytes) -> CompileOptions:
        """Read what `serialize`, or XLA, wrote; of XLA's options those that are fields here.

        Raises
        ------
        InvalidArgumentError
            If ``data`` is no such message.
        """
        whole = Message(data)
        build = whole.message(3)
        assignment = bytes(build.part(9))
        return cls(
            num_replicas=build.number(4) or None,
            num_partitions=build.number(5) or None,
            device_assignment=DeviceAssignment.deserialize(assignment) if assignment else None,
            use_spmd_partitioning=bool(build.number(6)),
            use_shardy_partitioner=bool(build.number(19)),
            parameter_is_tupled_arguments=bool(whole.number(2)),
            compile_portable_executable=bool(whole.number(4)),
            allow_spmd_sharding_propagation_to_parameters=tuple(map(bool, build.ints(18))),
            allow_spmd_sharding_propagation_to_output=tuple(map(bool, build.ints(12))),
            exec_time_optimization_effort=build.real(20),
            memory_fitting_effort=build.real(21),
            device_memory_size=build.number(15),
            env_option_overrides=dict(map(_read_override, whole.messages(7))),
        )

    def _build_options(self) -> bytes:
        """Return the ``ExecutableBuildOptionsProto``.

        Fields: 1 device_ordinal (below 0 for any), 4 num_replicas, 5 num_partitions, 6
        use_spmd_partitioning, 9 device_assignment, 12 and 18 propagation to outputs and to
        parameters, 15 device_memory_size, 19 use_shardy_partitioner, 20 and 21 the efforts.
        """
        to_parameters = self.allow_spmd_sharding_propagation_to_parameters
        to_output = self.allow_spmd_sharding_propagation_to_output
        spmd, size, assignment = (
            self.use_spmd_partitioning,
            self.device_memory_size,
            self.assignment(),
        )
        return (
            int_field(1, -1)
            + int_field(4, self.num_replicas or 1)
            + int_field(5, self.num_partitions or 1)
            + bool_field(6, (self.num_partitions or 1) > 1 if spmd is None else spmd)
            + (bytes_field(9, assignment.serialize()) if assignment is not None else b"")
            + (packed(12, map(bool, to_output)) if to_output else b"")
            + (int_field(15, size) if size else b"")
            + (packed(18, map(bool, to_parameters)) if to_parameters else b"")
            + bool_field(19, bool(self.use_shardy_partitioner))
            + float_field(20, self.exec_time_optimization_effort)
            + float_field(21, self.memory_fitting_effort)
        )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _assignment(rows: Any) -> DeviceAssignment:
    try:
        return DeviceAssignment(rows)
    except InvalidArgumentError as error:
        wanted = "rows of device ids, all of one length, of different devices, none below 0"
        raise _invalid("device_assignment", rows, wanted) from error


def _override(name: Any, value: Any) -> bytes:
    """Return an ``OptionOverrideProto``: 1 string, 2 bool, 3 int64, 4 double."""
    if not isinstance(name, str) or not name or name.startswith("-") or not _is_unicode(name):
        raise _invalid("env_option_overrides", name, "names without dashes")
    if isinstance(value, bool):
        return int_field(2, int(value))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return int_field(3, value)
    if isinstance(value, float):
        return double_field(4, value)
    if isinstance(value, str) and _is_unicode(value):
        return bytes_field(1, value.encode())
    msg = (
        f"the flag {name!r} of env_option_overrides must be a string, a bool, an int or a float, "
        f"and is {value!r}."
    )
    raise InvalidTypeError(msg, option=name)


def _read_override(entry: Message) -> tuple[str, str | bool | int | float]:
    value = entry.message(2)
    if 2 in value:
        return entry.text(1), bool(value.number(2))
    if 3 in value:
        return entry.text(1), value.ints(3)[-1]
    return entry.text(1), value.real(4) if 4 in value else value.text(1)


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: it has no half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _invalid(name: str, value: Any, wanted: str) -> InvalidArgumentError:
    msg = f"the compile option {name} must be {wanted}, and is {value!r}."
    return InvalidArgumentError(msg, option=name, value=value)

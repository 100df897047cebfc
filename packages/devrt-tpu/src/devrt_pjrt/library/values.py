"""Named values: a plugin's attributes, and the options that it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.api import structure_type, text_of
from devrt_pjrt.library.checks import encoded

__all__ = ["NamedValues", "check_types", "read_values"]

_KINDS = "a string, an int, a list of ints, a float or a bool"


def read_values(values: Any, count: int) -> dict[str, Any]:
    """Return a plugin's named values by their names."""
    return dict(_read(values, count))


def _read(values: Any, count: int) -> Iterator[tuple[str, Any]]:
    for at in range(count):
        value = values[at]
        yield text_of(value.name, value.name_size), _value_of(value)


def _value_of(value: Any) -> Any:
    kind, size = value.type, value.value_size
    if kind == lib.PJRT_NamedValue_kString:
        return text_of(value.string_value, size)
    if kind == lib.PJRT_NamedValue_kInt64:
        return int(value.int64_value)
    if kind == lib.PJRT_NamedValue_kInt64List:
        return tuple(ffi.unpack(value.int64_array_value, size)) if size else ()
    if kind == lib.PJRT_NamedValue_kFloat:
        return float(value.float_value)
    return bool(value.bool_value)


class NamedValues:
    """Options in the form that plugins take, with the memory that they point to.

    By name: strings, ints of 64 bits, lists of such ints, floats or bools; `InvalidTypeError` for
    any other.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._kept: list[Any] = []
        self.count = len(options)
        self.array = ffi.new("PJRT_NamedValue[]", self.count)
        _, size = structure_type("PJRT_NamedValue")
        for slot, (name, value) in zip(self.array, options.items(), strict=True):
            slot.struct_size = size
            slot.name, slot.name_size = self._characters(name, "an option's name")
            self._set(slot, name, value)

    def _characters(self, text: Any, what: str) -> tuple[Any, int]:
        data = encoded(text, what, "reading options")
        made = ffi.new("char[]", data)
        self._kept.append(made)
        return made, len(data)

    def _set(self, slot: Any, name: str, value: Any) -> None:
        slot.value_size = 1
        try:
            if isinstance(value, bool):
                slot.type, slot.bool_value = lib.PJRT_NamedValue_kBool, value
            elif isinstance(value, int):
                slot.type, slot.int64_value = lib.PJRT_NamedValue_kInt64, value
            elif isinstance(value, float):
                slot.type, slot.float_value = lib.PJRT_NamedValue_kFloat, value
            elif isinstance(value, str):
                slot.type = lib.PJRT_NamedValue_kString
                slot.string_value, slot.value_size = self._characters(value, f"option {name!r}")
            elif isinstance(value, Sequence) and not isinstance(value, bytes):
                numbers = ffi.new("int64_t[]", [_number(item) for item in value])
                self._kept.append(numbers)
                slot.type, slot.int64_array_value = lib.PJRT_NamedValue_kInt64List, numbers
                slot.value_size = len(value)
            else:
                raise TypeError(type(value).__name__)
        except (TypeError, OverflowError) as error:
            msg = f"option {name!r} must be {_KINDS}, and is {value!r} ({error})."
            raise InvalidTypeError(msg, option=name) from error


def _number(item: Any) -> int:
    if isinstance(item, bool) or not isinstance(item, int):
        msg = f"{item!r} is no int"
        raise TypeError(msg)
    return item


def check_types(
    options: Mapping[str, Any], known: Mapping[str, type | tuple[type, ...]], what: str
) -> None:
    """Refuse options of a known name and another type: a plugin would end the process.

    In ``known`` a ``list`` is one of ints.
    """
    for name, value in options.items():
        wanted = known.get(name)
        if wanted is None:
            continue
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            msg = (
                f"option {name!r} of {what} must be of type {names}, and is {value!r}: the plugin "
                "would end the process."
            )
            raise InvalidArgumentError(msg, option=name, value=value)

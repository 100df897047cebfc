"""What an option's value may be, and how text becomes one."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Mapping
from typing import Any

from devrt._support.words import kind_of
from devrt.errors import ConfigError
from devrt.records import OptionSpec

__all__ = ["checked", "flag_value"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_MAX_FLAGS = 1 << 20
_UNITS = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
"""As standards have them: 1 GB is 10**9 bytes, 1 GiB is 2**30."""


def checked(spec: OptionSpec, value: Any, source: str) -> Any:
    """Return ``value`` as the option's type.

    The `ConfigError` for one that does not fit names ``source`` and the form that is accepted.
    """
    if value is None and spec.default is None:
        return value
    if spec.type is object:
        return _checked_device(spec, value, source)
    is_size = spec.unit == "bytes" and isinstance(value, str)
    try:
        converted = _converted(spec.type, _in_bytes(value) if is_size else value)
    except (TypeError, ValueError):
        is_bytes = spec.unit == "bytes"
        takes = "a number of bytes (512MiB, 1.5GB, 4096)" if is_bytes else _words(spec)
        hint = _unit_meant(value) if is_size else ""
        msg = f"{source}: option {spec.name!r} takes {takes}, not {value!r}.{hint}"
        raise _error(msg, spec, value, source) from None
    if spec.minimum is not None and converted < spec.minimum:
        msg = f"{source}: option {spec.name!r} must be at least {spec.minimum}, not {value!r}."
        raise _error(msg, spec, value, source)
    if spec.maximum is not None and converted > spec.maximum:
        msg = f"{source}: option {spec.name!r} must be at most {spec.maximum}, not {value!r}."
        raise _error(msg, spec, value, source)
    if spec.choices and converted not in spec.choices:
        accepted = " or ".join(map(repr, spec.choices))
        msg = f"{source}: option {spec.name!r} takes {accepted}, not {value!r}."
        raise _error(msg, spec, value, source)
    return converted


def _checked_device(spec: OptionSpec, value: Any, source: str) -> Any:
    from devrt.contract.device import Device  # which most configurations do not name

    if isinstance(value, str | Device):
        return value
    what = f"{value!r} of type {kind_of(value)}"
    msg = (
        f"{source}: option {spec.name!r} takes a device of devrt.devices(), a platform's name or a "
        f"device's (cpu:1), not {what}."
    )
    raise _error(msg, spec, value, source)


def flag_value(flag: str, environ: Mapping[str, str]) -> str | None:
    """Return the value of a flag in a variable that holds several; None where it is not there.

    ``flag`` is the variable and the flag, with a blank between them. As XLA reads it, a value that
    begins with no dash names a file of flags, and the last of several equal flags counts.
    """
    variable, _, name = flag.partition(" ")
    text = environ.get(variable, "").strip()
    if text and not text.startswith("-"):
        text = _contents(text)
    values = [word.removeprefix(f"{name}=") for word in text.split() if word.startswith(f"{name}=")]
    return values[-1] if values else None


def _contents(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_FLAGS)
    except OSError:
        return ""  # of no concern here: whose variable it is says so


def _words(spec: OptionSpec) -> str:
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return kinds.get(spec.type, spec.type.__name__)


def _error(message: str, spec: OptionSpec, value: Any, source: str) -> ConfigError:
    return ConfigError(message, option=spec.name, value=value, source=source)


def _in_bytes(text: str) -> str | int:
    """Return the number of bytes that a text with a unit stands for; another text as it is."""
    words = text.strip()
    start = len(words) - len(words.lstrip("+-.0123456789"))
    factor = _UNITS.get(words[start:].strip().lower())
    if factor is None:
        return text
    size = float(words[:start]) * factor
    if size % 1:
        raise ValueError(text)
    return int(size)


def _unit_meant(text: str) -> str:
    """Return what to write for a size with the first letter of a unit alone."""
    meant = f"{text.strip()}iB"
    with contextlib.suppress(ValueError):
        if isinstance(_in_bytes(meant), int) and meant[-3:-2].isalpha():
            return f" Did you mean {meant[:-3] + meant[-3].upper() + 'iB'!r}?"
    return ""


def _converted(kind: type, value: Any) -> Any:
    if kind is bool:
        word = str(value).strip().lower()
        if word not in _TRUE | _FALSE:
            raise ValueError(word)
        return word in _TRUE
    if kind is int and (isinstance(value, bool) or (isinstance(value, float) and value % 1)):
        raise ValueError(value)
    if isinstance(value, str) and kind in (int, float) and "_" in value:
        raise ValueError(value)  # Python's digit separators, most often a slip
    if kind is str and not isinstance(value, str):
        raise TypeError(value)
    if kind is int and not isinstance(value, (str, float)):
        return operator.index(value)
    if kind is float and not math.isfinite(number := float(value)):
        raise ValueError(number)
    return kind(value)

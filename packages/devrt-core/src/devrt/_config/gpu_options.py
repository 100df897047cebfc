"""How much memory a GPU client takes and by which allocator: from a program or the environment."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import os
from typing import Any, TypeVar

from devrt.errors import ConfigError, InvalidArgumentError, InvalidTypeError

__all__ = ["GpuAllocatorConfig", "fraction_variable", "generate_pjrt_gpu_plugin_options"]

_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
_FRACTION = "XLA_CLIENT_MEM_FRACTION"
_OLD_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_COLLECTIVE = "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB"
_ABORT = "XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE"
_TFRT = "XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT"

_ALLOCATORS = ("default", "platform", "bfc", "cuda_async")
_OF_XLA = ("vmm",)  # XLA's own client alone has it: no message offers it
_T = TypeVar("_T")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _note_given(cls: type[_T]) -> type[_T]:
    """Have a dataclass note which fields are given: a value that is a default's may be meant."""
    make = cls.__init__

    @functools.wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        names = [field.name for field in dataclasses.fields(self)]
        object.__setattr__(self, "_given", frozenset({*names[: len(args)], *kwargs}))

    setattr(cls, "__init__", init)  # noqa: B010  a method, which mypy lets nobody assign
    return cls


@_note_given
@dataclasses.dataclass(frozen=True)
class GpuAllocatorConfig:
    """Which allocator a GPU client uses, and how much memory it takes.

    Parameters
    ----------
    kind
        The allocator; ``DEFAULT`` leaves the choice to the client.
    memory_fraction
        Part of a device's whole memory that the allocator may take, above 0. devrt's clients take
        at most 1; XLA's own client takes more, for memory that the host's extends.
    preallocate
        Whether it takes all of that when the client is made.
    collective_memory_size
        Bytes set aside for collective operations; 0 for none.

    Notes
    -----
    The defaults are jaxlib's. What is left out counts for nothing with devrt's clients, which
    preallocate nothing unless that is requested; what is given counts, a default's value too.

    Raises
    ------
    InvalidArgumentError
        If a number is out of range or ``kind`` is no `Kind`.
    InvalidTypeError
        If a value is of another type.
    """

    class Kind(enum.IntEnum):
        """The allocators, numbered as jaxlib numbers them."""

        DEFAULT = 0
        PLATFORM = 1
        BFC = 2
        CUDA_ASYNC = 3

    kind: Kind = Kind.DEFAULT
    memory_fraction: float = 0.75
    preallocate: bool = True
    collective_memory_size: int = 0

    def given(self) -> dict[str, Any]:
        """Return the arguments that were given, with their values."""
        names: frozenset[str] = getattr(self, "_given")  # noqa: B009  not a field
        return {name: getattr(self, name) for name in sorted(names)}

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "kind", self.Kind(self.kind))
        except ValueError:
            names = ", ".join(kind.name for kind in self.Kind)
            _refuse(f"kind must be one of {names}, not {self.kind!r}")
        for name, types in (
            ("memory_fraction", (int, float)),
            ("preallocate", (bool,)),
            ("collective_memory_size", (int,)),
        ):
            value = getattr(self, name)
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                msg = f"{name} of GpuAllocatorConfig must be {types[-1].__name__}, not {value!r}."
                raise InvalidTypeError(msg, operation="GpuAllocatorConfig")
        if not (math.isfinite(self.memory_fraction) and self.memory_fraction > 0):
            _refuse(f"memory_fraction must be above 0, not {self.memory_fraction}")
        if self.collective_memory_size < 0:
            _refuse(f"collective_memory_size must not be negative: {self.collective_memory_size}")


def generate_pjrt_gpu_plugin_options() -> dict[str, str | int | list[int] | float | bool]:
    """Return the options of a PJRT GPU plugin that the environment asks for.

    ``XLA_PYTHON_CLIENT_ALLOCATOR`` names the allocator, ``XLA_CLIENT_MEM_FRACTION`` (older name
    ``XLA_PYTHON_CLIENT_MEM_FRACTION``) the part of the memory to take,
    ``XLA_PYTHON_CLIENT_PREALLOCATE`` whether to take it at once, and
    ``XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB`` what to set aside for collectives. Keys are those
    that JAX passes; what the environment does not say is left to the plugin.

    Raises
    ------
    ConfigError
        If a variable has a value of another form, or both names of one are set.
    """
    options: dict[str, Any] = {"platform_name": "cuda"}  # what JAX's own function says
    allocator = os.environ.get(_ALLOCATOR, "").lower() or "default"
    if allocator not in _ALLOCATORS + _OF_XLA:
        raise _malformed(_ALLOCATOR, f"one of {', '.join(_ALLOCATORS)}")
    options["allocator"] = allocator
    fraction = _memory_fraction()
    if fraction is not None:
        options["memory_fraction"] = fraction
    if os.environ.get(_PREALLOCATE):
        options["preallocate"] = _boolean(_PREALLOCATE)
    if os.environ.get(_COLLECTIVE):
        options["collective_memory_size"] = _whole_number(_COLLECTIVE) << 20
    options["abort_collectives_on_failure"] = _boolean(_ABORT)
    options["use_tfrt_gpu_client"] = _boolean(_TFRT)
    return options


def fraction_variable() -> str:
    """Return the variable that says what part of the memory to take.

    Raises
    ------
    ConfigError
        If both names of it are set.
    """
    if not os.environ.get(_OLD_FRACTION):
        return _FRACTION
    if os.environ.get(_FRACTION):
        msg = f"{_FRACTION} and {_OLD_FRACTION} are both set. Unset the latter, the older name."
        raise ConfigError(msg, option=_FRACTION)
    return _OLD_FRACTION


def _memory_fraction() -> float | None:
    name = fraction_variable()
    text = os.environ.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise _malformed(name, "a number above 0, for example 0.75")
    return value


def _boolean(name: str) -> bool:
    text = os.environ.get(name, "").lower() or "false"
    if text not in _BOOLEANS:
        raise _malformed(name, "true, false, 1 or 0")
    return _BOOLEANS[text]


def _whole_number(name: str) -> int:
    text = os.environ.get(name, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise _malformed(name, "a whole number of MiB, for example 64")
    return int(text)


def _malformed(name: str, form: str) -> ConfigError:
    msg = f"the environment variable {name} must be {form}, and is {os.environ.get(name)!r}."
    return ConfigError(msg, option=name)


def _refuse(what: str) -> None:
    raise InvalidArgumentError(f"{what}.", operation="GpuAllocatorConfig")

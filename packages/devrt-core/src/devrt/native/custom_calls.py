"""Functions of Python that programs of native clients call: the native front comes here."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from devrt.compiling.custom_call_registry import CustomCallRegistry, dtype_of
from devrt.contract import RawBuffer

__all__ = ["answer", "custom_calls_of", "forget_all"]

_Array = tuple[int, tuple[int, ...], int]
"""Address, shape and XLA's element type."""


@functools.cache
def custom_calls_of(package: str) -> CustomCallRegistry:
    """Return what is registered with a backend, by the package of its native module."""
    return CustomCallRegistry()


def forget_all(package: str) -> None:
    """Release a backend's functions, at the end of the interpreter."""
    custom_calls_of(package).clear()


def answer(
    package: str,
    slot: int,
    arguments: Sequence[_Array],
    results: Sequence[_Array],
    attributes: Mapping[str, Any],
    stream: int,
) -> tuple[int, str] | None:
    """Call a function of Python; on whatever thread the program runs.

    Attributes are texts, mappings, and numbers as their element type, their bytes and whether it is
    one. On a device that the host does not see, a function of the host's arrays is given copies.
    Returns the status code and message of what it raised, or None.
    """
    return custom_calls_of(package).answer(
        slot,
        lambda: (
            _to_buffers(arguments),
            _to_buffers(results),
            _to_attributes(attributes),
            stream,
        ),
    )


def _to_buffers(arrays: Sequence[_Array]) -> list[RawBuffer]:
    return [RawBuffer(address, shape, dtype_of(number)) for address, shape, number in arrays]


def _to_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _to_attribute(value) for name, value in attributes.items()}


def _to_attribute(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _to_attributes(value)
    number, data, is_scalar = value
    numbers: np.ndarray[Any, Any] = np.frombuffer(data, dtype_of(number))
    return numbers[0].item() if is_scalar else numbers

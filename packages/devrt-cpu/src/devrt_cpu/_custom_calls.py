"""Custom calls of the CPU client's programs: registered, answered, or refused by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.compiling.custom_call_registry import CustomCallRegistry, Handler, dtype_of
from devrt.compiling.refusals import custom_calls_explained
from devrt.contract import RawBuffer
from devrt_cpu import _linalg

if TYPE_CHECKING:
    from devrt_cpu._library import Library

__all__ = ["answer", "explained", "forget_all", "register_custom_call"]

_Array = tuple[int, tuple[int, ...], int]
"""Address, shape and XLA's element type."""

_registry = CustomCallRegistry()
forget_all = _registry.clear


def register_custom_call(library: Library, name: str, function: Any, *, kind: str = "host") -> None:
    """Let programs of a compiler call a function; see `contract.Client.register_custom_call`."""
    _registry.register(
        name,
        function,
        kind,
        functools.partial(_bind, library.path),
        owner="the cpu platform",
        scope=library.path,
        reserved=_linalg.known_calls(),
        platform="cpu",
    )


def _bind(library: str, handler: Handler, address: int | None) -> int:
    from devrt_cpu import _ext

    if address is None:
        return _ext._register_custom_call(library, handler.name)
    return _ext._register_native_custom_call(library, handler.name, address)


def answer(
    slot: int, arguments: Sequence[_Array], results: Sequence[_Array], attributes: Mapping[str, Any]
) -> tuple[int, str] | None:
    """Call a function of Python; on whatever thread the program runs.

    Attributes are texts, mappings, and numbers as their element type, their bytes and whether it is
    one. Returns the status code and message of what it raised, or None.
    """
    return _registry.answer(
        slot,
        lambda: (_to_buffers(arguments), _to_buffers(results), _to_attributes(attributes), 0),
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


def explained() -> AbstractContextManager[None]:
    """Turn the compiler's error on an unknown custom call into one that says what to do."""
    return custom_calls_explained("cpu", _known)


def _known() -> str:
    calls = _linalg.known_calls()
    routines = {call.split("_")[1][1:] for call in calls if call.startswith("lapack_")}
    others = [call for call in calls if not call.startswith(("lapack_", "blas_"))]
    return (
        f"Known beside XLA's own are {', '.join(others)} and lapack_*_ffi of: "
        f"{', '.join(sorted(routines))} (with devrt-cpu[linalg])."
    )

"""Functions of one's own that compiled programs call by a name, registered with XLA's plugin.

A plugin forgets no name, so what is known of them here lives as long as the process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from devrt.contract.custom_calls import (
    Handler,
    RawBuffer,
    address_of,
    checked_handler,
    code_of,
    place_of,
)
from devrt.contract.custom_calls import to_numpy as _to_numpy
from devrt.errors import PluginError

__all__ = ["answer", "forget_all", "known_names", "register_custom_call"]

_lock = threading.Lock()
_handlers: dict[int, Handler] = {}
_known: dict[str, int | None] = {}
"""By name, the slot of a function of Python; None for native code."""


def register_custom_call(name: str, function: Any, *, kind: str = "host") -> None:
    """Let programs call a function by a name; see `devrt.contract.Client.register_custom_call`.

    Raises
    ------
    UnimplementedError
        If the compiler's wheel is not installed, or 256 names are registered.
    PluginError
        If the name is taken; one callable may take another's place.
    InvalidArgumentError
        If an argument is none of these.
    """
    from devrt_cpu import _ext
    from devrt_cpu._engine import find_library
    from devrt_cpu._linalg import known_calls

    handler = checked_handler(name, function, kind)
    address = address_of(function)
    with _lock:
        if address is None and _is_replaced(handler):
            return
        if name in _known or name in known_calls():
            msg = (
                f"custom call {name!r} is registered with the cpu platform already, which cannot "
                "forget a handler. Use another name."
            )
            raise PluginError(msg, name=name, platform="cpu")
        if address is not None:
            _ext._register_native_custom_call(find_library(), name, address)
            _known[name] = None
            return
        _known[name] = slot = _ext._register_custom_call(find_library(), name)
        _handlers[slot] = handler


def known_names() -> list[str]:
    """Return the names that are registered."""
    return sorted(_known)


def _is_replaced(handler: Handler) -> bool:
    """Put another function of Python behind a name that has one."""
    slot = _known.get(handler.name)
    if slot is None or _handlers[slot].is_device != handler.is_device:
        return False
    _handlers[slot] = handler
    return True


def answer(
    slot: int,
    arguments: Sequence[tuple[int, tuple[int, ...], int]],
    results: Sequence[tuple[int, tuple[int, ...], int]],
    attributes: Mapping[str, Any],
) -> tuple[int, str] | None:
    """Call a function of Python; on whatever thread the program runs.

    Parameters
    ----------
    slot
        Which one.
    arguments, results
        Address, shape and element type of each.
    attributes
        Texts, mappings, and numbers as their element type, their bytes and whether it is one.

    Returns
    -------
    tuple or None
        The status code and message of what it raised, or None.

    Raises
    ------
    KeyboardInterrupt
        If it raised that in the main thread.
    """
    handler = _handlers.get(slot)
    if handler is None:
        return 1, "the process's Python interpreter ends"  # absl's CANCELLED
    try:
        handler.call(
            [_to_buffer(*argument) for argument in arguments],
            [_to_buffer(*result) for result in results],
            _to_attributes(attributes),
        )
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _is_main():
            raise  # it was meant for the program that waits for this
        text = f"custom call {handler.name!r}{place_of(error, __file__)} raised "
        text += f"{type(error).__name__}: {error}".replace("\0", " ")
        return int(code_of(error)), text.encode(errors="replace").decode()
    return None


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _to_buffer(address: int, shape: tuple[int, ...], code: int) -> RawBuffer:
    return RawBuffer(address, shape, _dtype(code))


def _dtype(code: int) -> np.dtype[Any]:
    return _to_numpy(code or None, code)


def _to_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _to_attribute(value) for name, value in attributes.items()}


def _to_attribute(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _to_attributes(value)
    code, data, is_scalar = value
    numbers: np.ndarray[Any, Any] = np.frombuffer(data, _dtype(code))
    return numbers[0].item() if is_scalar else numbers


def forget_all() -> None:
    """Let go of the functions, at the end of the interpreter, before what they hold."""
    _handlers.clear()

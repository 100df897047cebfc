"""Functions of Python that traced programs call while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from devrt.errors import UnimplementedError
from devrt.programs.own_targets import answered
from devrt.tracing import HOST_TARGET, ShapedArray

if TYPE_CHECKING:
    from devrt.contract import Client

__all__ = ["answer_calls", "number_of"]


class _HostFunction(NamedTuple):
    function: Callable[..., Any]
    arguments: int
    results: tuple[ShapedArray, ...]


_functions: list[_HostFunction] = []
"""By their numbers, for as long as the process lives: a program calls them after its last user."""

_numbers: dict[Hashable, int] = {}
_lock = threading.Lock()


def number_of(
    key: Hashable,
    function: Callable[..., Any],
    arguments: int,
    results: Sequence[ShapedArray] = (),
) -> int:
    """Return the number of a function, one for all that are equal by ``key``.

    Parameters
    ----------
    key
        What tells functions apart; None for one of its own.
    function
        Takes NumPy's arrays; returns a sequence of as many as there are results.
    arguments, results
        How many it takes, and the shape and dtype of each result.
    """
    with _lock:
        known = None if key is None else _numbers.get(key)
        if known is None:
            known = len(_functions)
            _functions.append(_HostFunction(function, arguments, tuple(results)))
            if key is not None:
                _numbers[key] = known
        return known


def answer_calls(text: str, client: Client) -> str:
    """Let a program's calls reach their functions, if it has any; return what is to be compiled.

    Raises
    ------
    UnimplementedError
        If the client takes no custom calls.
    """
    if HOST_TARGET not in text:
        return text
    try:
        return answered(text, client, HOST_TARGET, _answer)
    except UnimplementedError as error:
        msg = (
            f"the program calls Python while it runs, and the {client.platform} client cannot: "
            f"{error.message} Call devrt.debug.print, devrt.debug.callback and "
            "devrt.pure_callback outside of traced functions there, or run on the cpu."
        )
        raise UnimplementedError(msg, operation="custom_call", platform=client.platform) from error


def _answer(device: Any, *arrays: Any, number: int, once: bool) -> list[Any]:
    """Call a function for a program; ``once`` for all devices, by the first alone."""
    called = _functions[number]
    if once and int(device):
        return [np.int32(0)]
    made = called.function(*arrays[: called.arguments])
    if not called.results:
        return [np.int32(0)]
    return [
        np.asarray(x).astype(aval.dtype, copy=False)
        for x, aval in zip(made, called.results, strict=True)
    ]

"""Operators of arrays, which need compiled programs and are refused until devrt has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from devrt.errors import UnimplementedError

__all__ = ["Unsupported"]

_BINARY = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
]
_UNARY = ["neg", "pos", "abs", "invert", "round"]
_COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
_OTHERS = ["getitem", "iter", "contains"]


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *operands: Any) -> NoReturn:
        msg = (
            f"{name} on a devrt array runs a program on its device, and this release compiles "
            "none yet. Compute on the host with numpy.asarray(x), then devrt.device_put the result."
        )
        raise UnimplementedError(msg, operation=name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raise UnimplementedError: {name} needs a compiled program."
    return refuse


class Unsupported:
    """Every operator of an array, raising `UnimplementedError` rather than a wrong answer.

    Without this, ``a == b`` would compare identities and ``a in [b]`` silently agree.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]


for _name in (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *_UNARY,
    *_COMPARISONS,
    *_OTHERS,
):
    setattr(Unsupported, f"__{_name}__", _refusing(f"__{_name}__"))

"""Operators of arrays, which need compiled programs and are refused until devrt has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from devrt.errors import UnimplementedError

__all__ = ["Unsupported"]

_ARITHMETIC = "add sub mul truediv floordiv mod divmod pow matmul".split()
_BINARY = [*_ARITHMETIC, *"and or xor lshift rshift".split()]
_UNARY = "neg pos abs invert round".split()
_COMPARISONS = "eq ne lt le gt ge".split()
_OTHERS = "getitem iter contains".split()

_METHODS = """
    T mT at all any argmax argmin argsort astype clip conj conjugate cumprod cumsum diagonal dot
    fill flatten imag max mean min nonzero prod ravel real repeat reshape round searchsorted sort
    squeeze std sum swapaxes take trace transpose var view
""".split()


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
    __array_ufunc__ = None  # else NumPy would compute ``ndarray + array`` on the host, in silence
    __hash__ = None  # type: ignore[assignment]


for _name in (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *_UNARY,
    *_COMPARISONS,
    *_OTHERS,
):
    setattr(Unsupported, f"__{_name}__", _refusing(f"__{_name}__"))


class _NeedsProgram:
    """An attribute that is absent, and says why. Not ``__getattr__``: NumPy would go through it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        msg = (
            f"'Array' object has no attribute {self._name!r}: it runs a program on the device, and "
            "this release compiles none yet. Compute on the host with numpy.asarray(x), then "
            "devrt.device_put the result."
        )
        raise AttributeError(msg, name=self._name, obj=instance)


for _name in _METHODS:
    setattr(Unsupported, _name, _NeedsProgram(_name))

"""Operators of arrays, which need compiled programs and are refused until devrt has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from devrt.errors import UnimplementedError

__all__ = ["Unsupported", "namespace"]

_ARITHMETIC = "add sub mul truediv floordiv mod divmod pow matmul".split()
_BINARY = [*_ARITHMETIC, *"and or xor lshift rshift".split()]
_UNARY = "neg pos abs invert round".split()
_COMPARISONS = "eq ne lt le gt ge".split()
_OTHERS = "getitem iter contains".split()

# Methods, not absent ones as below: where they are absent numpy.sum(x) and its like go on to the
# reduction of a ufunc, which keeps a reference to x for good when it is refused (NumPy 2.4).
_REDUCTIONS = "all any max min prod sum".split()

_METHODS = """
    T mT at argmax argmin argsort astype clip conj conjugate cumprod cumsum diagonal dot fill
    flatten imag mean nonzero ravel real repeat reshape round searchsorted sort squeeze std
    swapaxes take trace transpose var view
""".split()


def namespace(api_version: str | None) -> Any:
    """Return `devrt.numpy`, which has what there is and says of all else what to do instead.

    Raises
    ------
    UnimplementedError
        If a version of the array API standard is requested: it follows none as a whole yet.
    """
    if api_version is not None:
        msg = (
            f"devrt.numpy does not follow version {api_version!r} of the array API standard: this "
            "release has no functions that compute. Compute on the host with numpy.asarray(x)."
        )
        raise UnimplementedError(msg, operation="__array_namespace__")
    from devrt import numpy

    return numpy


def _refuse(name: str) -> NoReturn:
    msg = (
        f"{name} on a devrt array runs a program on its device, and this release compiles "
        "none yet. Compute on the host with numpy.asarray(x), then devrt.device_put the result."
    )
    raise UnimplementedError(msg, operation=name)


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *operands: Any, **options: Any) -> NoReturn:
        _refuse(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raise UnimplementedError: {name} needs a compiled program."
    return refuse


class Unsupported:
    """Every operator of an array, raising `UnimplementedError` rather than a wrong answer.

    Without this, ``a == b`` would compare identities and ``a in [b]`` silently agree.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    # Without it NumPy would compute ``ndarray + array`` on the host, in silence; with None its
    # error would not say what to do.
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> NoReturn:
        """Raise UnimplementedError: a NumPy function would compute on the host, in silence."""
        _refuse(f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))


for _name in (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *_UNARY,
    *_COMPARISONS,
    *_OTHERS,
):
    setattr(Unsupported, f"__{_name}__", _refusing(f"__{_name}__"))

for _name in _REDUCTIONS:
    setattr(Unsupported, _name, _refusing(_name))


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

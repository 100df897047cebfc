"""Operators of arrays, which need compiled programs and are refused until devrt has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from devrt.errors import UnimplementedError

__all__ = ["NOT_TRACED", "Unsupported", "namespace"]

_ARITHMETIC = "add sub mul truediv floordiv mod divmod pow matmul".split()
_BINARY = [*_ARITHMETIC, *"and or xor lshift rshift".split()]
_UNARY = "neg pos abs invert round".split()
_COMPARISONS = "eq ne lt le gt ge".split()
_OTHERS = "getitem iter contains".split()

_METHODS = """
    T mT all any at argmax argmin argsort astype clip conj conjugate cumprod cumsum diagonal dot
    fill flatten imag max mean min nonzero prod ravel real repeat reshape round searchsorted sort
    squeeze std sum swapaxes take trace transpose var view
""".split()

# NumPy's functions that make nothing new of an array's elements; what computes is refused.
_LOOKING = frozenset(
    """
    allclose array2string array_equal array_equiv array_repr array_str can_cast common_type copy
    empty_like full_like iscomplexobj isrealobj may_share_memory min_scalar_type ndim ones_like
    result_type save savetxt savez savez_compressed shape shares_memory size zeros_like
    """.split()
)

# Those of them that ask for no more than shape and dtype: no element is read for them.
_SHAPED = frozenset(
    """
    can_cast common_type empty_like iscomplexobj isrealobj ndim ones_like result_type shape size
    zeros_like
    """.split()
)


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


NOT_TRACED = (
    "devrt does not trace Python yet. Compute on the host with numpy.asarray(x) and "
    "devrt.device_put the result; or export the function from JAX or PyTorch and call it with "
    "devrt.programs.load_program."
)
"""Why there is no program for what Python says, and what to do instead."""


_NOT_ITERATED = (
    "an array is not iterated over, as devrt does not trace Python yet. Read it with "
    "numpy.asarray(x). If a program gave it: a function that returns one array gives that array, "
    "not a list with it; write y = program(x), not (y,) = program(x)."
)


def _refuse(name: str) -> NoReturn:
    msg = f"{name} on a devrt array needs a program for its device, and {NOT_TRACED}"
    if name == "__iter__":
        msg = f"__iter__ on a devrt array: {_NOT_ITERATED}"
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

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Let functions that only look at arrays do so on the host; refuse those that compute."""
        if func.__name__ not in _LOOKING:
            _refuse(f"{func.__module__}.{func.__name__}")
        take = _outline if func.__name__ in _SHAPED else _read
        given = {name: _on_host(value, take) for name, value in kwargs.items()}
        return func(*(_on_host(value, take) for value in args), **given)


def _on_host(value: Any, take: Callable[[Any], Any]) -> Any:
    """Return an argument of a NumPy function with what it is to have for its arrays."""
    if isinstance(value, Unsupported):
        return take(value)
    if type(value) in (list, tuple):
        return type(value)(_on_host(each, take) for each in value)
    return value


def _read(array: Any) -> Any:
    import numpy as np

    return np.asarray(array)


def _outline(array: Any) -> Any:
    """Return an array of the same shape and dtype, of one element whatever that shape is."""
    import numpy as np

    return np.broadcast_to(np.empty((), array.dtype), array.shape)


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
            f"'Array' object has no attribute {self._name!r}: it needs a program for its device, "
            f"and {NOT_TRACED}"
        )
        raise AttributeError(msg, name=self._name, obj=instance)


for _name in _METHODS:
    setattr(Unsupported, _name, _NeedsProgram(_name))

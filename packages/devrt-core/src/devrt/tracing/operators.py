"""Operators and methods that arrays and traced values have in common.

Each is the function of `devrt.numpy` that it stands for; that package is imported when the first
one is used.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from devrt.errors import InvalidTypeError
from devrt.tracing.array_like import ArrayLike, Overlaid
from devrt.tracing.frames import at_user_line
from devrt.tracing.ir import Value

__all__ = ["ArrayOperators", "functions"]

_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "divmod": "divmod",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_not"}

_METHODS = """
    all any argmax argmin argpartition argsort astype choose clip conj conjugate cumprod cumsum
    diagonal dot max mean min nonzero prod ptp ravel repeat round searchsorted sort squeeze std sum
    swapaxes take trace var
""".split()
"""Methods that are the function of the same name, with the array as its first argument."""

_OTHERS: set[type] = {bool, int, float, complex}
"""Types of right operands that are known to be taken; those of arrays join when they are met."""


class _Functions(dict[str, Any]):
    """Functions of devrt.numpy, looked up once."""

    def __missing__(self, name: str) -> Any:
        from devrt import numpy

        found = self[name] = getattr(numpy, name)
        return found


functions = _Functions()


@functools.cache  # an import of each call would be a tenth of what x[i] takes
def _take_index() -> Callable[..., Any]:
    from devrt.numpy.indexing import take_index

    return take_index


def _is_taken(other: object, name: str) -> bool:
    """Return whether an operator takes a value; if not, its own class decides."""
    numpy = sys.modules.get("numpy")
    is_array = isinstance(other, ArrayOperators | Value) or (
        numpy is not None and isinstance(other, numpy.ndarray | numpy.generic)
    )
    if is_array or isinstance(other, bool | int | float | complex):
        _OTHERS.add(type(other))
        return True
    if isinstance(other, Overlaid):
        msg = (
            f"{name} of an array and keys{at_user_line()}: keys are no numbers. Draw some with the "
            "functions of devrt.random."
        )
        raise InvalidTypeError(msg, operation=name)
    if isinstance(other, list | tuple | set | dict):
        msg = (
            f"{name} of an array and a {type(other).__name__}{at_user_line()}: make an array of it "
            "with devrt.numpy.array."
        )
        raise InvalidTypeError(msg, operation=name)
    return False


def _check_held(dtype: Any, number: int, name: str) -> None:
    """Refuse an integer of Python's that the array's dtype does not hold: it would wrap."""
    if dtype.kind not in "iu" or dtype.itemsize > 4:
        return
    bits = 8 * dtype.itemsize
    low, high = (0, 2**bits) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= number < high:
        msg = (
            f"{name} of an array of {dtype.name} and {number}{at_user_line()}: {dtype.name} does "
            "not hold it. Convert the array with astype() to a wider dtype."
        )
        raise InvalidTypeError(msg, operation=name, dtype=dtype.name)


def _binary(name: str, *, is_swapped: bool = False) -> Callable[[Any, Any], Any]:
    if is_swapped:

        def operate(self: Any, other: Any) -> Any:
            if type(other) in _OTHERS or _is_taken(other, name):
                if type(other) is int and not 0 <= other < 128:
                    _check_held(self.dtype, other, name)
                return functions[name](other, self)
            return NotImplemented

    else:

        def operate(self: Any, other: Any) -> Any:
            if type(other) in _OTHERS or _is_taken(other, name):
                if type(other) is int and not 0 <= other < 128:
                    _check_held(self.dtype, other, name)
                return functions[name](self, other)
            return NotImplemented

    return operate


def _unary(name: str) -> Callable[[Any], Any]:
    def operate(self: Any) -> Any:
        return functions[name](self)

    return operate


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        return functions[name](self, *arguments, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Call `devrt.numpy.{name}` with the array first."
    return method


class ArrayOperators(ArrayLike):
    """The operators and methods of arrays, as functions of `devrt.numpy`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        return _take_index()(self, index)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        msg = (
            f"arrays are immutable{at_user_line()}: in place of x[index] = y write "
            "x = x.at[index].set(y)."
        )
        raise InvalidTypeError(msg, operation="__setitem__")

    def __iter__(self: Any) -> Iterator[Any]:
        if not self.shape:
            msg = "iteration over an array without dimensions"
            raise TypeError(msg)
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, item: Any) -> bool:
        return bool(functions["any"](functions["equal"](self, item)))

    def __round__(self, ndigits: int | None = None) -> Any:
        return functions["round"](self, ndigits or 0)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        from devrt.numpy.namespace import array_namespace

        return array_namespace(api_version)

    @property
    def at(self) -> Any:
        """Updates of parts: ``x.at[index].set(y)`` returns an array with other elements there."""
        from devrt.numpy.updates import At

        return At(self)

    @property
    def T(self) -> Any:  # noqa: N802
        """The array with its dimensions in reverse."""
        return functions["transpose"](self)

    @property
    def mT(self) -> Any:  # noqa: N802
        """The array with its last two dimensions exchanged."""
        return functions["matrix_transpose"](self)

    @property
    def real(self) -> Any:
        """The real part."""
        return functions["real"](self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return functions["imag"](self)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """Return the elements in another shape; one dimension may be -1."""
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return functions["reshape"](self, given, order=order)

    def transpose(self, *axes: Any) -> Any:
        """Return the array with its dimensions in another order; reversed by default."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return functions["transpose"](self, given)

    def flatten(self, order: str = "C") -> Any:
        """Return the elements in one dimension."""
        return functions["ravel"](self, order=order)

    def compress(self, condition: Any, *arguments: Any, **options: Any) -> Any:
        """Return the elements, or the parts along an axis, where a condition is true."""
        return functions["compress"](condition, self, *arguments, **options)

    def view(self, dtype: Any = None) -> Any:
        """Return the same bits as another dtype."""
        return functions["view"](self, dtype)


for _name, _function in {**_OPERATORS, **_COMPARISONS}.items():
    setattr(ArrayOperators, f"__{_name}__", _binary(_function))
for _name, _function in _OPERATORS.items():
    setattr(ArrayOperators, f"__r{_name}__", _binary(_function, is_swapped=True))
for _name, _function in _UNARY.items():
    setattr(ArrayOperators, f"__{_name}__", _unary(_function))
for _name in _METHODS:
    setattr(ArrayOperators, _name, _method(_name))

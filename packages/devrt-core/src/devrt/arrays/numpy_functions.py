"""NumPy's functions on arrays: they are devrt's of the same name.

Those that only look at arrays run on the host, and so does what writes into an array of NumPy's.
What devrt has no function for is refused rather than read from the devices in silence.
"""

from __future__ import annotations

from typing import Any, NoReturn

from devrt.errors import UnimplementedError
from devrt.tracing.operators import ArrayOperators, functions

__all__ = ["NumpyFunctions"]

# NumPy's functions that make nothing new of an array's elements.
_LOOKING = frozenset(
    """
    array2string array_repr array_str can_cast common_type copy empty_like full_like iscomplexobj
    isrealobj may_share_memory min_scalar_type ndim ones_like result_type save savetxt savez
    savez_compressed shape shares_memory size zeros_like
    """.split()
)

# Those of them that ask for no more than shape and dtype: no element is read for them.
_SHAPED = frozenset(
    """
    can_cast common_type empty_like iscomplexobj isrealobj ndim ones_like result_type shape size
    zeros_like
    """.split()
)

# Answers of these are truth values of Python's, which NumPy's callers take them for.
_ANSWERING = frozenset({"allclose", "array_equal", "array_equiv"})

_MODULES = {"numpy": "", "numpy.linalg": "linalg", "numpy.fft": "fft"}


class NumpyFunctions:
    """The protocols by which NumPy leaves its functions to an array."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Run devrt's function of the name; refuse methods and options of NumPy's."""
        name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        out = options.pop("out", ())
        if out and not any(isinstance(each, ArrayOperators) for each in out):
            return getattr(ufunc, method)(*_on_host(inputs, _read), out=out, **options)
        if method != "__call__" or options or out:
            _refuse(name)
        return _function(ufunc.__name__, "", name)(*inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run devrt's function of the name, or NumPy's on the host if that only looks."""
        name = func.__name__
        if name in _LOOKING or name in _ANSWERING:
            take = _outline if name in _SHAPED else _read
            return func(*_on_host(args, take), **_on_host(kwargs, take))
        module = _MODULES.get(func.__module__)
        shown = f"{func.__module__}.{name}"
        if module is None:
            _refuse(shown)
        return _function(name, module, shown)(*args, **kwargs)


def _function(name: str, module: str, shown: str) -> Any:
    try:
        return getattr(functions[module], name) if module else functions[name]
    except AttributeError:
        _refuse(shown)


def _refuse(name: str) -> NoReturn:
    msg = (
        f"{name} on a devrt array: devrt.numpy has no such function, or not with such options, "
        "and NumPy would compute on the host. If that is meant, pass numpy.asarray(x)."
    )
    raise UnimplementedError(msg, operation=name)


def _on_host(value: Any, take: Any) -> Any:
    """Return an argument of a NumPy function with what it is to have for its arrays."""
    if isinstance(value, NumpyFunctions):
        return take(value)
    if type(value) in (list, tuple):
        return type(value)(_on_host(each, take) for each in value)
    if type(value) is dict:
        return {name: _on_host(each, take) for name, each in value.items()}
    return value


def _read(array: Any) -> Any:
    import numpy as np

    return np.asarray(array)


def _outline(array: Any) -> Any:
    """Return an array of the same shape and dtype, of one element whatever that shape is."""
    import numpy as np

    return np.broadcast_to(np.empty((), array.dtype), array.shape)

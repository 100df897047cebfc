"""Questions about dtypes, and conversions between them, by NumPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt import dtypes
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.numpy.limits import as_dtype, dtype_for, finfo, iinfo
from devrt.numpy.operands import BOOL
from devrt.programs.eager import operation
from devrt.tracing import as_value, binary, compare, convert, kind_of, parts
from devrt.tracing import result_type as _result_type

__all__ = [
    "astype",
    "can_cast",
    "isdtype",
    "promote_types",
    "result_type",
]

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype of a result of some operands: arrays, Python's numbers, dtypes."""
    dtype: np.dtype[Any] = _result_type(*arrays_and_dtypes)[0]
    return dtype


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """Return the dtype that two dtypes have in common."""
    dtype: np.dtype[Any] = _result_type(_named(a), _named(b))[0]
    return dtype


def _named(dtype: Any) -> Any:
    return dtype if isinstance(dtype, type) and dtype in (int, float, complex) else as_dtype(dtype)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Return whether a dtype, or an array's, converts to another one by a rule.

    Rules are NumPy's: no, equiv, safe, same_kind and unsafe. Safe is what promotion does of itself.
    """
    if isinstance(from_, bool | int | float | complex) and not isinstance(from_, np.generic):
        msg = f"can_cast of the number {from_!r}: its dtype depends on the other operand."
        raise InvalidTypeError(msg, operation="can_cast")
    given, target = (
        as_dtype(from_ if isinstance(from_, type) else getattr(from_, "dtype", from_)),
        as_dtype(to),
    )
    assert given is not None
    assert target is not None
    if casting in ("no", "equiv") or given == target:
        return given == target
    order = "buifc"
    is_up = order.index(kind_of(given)) <= order.index(kind_of(target))
    if casting == "unsafe":
        return True
    if casting == "same_kind" and is_up and not (kind_of(given) == "i" and target.kind == "u"):
        return True
    if casting not in ("safe", "same_kind"):
        msg = f"casting is no, equiv, safe, same_kind or unsafe, not {casting!r}."
        raise InvalidArgumentError(msg, operation="can_cast")
    return _holds(target, given)


def _holds(target: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Return whether every value of a dtype is one of another."""
    if given == BOOL:
        return True
    kinds = kind_of(given), kind_of(target)
    if kinds[1] == "b":
        return False
    if kinds[1] in "iu":
        if kinds[0] not in "iu":
            return False
        low, high = iinfo(given), iinfo(target)
        return int(high.min) <= int(low.min) and int(low.max) <= int(high.max)
    if kinds == ("c", "f"):
        return False
    if kinds[0] in "iu":
        # As NumPy has it: 64 bits count as held by float64.
        digits = int(finfo(target).nmant) + 1
        bits = dtypes.from_numpy(given).bits - (kinds[0] == "i")
        return bits <= digits or (bits >= 63 and digits == 53)
    one, other = finfo(given), finfo(target)
    return bool(one.nmant <= other.nmant and float(one.max) <= float(other.max))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a dtype is of a kind, by the array API standard.

    ``kind`` is a dtype, a name (bool, signed integer, unsigned integer, integral, real floating,
    complex floating, numeric), or a tuple of such.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    given = as_dtype(dtype)
    assert given is not None
    if isinstance(kind, str) and kind in _KINDS:
        return kind_of(given) in _KINDS[kind]
    try:
        return given == as_dtype(kind)
    except InvalidTypeError:
        msg = f"isdtype: {kind!r} is no dtype and no kind. Kinds are {', '.join(_KINDS)}."
        raise InvalidArgumentError(msg, operation="isdtype") from None


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """Return an array with another dtype; fractions lose what is behind the point.

    Of complex numbers real dtypes take the real part, and bool takes whether they are 0. Arrays are
    immutable, so that ``copy=False`` may return ``x`` itself.
    """
    target = dtype_for(dtype, "astype")
    converted = x if not copy and _is_of(x, target) else _astype(x, target)
    if device is None:
        return converted
    from devrt.arrays import device_put

    return device_put(converted, device)


def _is_of(x: Any, dtype: Any) -> bool:
    return getattr(x, "dtype", None) == dtype and not getattr(x, "weak_type", False)


@operation(static=("dtype",))
def _astype(x: Any, dtype: np.dtype[Any]) -> Any:
    x = as_value(x)
    if dtype == BOOL and x.dtype != BOOL:
        if kind_of(x.dtype) == "c":
            return binary("or", *(compare("NE", part, 0) for part in parts(x)))
        return compare("NE", x, 0)
    return convert(x, dtype)

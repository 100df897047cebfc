"""How a case says what it expected and what came, and that it does not apply."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from devrt._support.words import words

__all__ = ["Failure", "NotApplicable", "expect", "expect_equal", "expect_error", "require"]

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # another in each run
_LONGEST = 2000  # characters of a value that a report shows


class Failure(Exception):  # noqa: N818  it is the case's end, not an error of devrt
    """The backend is not as the contract has it.

    Attributes
    ----------
    expected, came : str
        Both as clauses that a report shows beside each other.
    """

    def __init__(self, expected: str, came: str) -> None:
        super().__init__(f"expected {expected}; came {came}")
        self.expected = expected[:_LONGEST]
        self.came = came[:_LONGEST]


class NotApplicable(Exception):  # noqa: N818
    """The backend does not offer what the case is about; the message is the reason."""


def expect(ok: object, *, expected: object, came: object) -> None:
    """Fail the case unless ``ok``; values that are no text are shown by their ``repr``."""
    if not ok:
        raise Failure(_shown(expected), _shown(came))


def expect_equal(came: Any, expected: Any, what: str = "") -> None:
    """Fail the case unless two values are equal; NumPy arrays in shape, dtype and every bit.

    Parameters
    ----------
    came
        What the backend gave; where ``expected`` is an array, anything that NumPy reads.
    expected
        What is right.
    what
        What is compared, as the report names it.
    """
    import numpy as np

    about = f"{what}: " if what else ""
    if isinstance(expected, np.ndarray):
        _expect_array(np.asarray(came), expected, about)
    elif type(came) is not type(expected) and not _are_alike(came, expected):
        raise Failure(about + _shown(expected), f"{type(came).__name__} {_shown(came)}")
    elif came != expected:
        raise Failure(about + _shown(expected), _shown(came))


def _are_alike(came: object, expected: object) -> bool:
    """Return whether values of these types may be equal: lists and tuples may, True and 1 not."""
    sequences = (list, tuple)
    if isinstance(came, sequences) and isinstance(expected, sequences):
        return list(came) == list(expected)
    return not (isinstance(came, bool) or isinstance(expected, bool)) and came == expected


def _expect_array(came: Any, expected: Any, about: str) -> None:
    import numpy as np

    if (came.shape, came.dtype) != (expected.shape, expected.dtype):
        raise Failure(
            f"{about}an array of shape {expected.shape} and dtype {expected.dtype}",
            f"one of shape {came.shape} and dtype {came.dtype}",
        )
    right, given = (np.ascontiguousarray(a).reshape(-1) for a in (expected, came))
    size = max(1, right.dtype.itemsize)
    bits = [a.view(np.uint8).reshape(-1, size) for a in (right, given)] if right.size else []
    if bits and (wrong := np.flatnonzero((bits[0] != bits[1]).any(axis=1))).size:
        first = int(wrong[0])
        where = tuple(map(int, np.unravel_index(first, expected.shape))) if expected.shape else ()
        raise Failure(
            f"{about}{right[first]} at {where} of an array {expected.shape} {expected.dtype}",
            f"{given[first]}; {wrong.size} of {right.size} elements are wrong",
        )


@contextlib.contextmanager
def expect_error(kind: type[BaseException], *words_of_it: str) -> Iterator[None]:
    """Fail the case unless the ``with`` block raises an error of this class.

    Parameters
    ----------
    kind
        The class, which subclasses may stand for.
    *words_of_it
        What the message must hold, whatever its case.
    """
    try:
        yield
    except kind as error:
        text = words(error)
        missing = [word for word in words_of_it if word.lower() not in text.lower()]
        if missing:
            wanted = f"{kind.__name__} whose message names {' and '.join(map(repr, missing))}"
            raise Failure(wanted, f"{type(error).__name__}: {text}") from error
    except (Failure, NotApplicable):
        raise
    except Exception as error:
        raise Failure(kind.__name__, f"{type(error).__name__}: {words(error)}") from error
    else:
        raise Failure(kind.__name__, "no error")


def require(is_there: object, reason: str) -> None:
    """End the case as not applicable unless what it needs is there."""
    if not is_there:
        not_applicable(reason)


def not_applicable(reason: str) -> NoReturn:
    """End the case as not applicable."""
    raise NotApplicable(reason)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception as error:  # noqa: BLE001  plugin code: an object of its own may not even print
        return f"{type(value).__name__}, whose repr raised {type(error).__name__}"

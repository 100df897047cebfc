"""The lines of a journal: what may stand in one, and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

__all__ = ["BEGIN", "Row", "lines", "row"]

Row = dict[str, Any]

BEGIN = b'{"service": '
"""What every journal begins with."""
_STATES = {"absent", "registering", "connected", "leaving", "left", "lost"}


def lines(rows: Iterable[Row]) -> bytes:
    """Return rows as a journal has them."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


def row(line: bytes, size: int | None) -> Row:
    """Return what a line says.

    Parameters
    ----------
    line
        Without its end.
    size
        How many processes the job has; None of the first line, which says it.

    Raises
    ------
    ValueError
        With the reason, if the line is none of a journal.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # deep nesting is no ValueError
        raise ValueError("it is no JSON") from error
    if not isinstance(found, dict):
        raise ValueError("it has no fields")
    if size is None:
        _check(found, service=_is_number(found.get("service")), size=_is_size(found.get("size")))
    elif "process" in found:
        _check_process(found, size)
    else:
        _check(found, key=_is_text(found.get("key")), value=_is_value(found.get("value")))
    return found


def _check(found: Row, **fields: bool) -> None:
    wrong = [*(name for name, is_right in fields.items() if not is_right)]
    wrong += sorted(found.keys() ^ fields.keys())
    if wrong:
        raise ValueError(f"its field {wrong[0]!r:.40} is wrong, missing, or unknown")


def _check_process(found: Row, size: int) -> None:
    number, state = found["process"], found.get("state")
    _check(
        found,
        process=_is_number(number) and number < size,
        state=isinstance(state, str) and state in _STATES,
        incarnation=_is_number(found.get("incarnation")),
        phase=_is_text(found.get("phase")),
    )


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value < 1 << 31


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_value(value: Any) -> bool:
    try:
        return value is None or base64.b64decode(value, validate=True) is not None
    except (TypeError, ValueError):
        return False

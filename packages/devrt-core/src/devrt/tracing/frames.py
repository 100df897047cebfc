"""The user's lines: what an operation is traced from, for errors.

Lines of devrt, of NumPy and of Python's own library are not the user's.
"""

from __future__ import annotations

import os
import sys
from types import FrameType, TracebackType
from typing import NamedTuple

import numpy as np

from devrt.errors import DevrtError, InternalError

__all__ = ["Frame", "at_user_line", "last_user_frame", "user_frame", "without_own_lines"]

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EXAMPLES = _ROOT + "examples" + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_PYTHON = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGES = _PYTHON + "site-packages" + os.sep


class Frame(NamedTuple):
    """A line of somebody's Python."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} ({self.function})"


NOWHERE = Frame("", 0, "")


class _Users(dict[str, bool]):
    """Which files are neither devrt's own nor NumPy's nor Python's."""

    def __missing__(self, filename: str) -> bool:
        is_pythons = filename.startswith(_PYTHON) and not filename.startswith(_PACKAGES)
        is_others = is_pythons or filename.startswith(_NUMPY)
        is_users = not is_others and not _is_own(filename)
        self[filename] = is_users
        return is_users


def _is_own(filename: str) -> bool:
    return filename.startswith(_ROOT) and not filename.startswith(_EXAMPLES)


_users = _Users()


def last_user_frame(traceback: TracebackType | None) -> Frame:
    """Return the innermost line of the user that an exception came through."""
    found = NOWHERE
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _users[code.co_filename] and not _is_generated(traceback.tb_frame):
            found = Frame(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return found


def _is_generated(frame: FrameType) -> bool:
    """Return whether code has no file as a class of devrt's or of Python's made it of a text."""
    module = frame.f_globals.get("__name__") or ""
    is_own = module.startswith(("namedtuple_", "devrt."))
    return frame.f_code.co_filename == "<string>" and is_own


def without_own_lines(error: BaseException) -> TracebackType | None:
    """Return an error's traceback without devrt's lines, the whole one where devrt is at fault.

    That is so where no error of devrt's own classes came from a line of devrt.
    """
    rows: list[TracebackType] = []
    traceback = error.__traceback__
    while traceback is not None:
        rows.append(traceback)
        traceback = traceback.tb_next
    is_own = [
        _is_own(row.tb_frame.f_code.co_filename) or _is_generated(row.tb_frame) for row in rows
    ]
    if (
        rows
        and is_own[-1]
        and (not isinstance(error, DevrtError) or isinstance(error, InternalError))
    ):
        return error.__traceback__
    kept = None
    for row, own in zip(reversed(rows), reversed(is_own), strict=True):
        if not own:
            kept = TracebackType(kept, row.tb_frame, row.tb_lasti, row.tb_lineno)
    return kept


def user_frame(calls: int = 0) -> Frame:
    """Return the innermost line of the user; an empty one if there is none.

    ``calls`` is how many calls above this one's caller are devrt's for sure: they are skipped.
    """
    frame: FrameType | None = sys._getframe(1 + calls)
    while frame is not None:
        code = frame.f_code
        if _users[code.co_filename]:
            return Frame(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return NOWHERE


def at_user_line() -> str:
    """Return `` at FILE:LINE (function)`` for the end of a clause; empty where there is none."""
    frame = user_frame()
    return f" at {frame}" if frame.line else ""

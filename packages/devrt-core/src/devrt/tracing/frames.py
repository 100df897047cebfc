"""The user's lines: what an operation is traced from, for errors."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import NamedTuple

__all__ = ["Frame", "at_user_line", "user_frame"]

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_EXAMPLES = _ROOT + "examples" + os.sep


class Frame(NamedTuple):
    """A line of somebody's Python."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} ({self.function})"


NOWHERE = Frame("", 0, "")


def user_frame() -> Frame:
    """Return the innermost line outside of devrt; an empty one if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        if not filename.startswith(_ROOT) or filename.startswith(_EXAMPLES):
            return Frame(filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return NOWHERE


def at_user_line() -> str:
    """Return `` at FILE:LINE (function)`` for the end of a clause; empty where there is none."""
    frame = user_frame()
    return f" at {frame}" if frame.line else ""

"""Warnings that point at the caller's own line, however deep in devrt they arise."""

from __future__ import annotations

import sys
import warnings

__all__ = ["report_unraised", "warn"]


def warn(message: str, category: type[Warning]) -> None:
    """Warn on behalf of the nearest caller outside devrt and its backends."""
    depth = 2  # 1 is this function itself
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        depth += 1
    warnings.warn(message, category, stacklevel=depth)


def report_unraised(error: BaseException) -> None:
    """Hand an error that must not end what is being done to `sys.unraisablehook`."""
    _Raiser(error)


class _Raiser:
    """Raises an error where nobody can catch it: the hook takes nothing that is made by hand."""

    def __init__(self, error: BaseException) -> None:
        self.error = error.with_traceback(None)

    def __del__(self) -> None:
        raise self.error


def _is_ours(module: str) -> bool:
    root = module.partition(".")[0]
    return root == "devrt" or root.startswith("devrt_")

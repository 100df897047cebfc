"""The logger ``devrt``: what is found, chosen and made, for a program that logs.

``logging`` takes longer to import than a start takes, and a program that has not imported it has no
handler that a record could reach; so it is never imported here. No call on a hot path is logged,
and none is made while a lock is held: a handler may do anything.
"""

from __future__ import annotations

import sys

__all__ = ["debug", "info"]


def info(message: str, *arguments: object) -> None:
    """Log what a user of the program may want to know; ``arguments`` as in `logging`."""
    _log("info", message, arguments)


def debug(message: str, *arguments: object) -> None:
    """Log what explains it; ``arguments`` as in `logging`."""
    _log("debug", message, arguments)


def _log(level: str, message: str, arguments: tuple[object, ...]) -> None:
    get_logger = getattr(sys.modules.get("logging"), "getLogger", None)
    if get_logger is not None:  # None too while another thread is importing it
        getattr(get_logger("devrt"), level)(message, *arguments, stacklevel=3)

"""What a plugin logs: lines on standard error, kept off the terminal and given to `logging`.

Only lines in the form of the plugins' own logging are kept; whatever else is written meanwhile, by
any thread or child process, goes on at once. Where the process dies, so do they.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from devrt.errors import DevrtError
from devrt_pjrt._native import ffi, lib

if TYPE_CHECKING:
    from devrt_pjrt.library.library import Library

__all__ = ["LogLine", "Opening", "captured", "new_log"]

_LEVELS = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}
_ABSL = re.compile(r"([IWEF])\d{4} \S+\s+\d+ (\S+:\d+)\] ?(.*)")
_OLDER = re.compile(r"20\d\d-\S+ \S+: ([IWEF]) (\S+:\d+)\] ?(.*)")
_MOST_LINES = 1000

_logger = logging.getLogger("devrt_tpu.plugin")
# Without a handler of the program's own, warnings would be printed after all.
_logger.addHandler(logging.NullHandler())
_one_at_a_time = threading.Lock()


class LogLine(NamedTuple):
    """A line that a plugin has logged: `logging`'s level, the plugin's source line, the text."""

    level: int
    place: str
    text: str

    def __str__(self) -> str:
        return f"{logging.getLevelName(self.level)} {self.place}] {self.text}"


def new_log() -> deque[LogLine]:
    """Return room for the last lines of a plugin."""
    return deque(maxlen=_MOST_LINES)


class Opening(NamedTuple):
    """A library that is being opened: there is nothing else of it yet."""

    name: str
    log: deque[LogLine]


@contextmanager
def captured(library: Library | Opening) -> Iterator[None]:
    """Keep what the plugin logs meanwhile: in its log, in logger ``devrt_tpu.plugin``, in errors.

    At level DEBUG of that logger nothing is kept, and lines appear as they are written. Of
    several calls at once the first captures for all.
    """
    if _logger.isEnabledFor(logging.DEBUG) or not _one_at_a_time.acquire(blocking=False):
        yield
        return
    lines: list[LogLine] = []
    try:
        handle = lib.devrt_capture_begin()
        try:
            yield
        finally:
            if handle != ffi.NULL:
                lines += _lines(_end(handle))
    except DevrtError as error:
        if lines:
            error._data["log"] = tuple(map(str, lines))
            error.log = error._data["log"]  # type: ignore[attr-defined]
        raise
    finally:
        _one_at_a_time.release()
        library.log.extend(lines)
        for line in lines:
            _logger.log(line.level, "%s: %s] %s", library.name, line.place, line.text)


def _end(handle: object) -> str:
    size = ffi.new("size_t *")
    text = lib.devrt_capture_end(handle, size)
    try:
        return bytes(ffi.buffer(text, size[0])).decode(errors="replace") if size[0] else ""
    finally:
        lib.devrt_free(text)


def _lines(text: str) -> Iterator[LogLine]:
    for line in text.splitlines():
        match = _ABSL.match(line) or _OLDER.match(line)
        if match is not None:
            yield LogLine(_LEVELS[match.group(1)], match.group(2), match.group(3))

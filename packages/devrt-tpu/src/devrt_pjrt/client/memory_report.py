"""What lives in the memory of a client, and where it was made: for errors and for profiles."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from devrt.contract import Frame, Traceback
from devrt.errors import DevrtError, OutOfMemoryError

if TYPE_CHECKING:
    from devrt_pjrt.buffers.buffer import PjrtBuffer
    from devrt_pjrt.client.client import PjrtClient

__all__ = ["NOTED_BYTES", "heap_profile", "note_site", "traceback_of", "with_report"]

NOTED_BYTES = 1 << 20
"""From this size on it is noted where a buffer is made: beside its transfer that is little."""

_DEPTH = 8
_LARGEST = 8
_OWN = tuple(f"{name}{mark}" for name in ("devrt", "devrt_pjrt") for mark in (".", "\0"))
_UNITS = {"space": "bytes", "objects": "count"}

Site = tuple[tuple[Any, int], ...]
"""Code objects and lines, the innermost call first."""


def note_site() -> Site:
    """Return the calls outside devrt that led here."""
    found: list[tuple[Any, int]] = []
    frame = sys._getframe(1)
    at: Any = frame
    while at is not None and len(found) < _DEPTH:
        module = f"{at.f_globals.get('__name__', '')}\0"
        if found or not module.startswith(_OWN):
            found.append((at.f_code, at.f_lineno))
        at = at.f_back
    return tuple(found)


def traceback_of(site: Site | None) -> Traceback | None:
    """Return a site as the contract has it."""
    if site is None:
        return None
    return Traceback(
        tuple(
            Frame(code.co_filename, code.co_qualname, code.co_firstlineno, line)
            for code, line in site
        )
    )


def with_report(client: PjrtClient, error: DevrtError) -> DevrtError:
    """Return an error of a full memory with what is known of the memory; any other as it is.

    The allocator's figures are ``error.summary`` by device, the options ``error.options``, and
    the largest buffers ``error.largest``, as text.
    """
    if not isinstance(error, OutOfMemoryError) or "summary" in error.data:
        return error
    summary = _statistics(client)
    buffers = sorted(client.live_buffers(), key=lambda b: -b.nbytes)
    largest = tuple(_described(buffer) for buffer in buffers[:_LARGEST])  # type: ignore[arg-type]
    options = dict(client.options)
    lines = [error.message]
    lines += [f"  {device}: {_figures(figures)}" for device, figures in summary.items()]
    lines.append(f"  options of the client: {options or 'none'}")
    total = sum(buffer.nbytes for buffer in buffers)
    lines.append(f"  live buffers: {len(buffers)} with {_size(total)}; the largest:")
    lines += [f"    {text}" for text in largest] or ["    none"]
    lines.append("  Delete what is not needed any more, or donate arguments.")
    return OutOfMemoryError(
        "\n".join(lines),
        code=error.code,
        **{**error.data, "summary": summary, "options": options, "largest": largest},
    )


def _statistics(client: PjrtClient) -> dict[str, dict[str, int]]:
    found = {}
    for device in client.local_devices():
        try:
            figures = device.memory_stats()
        except DevrtError:
            continue  # a plugin that has failed may fail again
        if figures:
            found[str(device)] = figures
    return found


def _figures(figures: dict[str, int]) -> str:
    shown = (
        f"{name} {_size(value) if 'byte' in name or 'size' in name else value}"
        for name, value in figures.items()
    )
    return ", ".join(shown)


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def _described(buffer: PjrtBuffer) -> str:
    made = buffer.traceback
    where = f", made at {made.frames[0]}" if made is not None and made.frames else ""
    return f"{_size(buffer.nbytes)}: {buffer._describe()}{where}"


def heap_profile(client: PjrtClient) -> bytes:
    """Return the live buffers by place, device, memory, shape and dtype, for pprof."""
    from devrt.wire.pprof import Profile, Sample, write_profile

    count: Counter[Any] = Counter()
    space: Counter[Any] = Counter()
    for buffer in client.live_buffers():
        key = _key(buffer)  # type: ignore[arg-type]
        count[key] += 1
        space[key] += buffer.nbytes
    samples = tuple(
        Sample({"space": space[key], "objects": count[key]}, dict(labels), stack)
        for key in count
        for stack, labels in [key]
    )
    return write_profile(Profile(time.time_ns(), dict(_UNITS), samples))


def _key(buffer: PjrtBuffer) -> tuple[Any, ...]:
    made = buffer.traceback
    frames = made.frames if made is not None else ()
    stack = tuple((f.function_name, f.file_name, f.line_num) for f in frames)
    labels = (
        ("device", str(buffer.device)),
        ("kind", buffer.memory.kind),
        ("array", str(buffer._spec)),
    )
    return stack, labels

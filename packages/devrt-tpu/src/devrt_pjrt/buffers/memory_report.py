"""What lives in the memory of a client: the list, errors of a full memory, and profiles."""

from __future__ import annotations

import gc
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from devrt.errors import DevrtError, OutOfMemoryError
from devrt_pjrt.buffers.buffer import PjrtBuffer

if TYPE_CHECKING:
    from devrt_pjrt.connection.connection import Connection

__all__ = ["heap_profile", "live_buffers", "with_report"]

_LARGEST = 8
_UNITS = {"space": "bytes", "objects": "count"}


def live_buffers(connection: Connection) -> list[PjrtBuffer]:
    """Return the buffers that are neither deleted nor collected, oldest first."""
    connection.drain()
    connection.is_searched = True
    # Weak references would cost every buffer more than a search costs who asks for this. Other
    # threads may be making and ending the objects that it finds: those have no handle.
    there = [b for b in gc.get_objects() if isinstance(b, PjrtBuffer)]
    found = {getattr(b, "_handle", 0): b for b in there}
    ordered = (found.get(handle) for handle in list(connection.live))
    return [
        b for b in ordered if b is not None and b.connection is connection and not b.is_deleted()
    ]


def with_report(connection: Connection, error: DevrtError) -> DevrtError:
    """Return an error of a full memory with what is known of the memory; any other as it is.

    The allocator's figures are ``error.summary`` by device, the options ``error.options``, and
    the largest buffers ``error.largest``, as text.
    """
    if not isinstance(error, OutOfMemoryError) or "summary" in error.data:
        return error
    summary = _statistics(connection)
    buffers = sorted(live_buffers(connection), key=lambda b: -b.nbytes)
    largest = tuple(_described(buffer) for buffer in buffers[:_LARGEST])
    options = dict(connection.options)
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


def _statistics(connection: Connection) -> dict[str, dict[str, int]]:
    found = {}
    for device in connection.inventory.local:
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
    return f"{_size(buffer.nbytes)}: {buffer.describe()}{where}"


def heap_profile(connection: Connection) -> bytes:
    """Return the live buffers by call site, device, memory, shape and dtype, for pprof."""
    from devrt.wire.pprof import Profile, Sample, write_profile

    count: Counter[Any] = Counter()
    space: Counter[Any] = Counter()
    for buffer in live_buffers(connection):
        key = _key(buffer)
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
        ("array", str(buffer.spec)),
    )
    return stack, labels

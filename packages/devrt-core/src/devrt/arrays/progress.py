"""How far a long transfer of many arrays has come."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from devrt._support.notebook import notebook_display
from devrt.arrays.array import Array
from devrt.errors import InvalidTypeError

__all__ = ["Progress", "ProgressCallback", "Reporter", "reporting"]


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """The state of a transfer of many leaves, once one more has arrived.

    Attributes
    ----------
    leaves_done, leaves : int
        How many leaves have arrived, and how many there are.
    bytes_done, bytes : int
        The same in bytes of the leaves' values.
    """

    leaves_done: int
    leaves: int
    bytes_done: int
    bytes: int


ProgressCallback: TypeAlias = Callable[[Progress], object]


class Reporter:
    """Counts leaves as they arrive; a leaf counts when its data is there."""

    def __init__(self, callback: ProgressCallback, values: Sequence[Any]) -> None:
        self._callback = callback
        self._sizes = [_nbytes(value) for value in values]
        self._bytes = sum(self._sizes)
        self._started: list[Any] = []
        self._bytes_done = 0
        self._done = 0

    def add(self, result: Any) -> None:
        """Note a transfer that was started, and wait for the one before it."""
        self._started.append(result)
        if len(self._started) > 1:
            self._finish(self._started.pop(0))

    def close(self) -> None:
        """Wait for the transfers that are still in flight."""
        while self._started:
            self._finish(self._started.pop(0))

    def _finish(self, result: Any) -> None:
        if type(result) is Array:
            result.block_until_ready()
        self._bytes_done += self._sizes[self._done]
        self._done += 1
        self._callback(Progress(self._done, len(self._sizes), self._bytes_done, self._bytes))


@contextlib.contextmanager
def reporting(progress: bool | ProgressCallback, verb: str) -> Iterator[ProgressCallback]:
    """Yield what is to be called with the progress: the user's callback, or what draws a bar.

    The bar is on the standard error, or in the notebook.
    """
    if callable(progress):
        yield progress
        return
    if progress is not True:
        msg = (
            f"progress is True, False or a function of one devrt.arrays.Progress, not "
            f"{progress!r} of type {type(progress).__name__}."
        )
        raise InvalidTypeError(msg, progress=progress)
    notebook = notebook_display()
    if notebook is not None:
        yield _bar_in(notebook, verb)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bar("{task.description}", *columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(verb, total=None)

        def show(state: Progress) -> None:
            done = f"{verb} {state.leaves_done}/{state.leaves}"
            bar.update(task, completed=state.bytes_done, total=state.bytes, description=done)

        yield show


def _bar_in(notebook: Any, verb: str) -> ProgressCallback:
    handle = notebook.display(notebook.HTML(verb), display_id=True)

    def show(state: Progress) -> None:
        done, total = state.bytes_done, max(state.bytes, 1)
        bar = f'<progress value="{done}" max="{total}"></progress>'
        size = f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
        handle.update(notebook.HTML(f"{bar} {verb} {state.leaves_done}/{state.leaves}, {size}"))

    return show


def _nbytes(value: Any) -> int:
    return int(getattr(value, "nbytes", 0))

"""Versions of drivers that a manifest names: where one is read, and between which it may lie."""

from __future__ import annotations

import os

from devrt._support.record import record
from devrt.records import Unavailable

__all__ = ["Driver", "EnvironmentVariable"]

_MOST_BYTES = 4096


@record(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """An environment variable that a backend or its libraries read, and what for."""

    name: str
    about: str


@record(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver whose version is in a file: the first number with dots, behind the text ``after``.

    Of several ``path`` the first file that is there counts. ``minimum`` and ``maximum`` are
    versions that still work; a ``maximum`` of fewer numbers takes all that begin with them. Where
    a variable of ``unless_set`` asks for simulated devices, any driver does.
    """

    name: str
    path: tuple[str, ...]
    remedy: str
    after: str = ""
    minimum: str = ""
    maximum: str = ""
    unless_set: tuple[str, ...] = ()

    def problem(self, root: str | os.PathLike[str] = "/") -> Unavailable | None:
        """Return why the driver that is here does not do; None if it does or cannot be read."""
        found = self.version(root)
        if not found:
            return None
        have = _numbers(found)
        if self.minimum and have < _numbers(self.minimum):
            why = f"older than {self.minimum}, the oldest that works"
        elif self.maximum and have[: len(most := _numbers(self.maximum))] > most:
            why = f"newer than {self.maximum}, the newest that works"
        else:
            return None
        return Unavailable(f"{self.name} is of version {found}, {why}", self.remedy)

    def version(self, root: str | os.PathLike[str] = "/") -> str:
        """Return the version of the driver that is here; empty if none can be read."""
        for path in self.path:
            try:
                with open(os.path.join(root, path.lstrip("/")), "rb") as file:
                    text = file.read(_MOST_BYTES).decode(errors="replace")
            except OSError:
                continue
            import re  # only where there is a driver

            _, _, behind = text.partition(self.after) if self.after else ("", "", text)
            found = re.search(r"\b\d+(?:\.\d+)+", behind, re.ASCII)
            return found.group() if found else ""
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    # Without zeros at the end, so that 2.0 is no older than 2.0.0.
    numbers = [int(part) for part in version.split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)

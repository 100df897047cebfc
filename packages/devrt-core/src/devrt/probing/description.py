"""What a backend says of itself for reports, beside its devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from devrt._support.words import words
from devrt.records import ClientFactory

__all__ = ["description"]

_LONGEST = 1000


def description(factory: ClientFactory, options: Mapping[str, Any]) -> str:
    """Return what a factory's ``describe`` returns for some options; or why it does not.

    Parameters
    ----------
    factory
        A plugin's record.
    options
        The values in force of the options that it declares.
    """
    describe: Callable[[Mapping[str, Any]], object] = factory.describe  # a plugin's: of any type
    try:
        found = describe(options)
    except Exception as error:  # noqa: BLE001  plugin code: a report shows what it can
        found = f"its describe raised {type(error).__name__}: {words(error)}"
    if not isinstance(found, str):
        found = f"its describe returned {type(found).__name__}, not a string"
    return " ".join(found.split())[:_LONGEST].rstrip(".")

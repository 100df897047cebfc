"""The array API standard's view of `devrt.numpy`."""

from __future__ import annotations

from typing import Any

from devrt.errors import UnimplementedError

__all__ = ["array_namespace"]


def array_namespace(api_version: str | None) -> Any:
    """Return `devrt.numpy`.

    Raises
    ------
    UnimplementedError
        If another version of the array API standard than 2024.12 is requested.
    """
    if api_version not in (None, "2024.12"):
        msg = (
            f"devrt.numpy does not follow version {api_version!r} of the array API standard: it "
            "follows 2024.12."
        )
        raise UnimplementedError(msg, operation="__array_namespace__")
    from devrt import numpy

    return numpy

"""Custom calls that nobody answers: what a program asks for, and what there is instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from devrt.errors import UnimplementedError
from devrt_cpu import _linalg

__all__ = ["explained"]

_UNKNOWN = re.compile(
    r"(?:No FFI handler registered for|No registered implementation for untyped custom call to) "
    r"(\S+)"
)


@contextmanager
def explained() -> Iterator[None]:
    """Turn the compiler's error on an unknown custom call into one that says what to do."""
    try:
        yield
    except UnimplementedError as error:
        found = _UNKNOWN.search(str(error))
        if found is None:
            raise
        raise UnimplementedError(
            _explain(found.group(1)), operation="compile_and_load", platform="cpu"
        ) from error


def _explain(name: str) -> str:
    if "callback" in name:
        return (
            f"the program makes the custom call '{name}', which runs a Python function of the "
            "process that exported it. Export the program without callbacks, or let it call a "
            "function of this process: client.register_custom_call."
        )
    calls = _linalg.known_calls()
    routines = {call.split("_")[1][1:] for call in calls if call.startswith("lapack_")}
    others = [call for call in calls if not call.startswith(("lapack_", "blas_"))]
    known = f"{', '.join(others)} and lapack_*_ffi of: {', '.join(sorted(routines))}"
    return (
        f"the program makes the custom call '{name}', which neither XLA nor devrt-cpu has on the "
        f"CPU. Known beside XLA's own are {known} (with devrt-cpu[linalg]). "
        "Export the program for the platform cpu or without this call, or register what answers "
        "it: client.register_custom_call."
    )

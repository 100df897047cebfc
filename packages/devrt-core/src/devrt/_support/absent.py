"""The words for a name of the interface that this release does not have, or has elsewhere."""

from __future__ import annotations

import difflib
from collections.abc import Collection

__all__ = ["absent"]

_TRACED = frozenset({"vmap"})
_ELSEWHERE = {"ArrayProgram": "devrt.programs", "load_program": "devrt.programs"}


def absent(module: str, name: str, not_yet: Collection[str], present: Collection[str] = ()) -> str:
    """Return why a module has no attribute of a name, and what to do.

    Parameters
    ----------
    module, name
        The module, and what it does not have.
    not_yet
        The names that will come.
    present
        The names that it has, one of which may have been meant.
    """
    msg = f"module {module!r} has no attribute {name!r}"
    if name in not_yet and name in _TRACED:
        return (
            f"{msg}: devrt does not trace this yet. Export the function from JAX or PyTorch, and "
            "call it with devrt.programs.load_program."
        )
    if name in not_yet:
        return f"{msg}; it needs what this release does not have yet."
    if name in _ELSEWHERE and module == "devrt":
        return f"{msg}. It is in another: from {_ELSEWHERE[name]} import {name}."
    near = difflib.get_close_matches(name, present, n=1, cutoff=0.75)
    return f"{msg}. Did you mean {near[0]!r}?" if near else msg

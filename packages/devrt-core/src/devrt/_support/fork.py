"""An error for the forked child that imports what a thread of its parent was importing.

The thread that imports a module holds that module's import lock. A child that is forked meanwhile
gets the lock, but not the thread, and would wait for it for ever; and half of the module is there.
Such locks are looked for once, in the child, right after the fork. Each is replaced by one that
raises where the other would wait. All other modules are imported as ever.
"""

from __future__ import annotations

import _thread
import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

__all__ = ["LostImport", "refuse_lost_imports"]

_NEEDED = {"devrt", "devrt.errors"}  # for a ForkedError


class LostImport:
    """Replaces an import lock, and of the weak reference through which it is kept.

    ``lost`` are all modules that threads of the parent were importing.
    """

    def __init__(self, module: str, lost: Sequence[str], parent: int) -> None:
        self._module = module
        self._lost = tuple(lost)
        self._parent = parent

    def __call__(self) -> LostImport:
        return self

    def acquire(self) -> NoReturn:
        """Raise `ForkedError`, or `RuntimeError` where that itself cannot be imported."""
        msg = (
            f"module {self._module!r} cannot be imported in this process: it was forked from "
            f"process {self._parent} while another thread there was importing "
            f"{', '.join(self._lost)}, and that thread did not come along. Start processes with "
            "multiprocessing's 'spawn' method, or fork while no other thread imports anything, "
            "so before the first use of devrt."
        )
        raise self._error(msg)

    def _error(self, msg: str) -> Exception:
        if not _NEEDED.isdisjoint(self._lost):
            return RuntimeError(msg)
        try:
            kind = importlib.import_module("devrt.errors").ForkedError
        except (ImportError, AttributeError, RuntimeError):  # what it imports is lost too
            return RuntimeError(msg)
        error: Exception = kind(msg, parent=self._parent, modules=self._lost)
        return error


def refuse_lost_imports() -> None:
    """Have every child that is forked from now on refuse the imports that it cannot make."""
    if hasattr(os, "register_at_fork"):
        watch = _Watch()
        os.register_at_fork(after_in_child=watch.replace_lost_locks)


class _Watch:
    def __init__(self) -> None:
        self._pid = os.getpid()

    def replace_lost_locks(self) -> None:
        # Nothing is imported here: that is what may not end.
        parent, self._pid = self._pid, os.getpid()
        locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
        lost = sorted(name for name, lock in locks.copy().items() if _is_lost(lock()))
        for name in lost:
            locks[name] = LostImport(name, lost, parent)


def _is_lost(lock: object) -> bool:
    """Tell whether a thread that is not there holds an import lock, or was about to."""
    owner: int | None = getattr(lock, "owner", None)
    if owner is not None:
        return owner != _thread.get_ident()
    guard = getattr(lock, "lock", None)  # held for a moment, before there is an owner
    if guard is None:
        return False
    if not guard.acquire(False):
        return True
    guard.release()
    return False

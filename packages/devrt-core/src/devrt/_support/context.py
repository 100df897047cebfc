"""Whether anything changes what a call means: options, default device, current mesh, a trace.

Calls that are repeated compare one object, `Context.stamp`. It is another one after an option was
changed, and None, which nothing compares equal to, where a call has to look: while any thread
traces, and for good once an option was overridden or a mesh entered in some thread or task, as
copies of contexts outlive the block.
"""

from __future__ import annotations

import threading
from typing import ClassVar

__all__ = ["Context"]


class Context:
    """What calls of compiled functions depend on besides their arguments; never instantiated.

    Attributes
    ----------
    epoch : int
        Grows with every change of an option but those in an override.
    stamp : object or None
        The same one as long as nothing changed; None where a call has to look.
    was_overridden : bool
        Whether an option was ever overridden in a block.
    """

    epoch: ClassVar[int] = 0
    stamp: ClassVar[object | None] = object()
    was_overridden: ClassVar[bool] = False

    _kept: ClassVar[object] = stamp
    _is_plain: ClassVar[bool] = True
    _traces: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def changed(cls) -> None:
        """Note that an option changed."""
        with cls._lock:
            cls.epoch += 1
            cls._kept = object()
            cls._renew()

    @classmethod
    def overridden(cls) -> None:
        """Note that an option is overridden in a block."""
        cls.was_overridden = True
        cls.not_plain()

    @classmethod
    def not_plain(cls) -> None:
        """Note that threads and tasks may differ from now on."""
        with cls._lock:
            cls._is_plain = False
            cls._renew()

    @classmethod
    def trace_begun(cls) -> None:
        """Note that a thread begins to trace."""
        with cls._lock:
            cls._traces += 1
            cls.stamp = None

    @classmethod
    def trace_ended(cls) -> None:
        """Note that a thread has ended its trace."""
        with cls._lock:
            cls._traces -= 1
            cls._renew()

    @classmethod
    def _renew(cls) -> None:
        cls.stamp = cls._kept if cls._is_plain and not cls._traces else None

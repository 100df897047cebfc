"""What ``DEVRT_PROBE=isolated`` does before plugin code runs here: let it run in a child first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from devrt.errors import PluginLoadError
from devrt.plugins._refs import PluginRef
from devrt.plugins._selection import Broken

__all__ = ["Rehearsal"]


class Rehearsal:
    """Tries plugins in child processes and remembers what became of them.

    Parameters
    ----------
    isolation
        Returns the seconds that a plugin may take; None to try nothing.
    """

    def __init__(self, isolation: Callable[[], float | None]) -> None:
        self._isolation = isolation
        self._cache: Any = None

    def load(self, ref: PluginRef) -> None:
        """Let a child load and probe a plugin.

        Raises
        ------
        PluginLoadError
            If that failed there: it is not tried here.
        """
        timeout = self._timeout(ref)
        if timeout is None:
            return
        from devrt.plugins._verdicts import isolated_state

        state = isolated_state(ref, timeout, cache=self._verdicts())
        if isinstance(state, Broken):
            who = (
                "" if str(ref) in state.reason else f"plugin {ref} for platform {ref.platform!r}: "
            )
            msg = f"{who}{state.reason}."
            raise PluginLoadError(msg, phase=state.phase, remedy=state.remedy, **ref.facts())

    def client(self, ref: PluginRef, options: Mapping[str, Any]) -> Broken | None:
        """Let a child make a client; return what became of it if that failed."""
        timeout = self._timeout(ref)
        if timeout is None:
            return None
        from devrt.plugins._verdicts import rehearsed

        return rehearsed(ref, timeout, options, self._verdicts())

    def _timeout(self, ref: PluginRef) -> float | None:
        return self._isolation() if ref.module and not ref.problem else None

    def _verdicts(self) -> Any:
        if self._cache is None:
            from devrt.plugins._verdicts import VerdictCache

            self._cache = VerdictCache()
        return self._cache

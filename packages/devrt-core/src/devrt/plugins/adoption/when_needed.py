"""When it is found out what modules made for JAX register: where an answer depends on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from devrt.errors import PluginError
from devrt.plugins.discovery.refs import PluginRef, normalized
from devrt.plugins.loading.once import Once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins.adoption.recording import RunEntries
    from devrt.plugins.loading.manifest import BackendManifest

__all__ = ["Adoption", "replaced_refs"]


class Adoption:
    """Finds out what entries' modules register, each once in this process.

    ``run`` is as `recording.settled` takes it; None leaves what they register unknown.
    """

    def __init__(
        self,
        manifest: Callable[[PluginRef], BackendManifest | None],
        is_forbidden: Callable[[PluginRef], bool],
        run: RunEntries | None,
    ) -> None:
        self._manifest = manifest
        self._is_forbidden = is_forbidden
        self._run = run
        self._recording: Once[tuple[PluginRef, ...], bool] = Once(
            lambda _: "what modules made for JAX register is being recorded"
        )
        # Kept for good: variables that a plugin sets here would make another verdict of it.
        self._found: dict[PluginRef, tuple[PluginRef, ...]] = {}

    def replacements(
        self,
        refs: Sequence[PluginRef],
        names: Sequence[str] = (),
        *,
        retry: bool = False,
    ) -> dict[PluginRef, tuple[PluginRef, ...]]:
        """Return what stands in the place of the references whose platforms are guesses.

        A platform in ``names`` (all, if empty) that a plugin serves for sure needs no guess.
        ``retry`` runs those modules again that failed before.
        """
        due = [ref for ref in self._due(refs, names) if not self._is_forbidden(ref)]
        again = [ref for ref in self._found if retry and self._has_failed(ref, refs)]
        former = {ref: self._found[ref] for ref in again}
        fresh = tuple(ref for ref in due if ref not in self._found)
        if again:
            self._record((*fresh, *again), retry)
        elif fresh:
            self._recording.get(
                fresh,
                lambda: self._found.keys() >= {*fresh} or None,
                lambda: self._record(fresh, retry),
            )
        found = {ref: self._found[ref] for ref in due}
        for ref, (first, *others) in former.items():
            found |= {first: self._found[ref], **dict.fromkeys(others, ())}
        return found

    def _record(self, guesses: Sequence[PluginRef], retry: bool) -> bool:
        from devrt.plugins.adoption.recording import settled  # seldom needed, and start-up counts

        assert self._run is not None, "nothing is due without it"
        self._found |= settled(guesses, self._run, retry=retry)
        return True

    def _due(self, refs: Sequence[PluginRef], names: Sequence[str]) -> list[PluginRef]:
        guesses = [ref for ref in refs if ref.is_guess] if self._run is not None else []
        if not guesses or not names:
            return guesses
        sure = [ref for ref in refs if not ref.is_guess]
        unserved = [name for name in names if not any(map(self._serves(name), sure))]
        return [ref for ref in guesses if any(_may_serve(ref, name) for name in unserved)]

    def _serves(self, name: str) -> Callable[[PluginRef], bool]:
        return lambda ref: ref.is_called(name) or name in self._aliases(ref)

    def _aliases(self, ref: PluginRef) -> tuple[str, ...]:
        try:
            manifest = self._manifest(ref)
        except PluginError:
            return ()
        return manifest.aliases if manifest is not None else ()

    def _has_failed(self, guess: PluginRef, refs: Sequence[PluginRef]) -> bool:
        from devrt.plugins.discovery.registered import registered

        known = [registered(ref) for ref in self._found[guess] if ref in refs]
        return any(one is not None and (one.failed or one.ended) for one in known)


def _may_serve(guess: PluginRef, name: str) -> bool:
    """Return whether a plugin may turn out to be called ``name``, whatever its platform."""
    _, at, distribution = name.partition("@")
    return not at or guess.is_called(f"{guess.platform}@{distribution}")


def replaced_refs(
    refs: Sequence[PluginRef], found: Mapping[PluginRef, Sequence[PluginRef]]
) -> tuple[PluginRef, ...]:
    """Return every plugin, with what was found in the place of guesses, each name once.

    Where a distribution serves a platform by a plugin made for devrt, or by another entry, what
    its module registers for that platform says nothing new.
    """
    served = {_key(ref) for ref in refs if ref not in found}
    kept: list[PluginRef] = []
    for ref in refs:
        for new in found.get(ref, (ref,)):
            if ref not in found or new.is_empty or _key(new) not in served:
                kept.append(new)
                served.add(_key(new))
    return tuple(kept)


def _key(ref: PluginRef) -> tuple[str, str]:
    return ref.platform, normalized(ref.distribution)

"""The keys of configuration files that name no option, or none that is known yet.

A plugin's option carries its platform's name, so a key with one in it waits until that plugin is
loaded. Any other key that is unknown is an error, with one exception: the user's file serves many
environments, and what may be the option of a plugin that is not installed in this one is only
warned about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator

from devrt._config.files import ConfigFile
from devrt._support.warn import warn
from devrt.errors import ConfigError, DevrtWarning

__all__ = ["FileKeys", "carries", "nearest", "option_of", "similar", "unknown_option"]

_OF_JAX = {
    "enable_x64": "It is an option of JAX. devrt has no switch for 64-bit types: arrays keep the "
    "dtype that they have, 64-bit ones too, and only Python numbers become 32-bit; give those a "
    "NumPy dtype where it matters, and leave the option out.",
}
_SETTLED_IN_JAX = (
    "It is an option of JAX, and devrt has none of that name: its tracing and numerics have no "
    "switches; devrt.debug shows values in traced functions; what concerns compiling is an option "
    "of the call that compiles."
)


class FileKeys:
    """Finds the keys that are mistakes, each as soon as that can be known.

    ``own`` are the names of the core's options. ``whose`` returns whose option a name is and why
    that is not there, as a sentence; it may ask the configuration, which is not checked meanwhile.
    """

    def __init__(self, own: Collection[str], whose: Callable[[str], str]) -> None:
        self._own = own
        self._whose = whose
        self._left: tuple[tuple[ConfigFile, str], ...] = ()
        self._seen: set[str] = set()
        self._asking: set[int] = set()

    def read(self, files: Iterable[ConfigFile]) -> None:
        """Take the keys of ``files`` instead of those before."""
        self._left = tuple((file, key) for file in files for key in file.values)

    def waiting(
        self, names: Collection[str], platforms: Callable[[], Iterable[str]]
    ) -> list[tuple[str, str]]:
        """Return the path and the key of what may be an option of one of ``platforms``."""
        waits = carries(_listed(platforms) or () if self._left else ())
        return [(f.path, key) for f, key in self._left if key not in names and waits(key)]

    def check(self, names: Collection[str], platforms: Callable[[], Iterable[str]]) -> None:
        """Refuse the first key that is none of ``names`` and cannot be a plugin's any more.

        ``platforms`` returns those whose plugins have not declared their options. The `ConfigError`
        gives the file and the nearest option.
        """
        if self._left:
            for mistake in self.mistakes(names, platforms):
                raise mistake

    def mistakes(
        self, names: Collection[str], platforms: Callable[[], Iterable[str]]
    ) -> Iterator[ConfigError]:
        """Yield the error of every key that `check` would refuse; arguments as there."""
        if not self._left or threading.get_ident() in self._asking:
            return
        self._left = tuple((file, key) for file, key in self._left if key not in names)
        unsaid = _listed(platforms) if self._left else None
        if unsaid is None:
            return
        self._seen |= unsaid
        waits = carries(unsaid)
        for file, key in self._left:
            mistake = None if waits(key) else self._mistake(file, key, names)
            if mistake is not None:
                yield mistake

    def whose(self, name: str) -> str:
        """Return whose option a name is; empty if it is nobody's, or if that is being found out."""
        me = threading.get_ident()
        if me in self._asking:
            return ""
        self._asking.add(me)
        try:
            return self._whose(name)
        except ConfigError:
            return ""  # the question was about another mistake
        finally:
            self._asking.discard(me)

    def _mistake(self, file: ConfigFile, key: str, names: Collection[str]) -> ConfigError | None:
        """Return why a key is refused; None, after a warning, where it may be meant for others."""
        where = f"configuration file {file.path}"
        if not file.is_shared or not self._may_be_elsewhere(file, key, names):
            problem = f"{where}: no option {key!r}"
            if isinstance(file.values[key], dict):
                problem += ", and options stand in no table of their own"
            return unknown_option(key, problem, names, self.whose(key))
        self._left = tuple(left for left in self._left if left != (file, key))
        if not self.whose(key):
            msg = (
                f"{where}: no option {key!r} in this environment. It is ignored, because it may be "
                "the option of a plugin that is not installed here. Correct it if it is not."
            )
            warn(msg, DevrtWarning)
        return None

    def _may_be_elsewhere(self, file: ConfigFile, key: str, names: Collection[str]) -> bool:
        if isinstance(file.values[key], dict) or "_" not in key or carries(self._seen)(key):
            return False
        return not nearest(key, names, self._own)


def option_of(variable: str) -> str:
    """Return the option whose environment variable this would be; empty for any other name."""
    name = variable.removeprefix("DEVRT_").lower()
    return name if variable == f"DEVRT_{name.upper()}" else ""


def nearest(name: str, names: Collection[str], own: Collection[str] = ()) -> str:
    """Return the option that a name is a misspelling of; empty if it is none's.

    The core's ``own`` options need less likeness.
    """
    import difflib  # seldom needed, and startup counts

    # Other platforms' options are alike: num_x_devices, num_y_devices.
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.8)
    near = near or difflib.get_close_matches(name, names, n=1, cutoff=0.9)
    return near[0] if near else ""


def similar(name: str, names: Collection[str], own: Collection[str] = ()) -> list[str]:
    """Return what a name may be meant for: its option as `nearest` finds it, else two guesses."""
    near = nearest(name, names, own)
    if near:
        return [near]
    import difflib

    every = {*names, *own}
    # A word left out makes a name much shorter than what it stands for.
    parts = set(name.split("_"))
    inside = sorted(n for n in every if parts <= set(n.split("_")))
    return (inside or difflib.get_close_matches(name, sorted(every), n=2))[:2]


def _listed(platforms: Callable[[], Iterable[str]]) -> set[str] | None:
    try:
        return set(platforms())
    except Exception:  # noqa: BLE001  metadata may be broken; listing plugins reports it
        return None


def carries(platforms: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a name has that of one of ``platforms`` in it."""
    known = frozenset(platforms)
    return lambda name: not known.isdisjoint(name.lower().split("_"))


def unknown_option(name: str, problem: str, names: Iterable[str], absent: str) -> ConfigError:
    """Return the error for a name that is no option's.

    ``problem`` is the question, without a full stop; ``absent`` says whose option it is and why
    that is not there.
    """
    import difflib

    key = name.removeprefix("jax_")
    near = difflib.get_close_matches(key, names, n=3)
    if key != name and not nearest(key, (), list(names)):
        near, absent = [], absent or _OF_JAX.get(key, _SETTLED_IN_JAX)
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    hint = f"{absent} " if absent else hint
    listed = "\n  ".join(["Options:", *sorted(names)])
    msg = f"{problem}. {f'{hint}`devrt config` lists the options.' if hint else listed}"
    source = problem.partition(": ")[0]
    if source == problem:
        return ConfigError(msg, option=name)
    return ConfigError(msg, option=name, source=source)

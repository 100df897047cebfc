"""The name and origin of a plugin that has not been loaded."""

from __future__ import annotations

from devrt._support.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "ENTRY_POINT_GROUP",
    "ENVIRONMENT_VARIABLE",
    "FROM_ENTRY_POINT",
    "FROM_ENVIRONMENT",
    "FROM_FACTORY",
    "FROM_NAMESPACE",
    "FROM_TABLE",
    "UNNAMED",
    "PluginRef",
    "in_order",
    "normalized",
]

ENTRY_POINT_GROUP = "devrt_plugins"
ENVIRONMENT_VARIABLE = "PJRT_NAMES_AND_LIBRARY_PATHS"

FROM_ENTRY_POINT = f"entry point ({ENTRY_POINT_GROUP})"
FROM_NAMESPACE = f"namespace package ({ENTRY_POINT_GROUP})"
FROM_ENVIRONMENT = f"environment ({ENVIRONMENT_VARIABLE})"
FROM_FACTORY = "register_backend_factory"
FROM_TABLE = "table of known distributions"

_ORDER = (
    FROM_ENTRY_POINT,
    FROM_NAMESPACE,
    FROM_ENVIRONMENT,
    "entry point (jax_plugins)",
    "entry point (xla_plugins)",
    "namespace package (jax_plugins)",
    FROM_TABLE,
)
_ADOPTED = frozenset(_ORDER[3:])
_RANK = {source: rank for rank, source in enumerate(_ORDER)}

_FOUND_IN = {"(namespace)": "a namespace package", "(code)": "registered by a call"}

UNNAMED = "(unnamed)"
"""The platform of an entry that names none: it is listed, and cannot be requested."""


@record(frozen=True, slots=True, order=True)
class PluginRef:
    """A plugin that somebody installed or registered, not yet loaded.

    ``platform`` is the entry point's name in lower case, as platforms are requested;
    ``distribution`` is in parentheses where there is none: ``"(code)"`` for a plugin registered by
    a call, ``"(environment)"``, ``"(namespace)"``. It is a ``module`` to import or a PJRT
    ``library``, found as ``source`` says; ``config`` is the file that names the library and its
    options. ``problem`` says why it cannot be used as it was named. ``global_symbols`` and
    ``experimental`` are as the library was named or declared.

    ``entry`` is the module made for JAX or XLA that registers the library, where nobody knows what
    it registers without running it; it is never imported here. ``registered`` is what it was seen
    to register, as `devrt.plugins.discovery.registered` writes it; empty where it was not run, and
    the platform is a guess.
    """

    platform: str
    distribution: str
    version: str = ""
    module: str = ""
    source: str = FROM_ENTRY_POINT
    library: str = ""
    config: str = ""
    problem: str = ""
    global_symbols: bool = False
    experimental: bool = False
    entry: str = ""
    registered: str = ""

    @property
    def is_adopted(self) -> bool:
        """Whether it was made for JAX or XLA and is used as it is."""
        return self.source in _ADOPTED

    @property
    def is_guess(self) -> bool:
        """Whether its platform is the entry point's name, and may be another one."""
        return bool(self.entry) and not self.registered

    @property
    def is_empty(self) -> bool:
        """Whether its module was run and registered no backend."""
        return bool(self.registered) and not self.library and not self.problem

    @property
    def name(self) -> str:
        """``platform@distribution``, unique among the installed plugins."""
        return f"{self.platform}@{self.distribution}"

    def is_called(self, name: str) -> bool:
        """Return whether ``name`` is the platform, or the full name in any equal spelling."""
        platform, at, distribution = name.partition("@")
        if platform.lower() != self.platform:
            return False
        return not at or normalized(distribution) == normalized(self.distribution)

    def is_among(self, names: Iterable[str]) -> bool:
        """Return whether one of ``names`` is this plugin's."""
        return any(self.is_called(name) for name in names)

    def facts(self) -> dict[str, Any]:
        """Return what every error about the plugin carries as attributes."""
        return {"plugin": self.distribution, "version": self.version, "platform": self.platform}

    @property
    def has_distribution(self) -> bool:
        """Whether a distribution brings it, rather than a folder, a variable or a call."""
        return not self.distribution.startswith("(")

    def __str__(self) -> str:
        if not self.has_distribution:
            what = self.module or self.entry or self.library or self.platform
            return f"{what} ({_FOUND_IN.get(self.distribution, self.source)})"
        version = f" {self.version}" if self.version else ""
        return f"{self.distribution}{version}"


def normalized(name: str) -> str:
    """Return a distribution's name in the spelling that all spellings are equal in (PEP 503)."""
    dashed = name.replace("_", "-").replace(".", "-")
    while "--" in dashed:
        dashed = dashed.replace("--", "-")
    return dashed.lower()


def in_order(ref: PluginRef) -> tuple[int, tuple[str, ...]]:
    """Return a key that sorts plugins by where they were found, then by name."""
    # The fields rather than the reference: a tuple compares itself, without Python's help.
    fields = tuple(getattr(ref, name) for name in PluginRef.__match_args__)
    return _RANK.get(ref.source, len(_RANK)), fields

"""Plugins: which are installed, what they say of themselves, which one is chosen and why."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins._discovery import (
        ENTRY_POINT_GROUP,
        PluginRef,
        discover_plugins,
        environment_plugins,
        installed_plugins,
    )
    from devrt.plugins._libraries import REGISTERED_PRIORITY, LibraryBackend, OptionsSource
    from devrt.plugins._loading import Plugin
    from devrt.plugins._manifest import BackendManifest, parse_manifest
    from devrt.plugins._refs import (
        ENVIRONMENT_VARIABLE,
        FROM_ENVIRONMENT,
        FROM_FACTORY,
        UNNAMED,
    )
    from devrt.plugins._registrations import current_registrations
    from devrt.plugins._registry import PluginRegistry
    from devrt.plugins._selection import (
        Broken,
        Candidate,
        Decision,
        Outcome,
        Policy,
        Verdict,
        parse_platforms,
        select,
    )

__all__ = [
    "ENTRY_POINT_GROUP",
    "ENVIRONMENT_VARIABLE",
    "FROM_ENVIRONMENT",
    "FROM_FACTORY",
    "REGISTERED_PRIORITY",
    "UNNAMED",
    "BackendManifest",
    "Broken",
    "Candidate",
    "Decision",
    "LibraryBackend",
    "OptionsSource",
    "Outcome",
    "Plugin",
    "PluginRef",
    "PluginRegistry",
    "Policy",
    "Verdict",
    "current_registrations",
    "discover_plugins",
    "environment_plugins",
    "installed_plugins",
    "parse_manifest",
    "parse_platforms",
    "select",
]

_WHERE = {
    "_discovery": (
        "ENTRY_POINT_GROUP",
        "PluginRef",
        "discover_plugins",
        "environment_plugins",
        "installed_plugins",
    ),
    "_libraries": (
        "REGISTERED_PRIORITY",
        "LibraryBackend",
        "OptionsSource",
    ),
    "_loading": ("Plugin",),
    "_manifest": (
        "BackendManifest",
        "parse_manifest",
    ),
    "_refs": (
        "ENVIRONMENT_VARIABLE",
        "FROM_ENVIRONMENT",
        "FROM_FACTORY",
        "UNNAMED",
    ),
    "_registrations": ("current_registrations",),
    "_registry": ("PluginRegistry",),
    "_selection": (
        "Broken",
        "Candidate",
        "Decision",
        "Outcome",
        "Policy",
        "Verdict",
        "parse_platforms",
        "select",
    ),
}
"""The module of each name: listing plugins needs one of them, and a listing is to be fast."""


def __getattr__(name: str) -> object:
    for module, names in _WHERE.items():
        if name in names:
            import importlib

            value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)

"""Plugins: which are installed, what they say of themselves, which one is chosen and why."""

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
from devrt.plugins._refs import ENVIRONMENT_VARIABLE, FROM_ENVIRONMENT, UNNAMED
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

"""Plugins: which are installed, what they say of themselves, which one is chosen and why."""

from devrt.plugins._discovery import ENTRY_POINT_GROUP, PluginRef, installed_plugins
from devrt.plugins._loading import Plugin
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
    "Broken",
    "Candidate",
    "Decision",
    "Outcome",
    "Plugin",
    "PluginRef",
    "PluginRegistry",
    "Policy",
    "Verdict",
    "installed_plugins",
    "parse_platforms",
    "select",
]

"""What a report says of the plugin and of the machine, without an import of the plugin."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from devrt.contract import CONTRACT_VERSION
from devrt.plugins.discovery.refs import PluginRef

__all__ = ["environment_facts", "subject_facts"]


def subject_facts(reference: PluginRef) -> dict[str, Any]:
    """Return what is known of a plugin that has not been imported."""
    return {
        "platform": reference.platform,
        "distribution": reference.distribution if reference.has_distribution else "",
        "version": reference.version,
        "module": reference.module,
        "library": reference.library,
    }


def environment_facts() -> dict[str, Any]:
    """Return the versions of the core and of the contract, and the machine."""
    return {
        "core": metadata.version("devrt-core"),
        "contract": CONTRACT_VERSION,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
    }

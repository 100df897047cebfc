"""What a report says of the plugin and of the machine, without an import of the plugin."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib import metadata
from typing import Any

from devrt.contract import CONTRACT_VERSION
from devrt.errors import PluginError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.registry import PluginRegistry

__all__ = ["environment_facts", "init_timeout", "subject_facts"]


def subject_facts(reference: PluginRef) -> dict[str, Any]:
    """Return what is known of a plugin that has not been imported."""
    return {
        "platform": reference.platform,
        "distribution": reference.distribution if reference.has_distribution else "",
        "version": reference.version,
        "module": reference.module,
        **_library_facts(reference.library),
    }


def _library_facts(path: str) -> dict[str, str]:
    """Return the name of a library's file, and its content: a report leaves the machine."""
    if not path:
        return {"library": ""}
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"library": os.path.basename(path), "library_sha256": digest}


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


def init_timeout(reference: PluginRef) -> float | None:
    """Return the seconds that the client may take: the user's, else the manifest's, else None."""
    from devrt.runtime import default_runtime

    given: float | None = default_runtime().config.read("init_timeout")
    if given is not None:
        return given
    try:
        manifest = PluginRegistry(lambda: [reference]).manifest(reference)
    except PluginError:  # which cases are about
        return None
    return None if manifest is None else manifest.init_timeout

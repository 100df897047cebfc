"""The error for a plugin that breaks the contract, and what can be done about it."""

from __future__ import annotations

from typing import Any

from devrt.errors import PluginContractError
from devrt.plugins.discovery.refs import PluginRef

__all__ = ["contract_error", "disagreement", "missing_module", "usual_remedy"]


def contract_error(ref: PluginRef, what: str, **data: Any) -> PluginContractError:
    """Return the error for a plugin that does what the contract does not allow."""
    msg = f"plugin {ref} breaks the plugin contract: {what}."
    return PluginContractError(msg, phase="contract", **ref.facts(), **data)


def disagreement(field: str, manifest: object, record: object) -> str:
    """Return what is wrong where a manifest and a record say different things."""
    return (
        f"its manifest says {field} = {manifest!r} and its record {record!r}; say it in the "
        "manifest, and leave it out of the record"
    )


def usual_remedy(ref: PluginRef) -> str:
    """Return what a user can do about a plugin that fails."""
    if not ref.has_distribution:
        return "Correct it where it is named."
    return f"Upgrade {ref.distribution} or report this to its author; or uninstall it."


def missing_module(error: BaseException | None) -> str:
    """Return the module whose absence an error, or what caused it, is about; empty if none is."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            return error.name
        _, _, named = str(error).partition("module '")  # as native modules say it
        name, _, rest = named.partition("'")
        if isinstance(error, ImportError) and rest.startswith(" is not installed"):
            return name
        error = error.__cause__ or error.__context__
    return ""

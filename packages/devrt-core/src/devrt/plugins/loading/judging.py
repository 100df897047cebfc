"""What is said of a plugin that answers a probe, breaks the contract, or fails."""

from __future__ import annotations

from typing import Any

from devrt.errors import ForkedError, PluginContractError, PluginError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.manifest import BackendManifest, differences
from devrt.plugins.selection import Broken
from devrt.records import Available, ClientFactory, ProbeResult, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins.loading.plugin import Plugin

__all__ = [
    "NOT_IMPORTED",
    "broken_by",
    "check_manifest",
    "contract_error",
    "probed",
    "usual_remedy",
]


NOT_IMPORTED = Unavailable("it was not imported, because it is forbidden", "Allow it to use it.")


def broken_by(ref: PluginRef, error: PluginError, phase: str) -> Broken:
    """Return what an error that a plugin was refused with says of it."""
    remedy = str(getattr(error, "remedy", "")) or usual_remedy(ref)
    reason = error.message.removesuffix(remedy).rstrip(" .")
    return Broken(phase, reason, remedy, error.__cause__ or error)


def probed(ref: PluginRef, factory: ClientFactory) -> ProbeResult | Broken:
    """Call a plugin's probe here and return what it says, or what it did instead."""
    answer: Any  # whatever the plugin returns
    try:
        answer = factory.probe()
    except ForkedError:
        raise  # of this process, not of the plugin
    except (Exception, SystemExit) as error:  # noqa: BLE001  plugin code: a probe may do anything
        reason = f"its probe raised {type(error).__name__}: {error}"
        return Broken("probe", reason, usual_remedy(ref), error)
    if isinstance(answer, Available | Unavailable):
        return answer
    reason = f"its probe returned {type(answer).__name__}, not Available or Unavailable"
    return Broken("contract", reason, usual_remedy(ref))


def check_manifest(
    plugin: Plugin, manifest: BackendManifest | None, factory: ClientFactory | None
) -> None:
    """Refuse a plugin whose manifest and records say different things."""
    if manifest is not None and factory is not None:
        has_loader = plugin.loader is not None
        wrong = differences(manifest, factory, has_loader, plugin.global_symbols())
        if wrong:
            raise contract_error(plugin.ref, "; ".join(wrong))
    elif plugin.loader is not None:
        what = "it has the hook devrt_pjrt_loader and no manifest with pjrt_loader = true"
        raise contract_error(plugin.ref, what)


def contract_error(ref: PluginRef, what: str, **data: Any) -> PluginContractError:
    """Return the error for a plugin that does what the contract does not allow."""
    msg = f"plugin {ref} breaks the plugin contract: {what}."
    return PluginContractError(msg, phase="contract", **ref.facts(), **data)


def usual_remedy(ref: PluginRef) -> str:
    """Return what a user can do about a plugin that fails."""
    if ref.distribution.startswith("("):
        return "Correct it where it is named."
    return f"Upgrade {ref.distribution} or report this to its author; or uninstall it."

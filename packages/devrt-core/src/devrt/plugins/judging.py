"""A plugin's state: what its probe answers, or what it did instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.errors import ForkedError, PluginError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.faults import usual_remedy
from devrt.plugins.selection import Broken
from devrt.records import Available, ClientFactory, ProbeResult, Unavailable

__all__ = [
    "NOT_IMPORTED",
    "SIMULATED",
    "asks_for_simulated",
    "broken_by",
    "probed",
]


NOT_IMPORTED = Unavailable("it was not imported, because it is forbidden", "Allow it to use it.")
SIMULATED = Available("simulated")
"""Of a plugin that simulates its devices where that is configured: its probe does not count."""

_ASK = ("mock", "use_mock_gpu_client", "mock_gpu_topology")  # as jaxlib and JAX name them


def asks_for_simulated(options: Mapping[str, Any], platform: str) -> bool:
    """Return whether a client's options, given by a call, request simulated devices."""
    if options.get("mock") is False:  # with a topology it is the client's to refuse, GPUs or not
        return bool(options.get("mock_gpu_topology"))
    return any(options.get(name) for name in (*_ASK, f"{platform}_mock"))


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

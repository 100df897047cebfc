"""How JAX's registry writes down a backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from devrt.contract import Client, Topology

__all__ = ["BackendFactory", "BackendRegistration", "TopologyFactory", "XlaBackend"]

XlaBackend = Client
BackendFactory = Callable[[], Client | None]
TopologyFactory = Callable[..., Topology | None]


@dataclasses.dataclass(frozen=True, slots=True)
class BackendRegistration:
    """A backend that is registered; the installed ones are `devrt.records.ClientFactory` records.

    Attributes
    ----------
    factory : callable
        Returns the platform's client.
    priority, fail_quietly, experimental
        As in `devrt.records.ClientFactory`.
    """

    factory: BackendFactory
    priority: int
    fail_quietly: bool = False
    experimental: bool = False

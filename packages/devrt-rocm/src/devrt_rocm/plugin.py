"""The plugin that devrt loads for platform ``rocm``.

In this release it registers the platform and says why it cannot be used: first what the machine
lacks, and where nothing is lacking, that there is no client yet.
"""

from __future__ import annotations

from typing import NoReturn

from devrt.hookspecs import hookimpl
from devrt.records import ClientContext, ClientFactory, PluginTraits, Unavailable

__all__ = ["devrt_client_factories", "devrt_plugin_traits", "make_client", "probe"]


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Return the one platform that this distribution is for."""
    return [
        ClientFactory(
            factory=make_client,
            probe=probe,
        )
    ]


@hookimpl
def devrt_plugin_traits() -> list[PluginTraits]:
    """Return what the loader must know of PJRT libraries for AMD's GPUs."""
    from devrt_rocm.traits import ROCM

    return [ROCM]


def probe() -> Unavailable:
    """Say what keeps ROCm from being used on this machine."""
    from devrt_rocm import _machine

    return _machine.probe()


def make_client(context: ClientContext) -> NoReturn:
    """Refuse to make a client, in the words of the probe."""
    from devrt.errors import UnimplementedError
    from devrt_rocm._machine import USE_ANOTHER, no_client

    msg = f"No ROCm client can be made: {no_client()}. {USE_ANOTHER}"
    raise UnimplementedError(msg, operation="make_client", platform="rocm", plugin="devrt-rocm")

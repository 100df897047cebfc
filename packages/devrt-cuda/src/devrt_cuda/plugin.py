"""The plugin that devrt loads for platform ``cuda``.

In this release it has no client of its own: XLA's plugin for GPUs, run by the PJRT loader, serves
the platform where both are installed. This plugin says what the loader must know of it, and, where
the platform cannot be used, what the machine or the environment lacks.
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
    """Return what the loader must know of PJRT libraries for NVIDIA's GPUs."""
    from devrt_cuda.traits import CUDA

    return [CUDA]


def probe() -> Unavailable:
    """Say what keeps CUDA from being used on this machine."""
    from devrt_cuda import _machine

    return _machine.probe()


def make_client(context: ClientContext) -> NoReturn:
    """Refuse to make a client, in the words of the probe."""
    from devrt.errors import UnimplementedError
    from devrt_cuda._machine import no_client, what_to_install

    msg = f"No CUDA client can be made: {no_client()}. {what_to_install()}"
    raise UnimplementedError(msg, operation="make_client", platform="cuda", plugin="devrt-cuda")

"""What devrt imports to learn of the platform; a client loads the native module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devrt.hookspecs import hookimpl
from devrt.records import Available, ClientContext, ClientFactory, OptionSpec, ProbeResult

if TYPE_CHECKING:
    from devrt.contract import Client

OPTIONS = (
    OptionSpec(
        name="num_acme_native_devices",
        type=int,
        default=2,
        minimum=1,
        maximum=64,
        help="Number of simulated devices.",
    ),
    OptionSpec(
        name="acme_native_delay",
        type=int,
        default=0,
        minimum=0,
        maximum=10_000_000,
        help="Microseconds that a device waits before each copy.",
    ),
)


def probe() -> ProbeResult:
    """Return at once whether the hardware is there; a simulated one always is."""
    return Available("simulated")


def make_client(context: ClientContext) -> Client:
    """Connect to the platform."""
    from devrt.native.classes import register

    native = register("devrt_acme_native._ext", "Acme")
    client: Client = native.make_client(
        {"delay": context.options["acme_native_delay"]},
        num_devices=context.options["num_acme_native_devices"],
        memory_kinds=context.memory_kinds,
    )
    return client


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Say which platform this plugin serves, and how."""
    return [
        ClientFactory(platform="acme_native", factory=make_client, probe=probe, options=OPTIONS)
    ]

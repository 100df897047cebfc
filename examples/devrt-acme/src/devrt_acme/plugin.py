"""What devrt imports to learn of the platform; the client itself is imported when it is made."""

from devrt.contract import Client
from devrt.hookspecs import hookimpl
from devrt.records import (
    Available,
    ClientContext,
    ClientFactory,
    DoctorFinding,
    OptionSpec,
    ProbeResult,
)


def probe() -> ProbeResult:
    """Return at once whether the hardware is there; a simulated one always is."""
    return Available("simulated")


def make_client(context: ClientContext) -> Client:
    """Connect to the platform."""
    from devrt_acme.client import AcmeClient

    return AcmeClient(context.options["num_acme_devices"])


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Say which platform this plugin serves, and how."""
    return [
        ClientFactory(
            factory=make_client,
            probe=probe,
            options=(
                OptionSpec(
                    name="num_acme_devices",
                    type=int,
                    default=2,
                    minimum=1,
                    maximum=1024,
                    help="Number of simulated acme devices.",
                ),
            ),
        )
    ]


@hookimpl
def devrt_doctor_findings() -> list[DoctorFinding]:
    """Tell who runs the doctor what no error would: here, that nothing is as fast as it looks."""
    return [
        DoctorFinding(
            code="simulated",
            severity="info",
            api_version="1.0",
            message="The acme devices are simulated: their memory is that of the host.",
            remedy="Nothing, unless you expected a card.",
        )
    ]

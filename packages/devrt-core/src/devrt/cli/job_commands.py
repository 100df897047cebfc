"""The commands for jobs of several processes: starting one, and seeing what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from devrt.cli.group import errors_as_json, interval_option, print_json

__all__ = ["JOB_COMMANDS"]


@click.command(
    short_help="Run a script as several processes of one job.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "-n",
    "--num-processes",
    "count",
    required=True,
    type=click.IntRange(min=1, max=4096),
    help="How many processes.",
)
@click.option(
    "--port",
    type=click.IntRange(min=1, max=65535),
    help="The coordination service's port; else one that is free.",
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def launch(
    count: int, port: int | None, is_module: bool, script: str, arguments: tuple[str, ...]
) -> None:
    """Run a Python script as several processes on this machine, which are one job.

    devrt.distributed.initialize() without arguments joins it. Each line that a process prints
    comes after its number. The first that fails ends the others: its last lines are printed
    again, and its exit status is the command's.
    """
    from devrt.cli import launch as _launch

    # Reported once, and not by each process.
    if not (is_module or script.startswith("-") or Path(script).exists()):
        msg = f"there is no file {script!r}."
        raise click.BadParameter(msg, param_hint="'SCRIPT'")
    command = [*(["-m"] if is_module else []), script, *arguments]
    click.get_current_context().exit(_launch.launch(count, command, port))


@click.group(short_help="Show a job of several processes.")
def cluster() -> None:
    """Show a job of several processes."""


@cluster.command(short_help="Show who is there, and what is waited for.")
@click.argument("address", required=False)
@click.option("--watch", "is_watch", is_flag=True, help="Print it again and again.")
@interval_option("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch, one line each.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with the service's token.",
)
@click.option("--mtls-cert-file", type=click.Path(), help="The certificate to show.")
@click.option("--mtls-key-file", type=click.Path(), help="Its key.")
@click.option("--mtls-ca-file", type=click.Path(), help="Who signs the service's.")
@click.option("--etcd-user", help="The user at etcd; else what DEVRT_ETCD_USER says.")
@click.option(
    "--etcd-password-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with the user's password; else what DEVRT_ETCD_PASSWORD says.",
)
def status(
    address: str | None,
    is_watch: bool,
    interval: float,
    as_json: bool,
    token_file: str | None,
    etcd_password_file: str | None,
    **how: Any,
) -> None:
    """Show the processes of a job, the last sign of each, and which barriers wait for whom.

    ADDRESS is that of its coordination service, host:port, or of the job in etcd; else what
    DEVRT_COORDINATOR_ADDRESS says.
    """
    from devrt.cli import cluster as _cluster
    from devrt.distributed.security import Security
    from devrt.distributed.status import read_status

    password = _read(etcd_password_file)
    security = Security(token=_read(token_file), etcd_password=password, **how)
    with errors_as_json(as_json):
        address = _cluster.address_of_job(address)
        if is_watch:
            _cluster.watch(address, security, interval, as_json)
            return
        found = read_status(address, security)
    if as_json:
        print_json(found)
    else:
        _cluster.show(found)


def _read(path: str | None) -> str | None:
    return Path(path).read_text(encoding="utf-8").strip() if path else None


JOB_COMMANDS = (launch, cluster)

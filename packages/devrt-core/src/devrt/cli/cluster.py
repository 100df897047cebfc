"""``devrt cluster status``: who belongs to a job, what each does, and what is waited for."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import click

from devrt._clusters import membership
from devrt.cli.tables import Output
from devrt.distributed.faults import named
from devrt.distributed.security import Security
from devrt.distributed.status import read_status
from devrt.errors import InvalidArgumentError

__all__ = ["address_of_job", "show", "watch"]


def address_of_job(given: str | None) -> str:
    """Return the address that is given, else that of the job this process is started in."""
    found = membership()
    address = given or found.values.get("coordinator_address")
    if address is None:
        msg = "no address of a coordination service: give it, or set DEVRT_COORDINATOR_ADDRESS."
        msg = " ".join([msg, *found.problems])
        raise InvalidArgumentError(msg)
    return str(address)


def watch(address: str, security: Security, interval: float, as_json: bool) -> None:
    """Show the status again and again, until interrupted or the service is gone."""
    try:
        while True:
            found = read_status(address, security)
            if as_json:
                click.echo(json.dumps(found))  # one object a line, for programs that follow
            else:
                click.clear()  # nothing where the output is no terminal
                show(found)
            time.sleep(interval)
    except KeyboardInterrupt:
        return  # how one leaves


def show(found: Mapping[str, Any]) -> None:
    """Print the processes as a table, then the waits."""
    out = Output()
    rows = [
        [str(row["process"]), row["state"], _age(row["heartbeat_age"]), row["phase"]]
        for row in found["processes"]
    ]
    out.table(("process", "state", "heartbeat", "phase"), rows)
    for wait in found["waits"]:
        came = named(wait["arrived"]) if wait["arrived"] else "nobody"
        missing = named(wait["missing"]) if wait["missing"] else "nobody"
        left = wait["seconds_left"]  # not known of a job in etcd: each process has its own
        until = "" if left is None else f", {left:.0f} s left"
        out.line(f"{wait['what']}{until}: {came} came")
        out.line(f"  missing: {missing}", "yellow")
    for code, count in found["refused"].items():
        out.line(f"refused calls: {code} {count}", "dim")


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s ago"

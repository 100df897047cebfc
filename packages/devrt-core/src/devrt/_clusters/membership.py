"""What a process has to know to join its job, and where each of it is from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from devrt._clusters.detection import SeenCluster, number_of, seen_clusters, settings
from devrt._clusters.logins import check_no_login
from devrt._support.record import record
from devrt.errors import InvalidArgumentError

__all__ = ["NEEDED", "Membership", "membership"]

NEEDED = ("coordinator_address", "num_processes", "process_id")


@record(frozen=True, slots=True)
class Membership:
    """What is known, as ``values`` and their ``sources`` by name; ``local_device_ids`` may lack.

    ``cluster`` is the one that counts, and ``problems`` are values that cannot be used.
    """

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    cluster: SeenCluster | None
    problems: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The names of what is not known and needed."""
        return [name for name in NEEDED if name not in self.values]

    def described(self) -> str:
        """Return each value and its source."""
        rows = (f"{name} {self.values[name]} ({self.sources[name]})" for name in self.values)
        return ", ".join(rows)

    def why_missing(self) -> str:
        """Return what to do about what is missing."""
        names = ", ".join(self.missing)
        if self.problems:
            return " ".join(self.problems)
        variables = ", ".join(f"DEVRT_{name.upper()}" for name in self.missing)
        if self.cluster is not None:
            advice = f"{self.cluster.title} started this process and does not tell its {names}. "
            return f"{advice}{self.cluster.advice}"
        return (
            f"not given: {names}; and no cluster is seen in the environment. Give the values, set "
            f"{variables}, or start the processes with devrt launch or the cluster's launcher."
        )


def membership(
    given: Mapping[str, Any] | None = None,
    cluster: SeenCluster | None = None,
    environ: Mapping[str, str] | None = None,
    detects: bool = True,
) -> Membership:
    """Return what is given, else set by variables of devrt or JAX, else reported by the cluster.

    Parameters
    ----------
    given
        Values by name; None where they are not.
    cluster
        The cluster that counts; when omitted the first that the environment shows.
    environ
        The variables; the process's when omitted.
    detects
        Whether clusters count at all.
    """
    if cluster is None and detects:
        cluster = next(iter(seen_clusters(environ)), None)
    given = {name: value for name, value in (given or {}).items() if value is not None}
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    for name, value, source in (
        *_given(given),
        *_set({name: v for name, v in settings(environ).items() if name not in given}, problems),
        *_reported(cluster),
    ):
        # A cluster's number on its machine is a device's only for the processes that it started:
        # those of devrt launch within its job would all have the same.
        is_number_here = name == "local_device_ids" and source == getattr(cluster, "title", "")
        if is_number_here and sources.get("process_id") != source:
            continue
        if name not in values:
            values[name], sources[name] = value, source
    if cluster is not None and not set(NEEDED) <= values.keys():
        problems += cluster.problems
    return Membership(values, sources, cluster, tuple(problems))


def _given(given: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    return ((name, value, "given") for name, value in given.items())


def _set(
    found: Mapping[str, tuple[str, str]], problems: list[str]
) -> Iterator[tuple[str, Any, str]]:
    for name, (variable, text) in found.items():
        try:
            yield name, _parsed(name, variable, text), variable
        except InvalidArgumentError as error:
            problems.append(error.message)


def _parsed(name: str, variable: str, text: str) -> Any:
    if name == "coordinator_address":
        check_no_login(text, variable)
        return text
    if name == "local_device_ids":
        return [number_of(variable, each) for each in text.split(",")]
    return number_of(variable, text)


def _reported(cluster: SeenCluster | None) -> Iterator[tuple[str, Any, str]]:
    if cluster is None:
        return
    for name in NEEDED:
        if (value := getattr(cluster, name)) is not None:
            yield name, value, cluster.title
    if cluster.local_process_id is not None:
        yield "local_device_ids", [cluster.local_process_id], cluster.title

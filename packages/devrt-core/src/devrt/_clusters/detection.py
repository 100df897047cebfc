"""Clusters and launchers that the environment shows; only variables are read.

What they look like is data (``data/clusters.toml``). Variables of devrt's and of JAX's are no
cluster: they come before what any cluster tells.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devrt._support import simple_toml
from devrt._support.record import record
from devrt.errors import InvalidArgumentError

__all__ = [
    "SeenCluster",
    "address_of",
    "cluster_named",
    "number_of",
    "seen_clusters",
    "settings",
]

_TABLE = os.path.join(os.path.dirname(__file__), "data", "clusters.toml")
_SETTINGS = ("COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID", "LOCAL_DEVICE_IDS")
_FIRST_PORT, _PORTS = 61440, 4096  # above what systems give to programs that ask for any port
_FIRST_ADDRESS = re.compile(r"tcp://([^,:]+)|tcp6://\[([^],]+)")
_VARIABLES = (
    *("processes", "process", "local", "slices", "slice", "hosts", "leader", "address_in"),
    *("machines", "together"),
)


@record(frozen=True, slots=True)
class SeenCluster:
    """What one cluster or launcher tells this process; None is what it does not tell.

    ``variables`` are those that were read, ``problems`` what is wrong with their values, and
    ``advice`` is what to do where something is missing.
    """

    name: str
    title: str
    variables: Mapping[str, str]
    coordinator_address: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    local_process_id: int | None = None
    problems: tuple[str, ...] = ()
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in self.__match_args__}
        return plain | {"variables": dict(self.variables), "problems": list(self.problems)}


def settings(environ: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Return variable and value of each setting that the environment has: devrt's, else JAX's.

    Keys: ``coordinator_address``, ``num_processes``, ``process_id``, ``local_device_ids``.
    """
    variables = os.environ if environ is None else environ
    found = {}
    for name in _SETTINGS:
        spellings = (f"DEVRT_{name}", f"JAX_{name}")
        variable = next((each for each in spellings if variables.get(each)), None)
        if variable is not None:
            found[name.lower()] = (variable, variables[variable])
    return found


def seen_clusters(environ: Mapping[str, str] | None = None) -> tuple[SeenCluster, ...]:
    """Return what the environment shows, the first of which counts."""
    variables = os.environ if environ is None else environ
    return tuple(_seen(row, variables) for row in _rows() if _is_present(row, variables))


def cluster_named(name: str, environ: Mapping[str, str] | None = None) -> SeenCluster:
    """Return what the cluster of a name tells.

    Raises
    ------
    InvalidArgumentError
        If no cluster has the name, or the environment does not show it.
    """
    variables = os.environ if environ is None else environ
    rows = _rows()
    row = next((row for row in rows if name in (row["name"], *row.get("aliases", ()))), None)
    if row is None:
        known = ", ".join(repr(row["name"]) for row in rows)
        msg = f"no cluster is called {name!r}. Known: {known}, 'mpi4py' and 'deactivate'."
        raise InvalidArgumentError(msg, method=name)
    absent = [variable for variable in row["present"] if variable not in variables]
    if absent:
        msg = (
            f"{row['title']} was to be used, and did not start this process: {', '.join(absent)} "
            "not set. Start it with its launcher, or leave cluster_detection_method out."
        )
        raise InvalidArgumentError(msg, method=name)
    return _seen(row, variables)


def number_of(variable: str, value: str) -> int:
    """Return the number, 0 or more, in a variable's value."""
    if value.strip().isdecimal() and value.isascii():
        return int(value)
    msg = f"{variable} is {value!r}, which is no number. Correct it, or unset it."
    raise InvalidArgumentError(msg, variable=variable)


def address_of(host: str, port: int) -> str:
    """Return ``host:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _rows() -> list[dict[str, Any]]:
    with open(_TABLE, encoding="utf-8") as file:
        rows: list[dict[str, Any]] = simple_toml.load(file.read())["cluster"]
    return rows


def _is_present(row: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    return all(variables.get(name) for name in row["present"])


def _seen(row: Mapping[str, Any], variables: Mapping[str, str]) -> SeenCluster:
    names = {row[key] for key in _VARIABLES if key in row} | {*row["present"]}
    names |= {*row.get("port_from", ())}
    reading = _Reading(row, variables)
    return SeenCluster(
        row["name"],
        row["title"],
        {name: variables[name] for name in sorted(names) if name in variables},
        reading.attempt(reading.address),
        reading.attempt(reading.processes),
        reading.attempt(reading.process),
        reading.attempt(lambda: reading.number("local")),
        tuple(dict.fromkeys(reading.problems)),
        row["advice"],
    )


class _Reading:
    """What the variables of one row of the table say; errors are noted and not raised."""

    def __init__(self, row: Mapping[str, Any], variables: Mapping[str, str]) -> None:
        self._row = row
        self._variables = variables
        self.problems: list[str] = []

    def attempt(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except InvalidArgumentError as error:
            self.problems.append(error.message)
            return None

    def number(self, key: str, otherwise: int | None = None) -> int | None:
        variable = self._row.get(key)
        value = self._text(key)
        return number_of(variable, value) if variable and value else otherwise

    def processes(self) -> int | None:
        count = self.number("processes", len(self._hosts()) or None)
        return None if count is None else count * (self.number("slices") or 1)

    def process(self) -> int | None:
        number = self.number("process")
        before = (self.number("slice") or 0) * len(self._hosts())
        return None if number is None else number + before

    def address(self) -> str | None:
        host, port = self._host(), self._port()
        return None if host is None or port is None else address_of(host, port)

    def _host(self) -> str | None:
        if self._is_one_machine():
            return "localhost"
        if leader := self._text("leader"):
            return leader.partition(":")[0]
        if found := _FIRST_ADDRESS.search(self._text("address_in")):
            return found[1] or found[2]
        return next(iter(self._hosts()), None)

    def _is_one_machine(self) -> bool:
        together = self.number("together")
        is_list = "processes" not in self._row
        return (
            self.number("machines") == 1
            or (together is not None and together == self.processes())
            or (is_list and self.processes() == 1)
        )

    def _port(self) -> int | None:
        if "port" in self._row:
            return int(self._row["port"])
        for variable in self._row.get("port_from", ()):
            if value := self._variables.get(variable):
                # Of a number as JAX has it.
                number = int(value) if value.isdecimal() else zlib.crc32(value.encode())
                return _FIRST_PORT + number % _PORTS
        return None

    def _hosts(self) -> Sequence[str]:
        return _host_names(self._text("hosts"))

    def _text(self, key: str) -> str:
        return self._variables.get(self._row.get(key, ""), "")


def _host_names(text: str) -> list[str]:
    """Return the hosts of a list; of ``node[001-004,7],other`` no more than the first of each."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^]]*\])?", text):
        start, bracket, inside = part.strip().partition("[")
        first = re.split(r"[,\-\]]", inside)[0] if bracket else ""
        names.append(start + first)
    return [name for name in names if name]

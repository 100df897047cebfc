"""Makes cases of the conformance kit of functions that take a library's table."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError
from devrt.testing.conformance import Case
from devrt_pjrt.conformance.raw import Raw

if TYPE_CHECKING:
    from devrt_pjrt.library.library import Library

__all__ = ["TOPOLOGY", "ApiCase", "api_case", "bound_cases"]

_SUBJECTS = (
    "table",
    "structs",
    "errors",
    "events",
    "clients",
    "devices",
    "memories",
    "sources",
    "buffers",
    "copies",
    "views",
    "deferred",
    "transfers",
    "programs",
    "serialized",
    "execution",
    "donation",
    "topologies",
    "extensions",
    "abi_versions",
    "refusals",
    "nulls",
)
"""The modules with cases, in the order in which they run."""

TOPOLOGY = "DEVRT_CONFORM_TOPOLOGY"
"""Names a topology that the library can make; without it that is the one with the empty name."""

Check = Callable[[Raw], None]
Open = Callable[[str, str], "Library"]


@dataclasses.dataclass(frozen=True, slots=True)
class ApiCase:
    """A case of the C API; the fields are those of `devrt.testing.conformance.Case`."""

    check: Check
    title: str
    contract: str
    deadline: float = 30.0
    alone: bool = False

    def bound(self, open_library: Open) -> Case:
        """Return it as the kit's case, of libraries that ``open_library`` opens."""

        def check(subject: Any) -> None:
            library = open_library(subject.platform, subject.library)
            raw = Raw(library, subject.note, subject.client_options, _named_topology())
            with raw.freeing():
                self.check(raw)

        name = self.check.__name__
        return Case(name, "c_api", self.title, self.contract, check, self.deadline, self.alone)


def _named_topology() -> tuple[str, Mapping[str, Any]] | None:
    """Return the topology that the environment names: a name, or JSON of a name and options.

    Raises
    ------
    InvalidArgumentError
        If it is neither.
    """
    given = os.environ.get(TOPOLOGY, "")
    if not given.startswith("{"):
        return (given, {}) if given else None
    try:
        found = json.loads(given)
    except ValueError:
        found = {}
    name, options = found.get("name"), found.get("options", {})
    if not isinstance(name, str) or not isinstance(options, dict):
        msg = f'{TOPOLOGY} is {given!r}. Give a name, or JSON: {{"name": "...", "options": {{}}}}.'
        raise InvalidArgumentError(msg, variable=TOPOLOGY, value=given)
    return name, options


def api_case(
    title: str, contract: str, *, deadline: float = 30.0, alone: bool = False
) -> Callable[[Check], ApiCase]:
    """Make a case of a function; ``contract`` names what of the C API asks for it."""
    return lambda check: ApiCase(check, title, contract, deadline, alone)


def bound_cases(open_library: Open) -> tuple[Case, ...]:
    """Return every case of libraries that ``open_library`` opens by platform and path.

    Raises
    ------
    InvalidArgumentError
        If the environment names a topology in no form that is read.
    """
    _named_topology()  # a wrong one is the caller's mistake, and no fault of a library
    package = __name__.rpartition(".")[0]
    modules = [importlib.import_module(f"{package}.{name}") for name in _SUBJECTS]
    found = [
        value for module in modules for value in vars(module).values() if isinstance(value, ApiCase)
    ]
    made = [*found, *(extra for module in modules for extra in getattr(module, "MORE", ()))]
    return tuple(each.bound(open_library) for each in made)

"""The static manifest: what a distribution says of its backends without being imported.

A file ``devrt.toml`` in the plugin's import package: the folder of the top package of its module,
or for a module in a namespace package, the folder of the first regular package. Schema 1:

.. code-block:: toml

    schema = 1

    [[backend]]
    platform = "acme"            # the entry point's name; one backend alone may leave it out
    aliases = ["accelerator"]
    priority = 100
    experimental = false
    fail_quietly = false
    api_version = "1.0"          # the plugin contract that the wheel was built against
    exclusive = true             # a device can be held by one process only
    init_timeout = 300.0         # seconds
    init_warning = 60.0          # seconds after which waiting is worth a warning
    pjrt_loader = false          # whether it has the hook devrt_pjrt_loader
    plugin_traits = false        # whether it has the hook devrt_plugin_traits
    global_symbols = false       # whether its PJRT library is opened with RTLD_GLOBAL

    [[backend.requires]]         # none there: the backend is unavailable, and is not imported
    path = ["/dev/acme*"]        # files or device nodes, and beside or in place of them
    library = "libacme.so.1"     # shared libraries
    pci_vendor = 0x1234          # a device on the PCI bus; any one that is there is enough
    unless_set = "DEVRT_ACME_MOCK"  # an option's variable that asks for devices that need none
    reason = "no Acme card was found"
    remedy = "Install the Acme driver."

    [[backend.conflicts]]        # installed: known not to work together
    distribution = "acme-runtime"
    versions = "<2.1"
    reason = "acme-runtime before 2.1 returns wrong sums"
    remedy = "pip install 'acme-runtime>=2.1'"
    id = "acme-sums"             # DEVRT_IGNORE_CONFLICTS lists those that are passed over
    severity = "error"           # or "warning": the doctor tells, and the backend is used

    [[backend.drivers]]          # here, and of a version that does not do: unavailable
    name = "the Acme driver"
    path = "/sys/module/acme/version"
    after = "release"            # the version is the first number with dots behind this text
    minimum = "2.10"
    maximum = "3"                # 3.9 does, 4.0 does not
    unless_set = "DEVRT_ACME_MOCK"  # as above
    remedy = "Install driver 3 of https://acme.example."

    [[backend.environment]]      # shown by `devrt config` and `devrt doctor`
    name = "ACME_VISIBLE_CARDS"
    about = "the cards to use, by number"
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from devrt._support.record import record, replaced
from devrt.plugins.loading.api_version import FIRST
from devrt.plugins.loading.drivers import Driver, EnvironmentVariable
from devrt.plugins.loading.requirements import Conflict, Requirement
from devrt.records import ClientFactory, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins.loading.libraries import LibraryBackend

__all__ = ["BackendManifest", "Conflict", "Driver", "EnvironmentVariable", "Requirement"]

_IN_RECORDS = ("aliases", "priority", "experimental", "fail_quietly", "global_symbols")

T = TypeVar("T", ClientFactory, "LibraryBackend")


@record(frozen=True, slots=True, kw_only=True)
class BackendManifest:
    """One ``[[backend]]`` of a manifest; see the module for what the fields mean."""

    platform: str
    aliases: tuple[str, ...] = ()
    priority: int = 0
    experimental: bool = False
    fail_quietly: bool = False
    api_version: str | int = FIRST
    exclusive: bool = False
    init_timeout: float | None = None
    init_warning: float | None = None
    pjrt_loader: bool = False
    plugin_traits: bool = False
    global_symbols: bool = False
    requires: tuple[Requirement, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    drivers: tuple[Driver, ...] = ()
    environment: tuple[EnvironmentVariable, ...] = ()

    @classmethod
    def of(cls, factory: ClientFactory) -> BackendManifest:
        """Return what a plugin without a manifest says in its record."""
        return cls(
            platform=factory.platform,
            aliases=tuple(factory.aliases),
            priority=factory.priority,
            experimental=factory.experimental,
            fail_quietly=factory.fail_quietly,
        )

    def over(self, made: T) -> T:
        """Return a record of the plugin in which what this says of the backend counts."""
        return replaced(made, **{name: getattr(self, name) for name in _shared(made)})

    def disagrees_in(self, made: T) -> list[str]:
        """Return the fields in which a record says something else, not counting defaults."""
        defaults: Any = getattr(type(made), "__record_defaults__")  # noqa: B009  not of its type
        own = {name: getattr(made, name) for name in _shared(made)}
        own = {name: tuple(v) if name == "aliases" else v for name, v in own.items()}
        return [n for n, v in own.items() if v not in (getattr(self, n), defaults[n])]

    def simulating(self, is_set: Callable[[str], bool]) -> frozenset[str]:
        """Return the variables that ask for simulated devices, of those that ``is_set`` says."""
        needs: tuple[Requirement | Driver, ...] = (*self.requires, *self.drivers)
        names = (name for need in needs for name in need.unless_set)
        return frozenset(filter(is_set, names))

    def missing(
        self, root: str | os.PathLike[str] = "/", simulating: frozenset[str] = frozenset()
    ) -> Unavailable | None:
        """Return why the backend cannot be used here; None if nothing speaks against it.

        ``simulating`` is what `simulating` returned: what these stand for is not required.
        """
        for requirement in self.requires:
            if simulating.isdisjoint(requirement.unless_set) and not requirement.is_met(root):
                return Unavailable(requirement.reason, requirement.remedy)
        for conflict in self.conflicts:
            if conflict.severity == "error" and conflict.holds():
                return Unavailable(conflict.reason, conflict.what_to_do())
        drivers = (each for each in self.drivers if simulating.isdisjoint(each.unless_set))
        return next(filter(None, (driver.problem(root) for driver in drivers)), None)


def _shared(made: Any) -> list[str]:
    return [name for name in _IN_RECORDS if name in type(made).__match_args__]

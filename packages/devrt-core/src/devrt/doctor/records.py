"""The doctor's report, as records: what `devrt doctor --json` prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from devrt._clusters import Membership, SeenCluster
from devrt.doctor.cluster import SeenJob
from devrt.doctor.findings import Finding
from devrt.doctor.hardware import SeenHardware

__all__ = ["SCHEMA_VERSION", "PluginEntry", "Report", "Rule", "Variable"]

SCHEMA_VERSION = 1
"""Version of the JSON schema: grows when a key changes its meaning or goes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One rule that a plugin went through, and how it came out; None where it was not applied.

    ``rule`` is ``"found"``, ``"policy"``, ``"manifest"``, ``"load"``, ``"probe"``, ``"client"`` or
    ``"choice"``.
    """

    rule: str
    passed: bool | None
    detail: str


@dataclasses.dataclass(frozen=True, slots=True)
class PluginEntry:
    """A plugin, what became of it, and why.

    Attributes
    ----------
    platform, distribution, version, source, module, library : str
        Where it comes from, as in `devrt.plugins.PluginRef`.
    state : str
        ``"chosen"``, ``"eligible"``, ``"shadowed"``, ``"excluded"``, ``"unavailable"``,
        ``"broken"``, or ``"adds"`` for one that serves no platform but adds to one.
    reason, remedy : str
        Why, and what to do about it.
    priority, experimental : int or bool or None
        As it says itself; None where it was not queried.
    aliases : tuple of str
        Other names of its platform.
    level : str
        How far it was examined: ``"metadata"``, ``"load"`` or ``"client"``.
    outcome : str
        How that ended, as `devrt.probing.isolated.ProbeReport` says it.
    output : str
        The last lines that it printed, if it did not end well.
    facts : dict
        What else it reported: devices, versions, memory kinds.
    rules : tuple of Rule
        Every rule, in order.
    """

    platform: str
    distribution: str
    version: str
    source: str
    module: str
    library: str
    state: str
    reason: str
    remedy: str
    priority: int | None
    experimental: bool | None
    aliases: tuple[str, ...]
    level: str
    outcome: str
    output: str
    facts: Mapping[str, Any]
    rules: tuple[Rule, ...]

    @property
    def name(self) -> str:
        """``platform@distribution``."""
        return f"{self.platform}@{self.distribution}"

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON takes it."""
        rules = [dataclasses.asdict(rule) for rule in self.rules]
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return plain | {"aliases": list(self.aliases), "facts": dict(self.facts), "rules": rules}


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that is set: its name, its value, the option that it sets.

    ``about`` is what plugins' manifests say that it is read for.
    """

    name: str
    value: str
    option: str = ""
    in_force: bool = True
    about: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What `diagnose` found.

    Attributes
    ----------
    default : str
        The default backend, ``platform@distribution``; empty if there is none.
    default_reason : str
        Why it is, or why there is none.
    platforms, policy_source
        The platforms that are allowed, and which setting says so.
    plugins : tuple of PluginEntry
        Every plugin, in order of preference, those that were not considered last.
    hardware : tuple of SeenHardware
        Accelerators that the machine shows.
    environment : tuple of Variable
        The variables that are set.
    settings : tuple of dict
        The options that are not at their default: name, value, origin and detail.
    versions : dict
        Versions of what takes part.
    findings : tuple of Finding
        What is worth knowing, the gravest first.
    is_undecided : bool
        Whether it is not known which backend is the default.
    job : tuple or None
        What `devrt.distributed.initialize` would use, and the clusters that are seen.
    """

    default: str
    default_reason: str
    platforms: tuple[str, ...]
    policy_source: str
    plugins: tuple[PluginEntry, ...]
    hardware: tuple[SeenHardware, ...]
    environment: tuple[Variable, ...]
    settings: tuple[Mapping[str, Any], ...]
    versions: Mapping[str, str]
    findings: tuple[Finding, ...]
    is_undecided: bool = False
    job: SeenJob | None = None

    @property
    def status(self) -> int:
        """0: the default works and nothing is wrong; 1: something is wrong; 2: no default."""
        if not self.default and not self.is_undecided:
            return 2
        return 1 if any(finding.severity == "error" for finding in self.findings) else 0

    @property
    def next_command(self) -> str:
        """The next command to type."""
        telling = (f for f in self.findings if f.severity != "info" or self._is_cause(f))
        some = any(entry.state in ("chosen", "eligible") for entry in self.plugins)
        otherwise = "devrt devices" if some or self.is_undecided else "devrt list"
        return next((f.command for f in telling if f.command), otherwise)

    def _is_cause(self, finding: Finding) -> bool:
        """Return whether a finding is of a platform that was requested and is unavailable."""
        return self.status == 2 and finding.code == "platform-unavailable"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON takes it; the schema is documented and versioned."""
        return {
            "schema": SCHEMA_VERSION,
            "status": self.status,
            "default": self.default or None,
            "default_reason": self.default_reason,
            "policy": {"platforms": list(self.platforms), "source": self.policy_source},
            "plugins": [entry.to_dict() for entry in self.plugins],
            "hardware": [
                {
                    "name": seen.name,
                    "platforms": list(seen.platforms),
                    "wheel": seen.wheel,
                    "evidence": list(seen.evidence),
                    "driver": seen.driver,
                }
                for seen in self.hardware
            ],
            "environment": [
                {**dataclasses.asdict(variable), "about": list(variable.about)}
                for variable in self.environment
            ],
            "settings": [dict(setting) for setting in self.settings],
            "cluster": None if self.job is None else _job(*self.job),
            "versions": dict(self.versions),
            "findings": [finding.to_dict() for finding in self.findings],
            "next": self.next_command,
        }


def _job(found: Membership, seen: tuple[SeenCluster, ...]) -> dict[str, Any]:
    return {
        "values": dict(found.values),
        "sources": dict(found.sources),
        "missing": found.missing,
        "seen": [cluster.to_dict() for cluster in seen],
    }

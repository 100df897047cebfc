"""Plugins that cannot be loaded beside others, for an option that both declare differently."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from devrt.plugins import PluginRef
from devrt.plugins.loading.faults import contract_error
from devrt.plugins.loading.option_clashes import CLASH_REMEDY, clash, loaded_before
from devrt.probing.isolated import ProbeReport

__all__ = ["with_clashes"]


def with_clashes(
    refs: Iterable[PluginRef], reports: Mapping[PluginRef, ProbeReport]
) -> dict[PluginRef, ProbeReport]:
    """Return the reports as they are where one process loads these plugins, in this order.

    Each was loaded in a process of its own, where the options of others are not known.
    """
    known: dict[str, tuple[str, Mapping[str, Any]]] = {}
    found = dict(reports)
    for ref in (ref for ref in refs if ref in reports):
        declared = reports[ref].facts.get("declared", {})
        clashes = (clash(n, *known[n], ours) for n, ours in declared.items() if n in known)
        what = next(filter(None, clashes), "")
        if what:
            found[ref] = _broken(ref, reports[ref], what)
        else:
            known |= {n: (loaded_before(ref), o) for n, o in declared.items() if n not in known}
    return found


def _broken(ref: PluginRef, report: ProbeReport, what: str) -> ProbeReport:
    """Return what the child would have reported after the other plugin was loaded."""
    error = contract_error(ref, what)
    facts = {"kind": "contract", "message": error.message, "remedy": CLASH_REMEDY}
    return dataclasses.replace(
        report,
        outcome="raised",
        phase="load",
        detail=f"{type(error).__name__}: {error.message}",
        facts={**report.facts, **facts},
    )

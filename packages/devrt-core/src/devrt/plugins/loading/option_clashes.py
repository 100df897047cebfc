"""Options of one name that two plugins declare differently: the one loaded second is broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from devrt._support.record import fields
from devrt.errors import PluginContractError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.faults import contract_error
from devrt.plugins.loading.plugin import Plugin
from devrt.records import OptionSpec

__all__ = [
    "CLASH_REMEDY",
    "clash",
    "clash_error",
    "declaration",
    "loaded_before",
    "options_of",
]

CLASH_REMEDY = (
    "Rename one of the two, with its platform's name in it; until then, leave one plugin out, "
    "for example by DEVRT_PLATFORMS."
)
_OWN_REMEDY = "Rename it, with its platform's name in it."


def options_of(plugin: Plugin) -> tuple[OptionSpec, ...]:
    """Return the options that a plugin declares, for all its platforms."""
    return tuple(spec for factory in plugin.clients for spec in factory.options)


def declaration(spec: OptionSpec) -> dict[str, Any]:
    """Return an option's fields but its name, as JSON takes them."""
    found = {name: getattr(spec, name) for name, *_ in fields(OptionSpec) if name != "name"}
    return found | {"type": spec.type.__name__, "choices": list(spec.choices)}


def loaded_before(other: PluginRef) -> str:
    """Return what messages call the plugin whose option is there already."""
    return f"plugin {other}, which was loaded before it"


def clash(name: str, whose: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Return in what two declarations of an option differ, as a clause; empty if in nothing."""
    differences = [
        f"{field}: {theirs.get(field)!r} there, {value!r} here"
        for field, value in ours.items()
        if theirs.get(field) != value
    ]
    if not differences:
        return ""
    return f"its option {name!r} is declared otherwise by {whose} ({'; '.join(differences)})"


def clash_error(plugin: Plugin, known: OptionSpec, loaded: Iterable[Plugin]) -> PluginContractError:
    """Return the error for a plugin with another option of the name of one that is ``known``."""
    other = next((other.ref for other in loaded if known in options_of(other)), None)
    whose = "devrt itself" if other is None else loaded_before(other)
    remedy = _OWN_REMEDY if other is None else CLASH_REMEDY
    own = next(s for s in options_of(plugin) if s.name == known.name and s != known)
    what = clash(known.name, whose, declaration(known), declaration(own))
    text = f"{what}. {remedy.rstrip('.')}"
    return contract_error(plugin.ref, text, remedy=remedy, option=known.name)

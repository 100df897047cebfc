"""The records that a plugin's hooks return, each checked for what later steps rely on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar

import pluggy

from devrt._support.record import replaced
from devrt.contract.deprecation import warn_of_use
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading import api_version
from devrt.plugins.loading.faults import contract_error, disagreement
from devrt.plugins.loading.guarded_traits import guarded
from devrt.plugins.loading.option_specs import check_options
from devrt.plugins.loading.plugin import Plugin
from devrt.records import (
    ClientFactory,
    DoctorFinding,
    MemoryKind,
    OptionSpec,
    PluginTraits,
    TopologyFactory,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract import PjrtLoader

__all__ = ["LOADER_HOOK", "TRAITS_HOOK", "check_fields", "check_platforms", "collect"]

_Record = TypeVar(
    "_Record", ClientFactory, TopologyFactory, MemoryKind, PluginTraits, DoctorFinding
)

LOADER_HOOK = "devrt_pjrt_loader"
TRAITS_HOOK = "devrt_plugin_traits"
_DOCTOR_HOOK = "devrt_doctor_findings"
_HOOKS = (
    "devrt_client_factories",
    _DOCTOR_HOOK,
    "devrt_memory_kinds",
    LOADER_HOOK,
    TRAITS_HOOK,
    "devrt_topology_factories",
)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value == value.lower()


def _are(kind: type, values: Any) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(value, kind) for value in values)


def _are_types(values: Any) -> bool:
    return isinstance(values, Mapping) and all(
        isinstance(name, str)
        and (isinstance(kind, type) or (isinstance(kind, tuple) and _are(type, kind)))
        for name, kind in values.items()
    )


_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_UNSET = object()
_CALLED = (
    "create_options probe describe links readings "
    "environment adapt_options adapt_topology compiler_flags explain"
).split()
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "platform": _is_name,
    "aliases": lambda value: _are(str, value) and all(map(_is_name, value)),
    "priority": lambda value: isinstance(value, int),
    "options": lambda value: _are(OptionSpec, value),
    "kind": _is_name,
    "code": lambda value: isinstance(value, str) and _CODE.fullmatch(value) is not None,
    "message": lambda value: isinstance(value, str) and bool(value.strip()),
    "extensions": lambda value: _are(int, value),
    "severity": lambda value: value in ("error", "warning", "info"),
    "factory": lambda value: value is None or callable(value),
    "library": lambda value: (
        value is None or isinstance(value, str | os.PathLike) or callable(value)
    ),
    "api_version": lambda value: value is None or api_version.is_version(value),
    **dict.fromkeys(_CALLED, callable),
    **dict.fromkeys(("client_options", "topology_options"), _are_types),
    **dict.fromkeys(("experimental", "fail_quietly"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("remedy", "command"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("patterns", "platforms"), lambda value: _are(str, value)),
}


def collect(
    manager: pluggy.PluginManager, ref: PluginRef, module: ModuleType, built: str | int | None
) -> Plugin:
    """Return the plugin whose hooks were registered; ``built`` is its manifest's api_version."""
    implemented = _check_hooks(manager, ref, module)

    def records(hook: str, kind: type[_Record]) -> tuple[_Record, ...]:
        answers = _call(manager, hook)
        if hook in implemented and not answers:  # pluggy leaves None out
            raise contract_error(ref, f"{hook} must return a list of {kind.__name__}, not None")
        return tuple(r for answer in answers for r in _typed(ref, hook, answer, kind, built))

    plugin = Plugin(
        ref,
        records("devrt_client_factories", ClientFactory),
        records("devrt_topology_factories", TopologyFactory),
        records("devrt_memory_kinds", MemoryKind),
        loader=_loader(ref, _call(manager, LOADER_HOOK), implemented),
        traits=tuple(guarded(ref, one) for one in records(TRAITS_HOOK, PluginTraits)),
        findings=(lambda: records(_DOCTOR_HOOK, DoctorFinding))
        if _DOCTOR_HOOK in implemented
        else None,
    )
    check_platforms(ref, plugin)
    return plugin


def _call(manager: pluggy.PluginManager, hook: str) -> list[Any]:
    answers: list[Any] = getattr(manager.hook, hook)()
    return answers


def _loader(ref: PluginRef, answers: list[Any], implemented: set[str]) -> PjrtLoader | None:
    if LOADER_HOOK not in implemented:
        return None
    from devrt.contract import PjrtLoader  # few plugins bring one
    from devrt.contract.members import members

    answer = answers[0] if answers else None
    if not isinstance(answer, PjrtLoader):
        kind = "None" if answer is None else type(answer).__name__
        raise contract_error(ref, f"{LOADER_HOOK} must return a PjrtLoader, not {kind}")
    for name in members(PjrtLoader):
        if not callable(value := getattr(answer, name)):
            raise contract_error(ref, f"PjrtLoader.{name} cannot be {value!r}")
    return answer


def _check_hooks(manager: pluggy.PluginManager, ref: PluginRef, module: ModuleType) -> set[str]:
    callers = manager.get_hookcallers(module) or []
    misspelt = [
        caller.name
        for caller in callers
        if caller.spec is None and not all(impl.optionalhook for impl in caller.get_hookimpls())
    ]
    known = ", ".join(_HOOKS)
    if misspelt:
        msg = f"it implements unknown hooks {', '.join(misspelt)}; hooks are {known}"
        raise contract_error(ref, msg)
    if not callers:
        msg = f"its module {ref.module!r} implements no hook of {known}, and has no initialize()"
        raise contract_error(ref, msg)
    implemented = {caller.name for caller in callers}
    warn_of_use(sorted(implemented), f"plugin {ref}")
    return implemented


def _typed(
    ref: PluginRef, hook: str, answer: object, kind: type[_Record], built: str | int | None
) -> Iterable[_Record]:
    if isinstance(answer, kind) or not isinstance(answer, Iterable):
        msg = f"{hook} must return a list of {kind.__name__}, not {type(answer).__name__}"
        raise contract_error(ref, msg)
    for item in answer:
        if not isinstance(item, kind):
            msg = f"{hook} must return {kind.__name__} records, not {type(item).__name__}"
            raise contract_error(ref, msg)
        named = _named(ref, item)
        check_fields(ref, named)
        _check_makes(ref, named)
        _check_version(ref, getattr(named, "api_version", None), built)
        yield named


def _named(ref: PluginRef, record: _Record) -> _Record:
    """Return a record with its platform, which the entry point names where it does not."""
    is_open = getattr(record, "platform", None) == ""
    return replaced(record, platform=ref.platform) if is_open else record


def _check_makes(ref: PluginRef, record: object) -> None:
    if not isinstance(record, ClientFactory):
        return
    if (record.factory is None) == (record.library is None):
        which = "neither" if record.factory is None else "both"
        what = f"ClientFactory needs a factory or a library, and has {which}"
        raise contract_error(ref, what)


def _check_version(ref: PluginRef, given: str | int | None, built: str | int | None) -> None:
    if built is None:  # else the manifest's was checked
        api_version.check(ref, api_version.FIRST if given is None else given)
    elif given is not None and not api_version.agree(given, built):
        raise contract_error(ref, disagreement("api_version", built, given))


def check_fields(ref: PluginRef, record: Any) -> None:
    """Check what later steps rely on outside the guarded places, sorting for one."""
    kind: Any = type(record)
    given = (name for name, v in kind.__record_defaults__.items() if getattr(record, name) != v)
    warn_of_use([f"{kind.__name__}.{name}" for name in given], f"plugin {ref}")
    for name, is_valid in _FIELDS.items():
        value = getattr(record, name, _UNSET)
        if value is not _UNSET and not is_valid(value):
            raise contract_error(ref, f"{type(record).__name__}.{name} cannot be {value!r}")
    check_options(ref, getattr(record, "options", ()))


def check_platforms(ref: PluginRef, plugin: Plugin) -> None:
    """Refuse a plugin with two records for a platform, or none for its entry point's."""
    platforms = [client.platform for client in plugin.clients]
    platforms += [library.platform for library in plugin.libraries]
    twice = sorted({name for name in platforms if platforms.count(name) > 1})
    if twice:
        raise contract_error(ref, f"it has two client factories for platform {twice[0]!r}")
    if platforms and ref.platform not in platforms:
        msg = (
            f"its entry point is called {ref.platform!r}, but its client factory is for "
            f"{platforms[0]!r}; the two names must be the same"
        )
        raise contract_error(ref, msg)

"""The options that a plugin declares, each checked for what reading its values relies on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.faults import contract_error
from devrt.records import OptionSpec

__all__ = ["check_options"]

_NAME = re.compile(r"(?!jax_)[a-z][a-z0-9_]*")
_FLAG = re.compile(r"\S+ \S+")
_TYPES = (int, float, bool, str)


def check_options(ref: PluginRef, specs: Iterable[OptionSpec]) -> None:
    """Refuse a declaration that no value can be checked against, and two of one name.

    Raises `PluginContractError`, which names the option, the field, what it has and what to give.
    """
    known: dict[str, OptionSpec] = {}
    for spec in specs:
        field, remedy = _mistake(spec)
        if field:
            given = getattr(spec, field)
            what = f"its option {spec.name!r} is declared with {field} = {given!r}; {remedy}"
            raise contract_error(ref, what, option=spec.name, field=field)
        if known.setdefault(spec.name, spec) != spec:
            what = f"it declares option {spec.name!r} twice, differently; leave one of them out"
            raise contract_error(ref, what, option=spec.name, field="name")


def _mistake(spec: Any) -> tuple[str, str]:
    """Return the first field that is wrong and what to give instead; two empty texts if none is."""
    if not (isinstance(spec.name, str) and _NAME.fullmatch(spec.name)):
        return "name", (
            "give small letters, digits and underscores, a letter first, and no jax_ before them"
        )
    if not any(spec.type is kind for kind in _TYPES):
        return "type", "give int, float, bool or str"
    if not isinstance(spec.help, str):
        return "help", "give a sentence"
    if not (isinstance(spec.flag, str) and (not spec.flag or _FLAG.fullmatch(spec.flag))):
        return "flag", (
            "give the variable and the flag with a blank between them "
            "('XLA_FLAGS --xla_some_number'), or leave it out"
        )
    has_order = spec.type in (int, float)
    if spec.unit != "" and not (spec.unit == "bytes" and has_order):
        return "unit", "give 'bytes', for an option of type int or float, or leave it out"
    return _mistaken_bound(spec, has_order) or _mistaken_value(spec) or ("", "")


def _mistaken_bound(spec: Any, has_order: bool) -> tuple[str, str] | None:
    for field in ("minimum", "maximum"):
        bound = getattr(spec, field)
        if bound is None:
            continue
        if not has_order:
            return field, f"leave it out, for type {spec.type.__name__} has no bounds"
        if not _is_of(float, bound) or math.isnan(bound):
            return field, "give a number, or leave it out"
    if None not in (spec.minimum, spec.maximum) and spec.minimum > spec.maximum:
        return "maximum", f"give at least the minimum, {spec.minimum!r}, or leave it out"
    return None


def _mistaken_value(spec: Any) -> tuple[str, str] | None:
    kind = spec.type.__name__
    if not isinstance(spec.choices, tuple | list):
        return "choices", f"give a tuple of values of type {kind}, or leave it out"
    if not all(_is_of(spec.type, choice) for choice in spec.choices):
        return "choices", f"give values of type {kind} only"
    if not all(_is_within(spec, choice) for choice in spec.choices):
        return "choices", f"give values {_bounds(spec)} only"
    if spec.default is None:
        return None
    if not _is_of(spec.type, spec.default):
        return "default", f"give a value of type {kind}, or None for unset"
    if not _is_within(spec, spec.default):
        return "default", f"give a value {_bounds(spec)}, or None for unset"
    if spec.choices and spec.default not in spec.choices:
        return "default", f"give one of the choices, {spec.choices!r}, or None for unset"
    return None


def _is_of(kind: type, value: object) -> bool:
    """Return whether a value is of an option's type; a truth value is no number."""
    if kind is float:
        kind = int if isinstance(value, int) else float
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _is_within(spec: Any, value: Any) -> bool:
    if spec.type is float and not math.isfinite(value):  # which the option's user cannot give
        return False
    is_enough = spec.minimum is None or value >= spec.minimum
    return is_enough and (spec.maximum is None or value <= spec.maximum)


def _bounds(spec: Any) -> str:
    low = "" if spec.minimum is None else f"of at least {spec.minimum!r}"
    high = "" if spec.maximum is None else f"of at most {spec.maximum!r}"
    return " and ".join(filter(None, (low, high))) or "that is finite"

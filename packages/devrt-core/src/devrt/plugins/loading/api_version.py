"""The errors for a plugin that was built against another version of the plugin contract."""

from __future__ import annotations

from typing import Any

from devrt._support.record import UnknownFieldError
from devrt.contract.version import CONTRACT_VERSION, OLDEST_CONTRACT_VERSION
from devrt.errors import PluginContractError
from devrt.plugins.discovery.refs import PluginRef, normalized

__all__ = [
    "FIRST",
    "agree",
    "as_text",
    "check",
    "is_newer",
    "is_version",
    "remedy",
    "too_new",
    "unknown_field",
]

FIRST = "1.0"
"""What a plugin that says nothing was built against."""

_CORE = "devrt-core"
_DIGITS = 4  # of each number, at most


def is_version(value: object) -> bool:
    """Return whether a value is a version: ``"1.2"``, or a whole number, which is ``"N.0"``."""
    parts = value.split(".") if isinstance(value, str) else [str(value)]
    if type(value) is not int and len(parts) != 2:
        return False
    return all(p.isascii() and p.isdigit() and len(p) <= _DIGITS for p in parts)


def _parsed(value: str | int) -> tuple[int, int]:
    major, _, minor = str(value).partition(".")
    return int(major), int(minor or 0)


CURRENT, OLDEST = _parsed(CONTRACT_VERSION), _parsed(OLDEST_CONTRACT_VERSION)


def is_newer(value: str | int | None) -> bool:
    """Return whether a version is one that this devrt does not know all of."""
    return value is not None and is_version(value) and _parsed(value) > CURRENT


def check(ref: PluginRef, value: str | int) -> None:
    """Refuse a plugin that was built against a version that this devrt does not support.

    The `PluginContractError` has ``upgrade``: the distribution that is too old.
    """
    built = _parsed(value)
    if built[0] > CURRENT[0] or built < OLDEST:
        why = f"the installed {_installed()} supports {_supported()}"
        raise _mismatch(ref, value, why, ref.distribution if built < OLDEST else _CORE)


def unknown_field(
    ref: PluginRef, error: UnknownFieldError, declared: str | int | None
) -> PluginContractError:
    """Return the error for a record with a field that this devrt does not know."""
    own: Any = error.api_version
    built = own if is_version(own) else declared or FIRST
    if is_newer(built):
        return _mismatch(
            ref, built, f"{error} in {as_text(CURRENT)}, which {_installed()} has", _CORE
        )
    msg = (
        f"plugin {ref} breaks the plugin contract: {error} in {as_text(built)}, which it was built "
        "against."
    )
    return PluginContractError(msg, phase="contract", **ref.facts())


def too_new(ref: PluginRef, value: str | int, what: str) -> PluginContractError:
    """Return the error for something in a newer plugin that this devrt cannot read."""
    return _mismatch(ref, value, what, _CORE)


def remedy(ref: PluginRef, upgrade: str) -> str:
    """Return what to do where a plugin and devrt are of different times; ``upgrade`` is too old."""
    from devrt.contract.installation import how_to_install  # only where something is wrong

    wanted = _required_core(ref.distribution) if upgrade == _CORE else ""
    why = f" ({ref.distribution} requires {wanted})" if wanted else ""
    return f"Upgrade {upgrade}{why} with: {how_to_install(upgrade, options='--upgrade')}"


def agree(left: str | int, right: str | int) -> bool:
    """Return whether two versions are the same, however they are written."""
    return _parsed(left) == _parsed(right)


def as_text(value: Any) -> str:
    """Return a version as it is written."""
    major, minor = value if isinstance(value, tuple) else _parsed(value)
    return f"{major}.{minor}"


def _installed() -> str:
    from importlib import metadata  # only where something is wrong

    try:
        return f"{_CORE} {metadata.version(_CORE)}"
    except metadata.PackageNotFoundError:  # from a folder that is no installation
        return _CORE


def _supported() -> str:
    return f"{as_text(OLDEST)} to {CURRENT[0]}.x"


def _mismatch(ref: PluginRef, value: Any, why: str, upgrade: str) -> PluginContractError:
    what_to_do = remedy(ref, upgrade)
    msg = (
        f"plugin {ref} was built against plugin contract {as_text(value)}, and {why}. {what_to_do}"
    )
    return PluginContractError(
        msg,
        phase="contract",
        remedy=what_to_do,
        upgrade=upgrade,
        api_version=as_text(value),
        supported=_supported(),
        **ref.facts(),
    )


def _required_core(distribution: str) -> str:
    """Return what a distribution requires of devrt-core, without markers; empty if nothing."""
    from importlib import metadata

    from devrt.contract.installation import name_of

    try:
        required = metadata.requires(distribution) or []
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    found = (line.partition(";")[0].strip() for line in required)
    return next((text for text in found if normalized(name_of(text)) == _CORE), "")

"""The environment variables and versions that take part, and what is wrong with them."""

from __future__ import annotations

import contextlib
import difflib
import platform
import re
import sys
import types
import warnings
from collections.abc import Collection, Iterator, Mapping
from importlib import metadata
from typing import Any

from devrt._config.keys import carries, unknown_option
from devrt._config.layers import Config
from devrt._config.options import NOT_OPTIONS
from devrt.doctor.findings import Finding
from devrt.doctor.records import Variable
from devrt.errors import ConfigError

__all__ = [
    "config_finding",
    "environment_findings",
    "read_quietly",
    "refused_value",
    "settings_in_force",
    "variables_in_force",
    "versions",
]

_PREFIX = "DEVRT_"
_SHOWN_PREFIXES = ("DEVRT_", "JAX_", "PJRT_", "TPU_")
_SHOWN_NAMES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "XLA_FLAGS",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
    }
)
_SHOWN = 400
_SECRET = re.compile("PASSWORD|TOKEN|SECRET")  # a report is shown to others
_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_HIDDEN = "***"
_DISTRIBUTIONS = ("devrt-core", "numpy", "ml_dtypes", "pluggy")


def variables_in_force(
    config: Config,
    options: Collection[str] = (),
    environ: Mapping[str, str] | None = None,
    declared: Mapping[str, tuple[str, ...]] = types.MappingProxyType({}),
) -> tuple[Variable, ...]:
    """Return the variables that are set and known to matter, by name.

    ``options`` are those of plugins that were loaded elsewhere, beside the configuration's own;
    ``declared`` has what manifests say that variables are read for.
    """
    variables = config.environ if environ is None else environ
    known = {*config.names(), *options}
    found = []
    for name in sorted(variables):
        if name in _SHOWN_NAMES or name in declared or name.startswith(_SHOWN_PREFIXES):
            option = _option(name, known)
            is_read = not option or option not in config.names() or _is_in_force(config, name)
            about = declared.get(name, ())
            value = _HIDDEN if _SECRET.search(name) else variables[name][:_SHOWN]
            value = _LOGIN.sub(_HIDDEN, value)
            found.append(Variable(name, value, option, is_read, about))
    return tuple(found)


def _option(name: str, known: Collection[str]) -> str:
    option = name.partition("_")[2].lower()
    return option if name.startswith((_PREFIX, "JAX_")) and option in known else ""


def _is_in_force(config: Config, variable: str) -> bool:
    try:
        return config.setting(variable.partition("_")[2].lower()).detail == variable
    except ConfigError:
        return True  # it is read, and refused


def read_quietly(config: Config) -> None:
    """Let the configuration's files be read now; what it would warn of is a finding."""
    with warnings.catch_warnings(), contextlib.suppress(ConfigError):
        warnings.simplefilter("ignore")
        config.files()


def environment_findings(
    config: Config,
    variables: Collection[Variable],
    options: Collection[str] = (),
    unasked: Collection[str] = (),
) -> Iterator[Finding]:
    """Yield what is wrong with variables: a value that an option refuses, a name of none.

    ``options`` are those of plugins that were loaded elsewhere. ``unasked`` are platforms whose
    plugins did not say their options: a name with one in it may be theirs.
    """
    for name in config.names():
        try:
            config.setting(name)
        except ConfigError as error:
            yield config_finding(error)
    known = sorted({*config.names(), *options})
    for path, key in config.waiting_keys():
        if key not in known and not carries(unasked)(key):
            source = f"configuration file {path}"
            yield config_finding(unknown_option(key, f"{source}: no option {key!r}", known, ""))
    for variable in variables:
        option = variable.name.removeprefix(_PREFIX)
        if variable.option or option == variable.name or variable.name in NOT_OPTIONS:
            continue
        if variable.about:
            continue
        if carries(unasked)(option):
            continue
        near = difflib.get_close_matches(option.lower(), known, n=1)
        hint = f"Did you mean {_PREFIX}{near[0].upper()}? " if near else ""
        yield Finding(
            "env-unknown",
            variable.name,
            f"{variable.name} is set, and no option of devrt or of a plugin that could be loaded "
            "has that name.",
            f"{hint}Unset it if it is not used.",
            f"unset {variable.name}",
        )


def config_finding(error: ConfigError) -> Finding:
    """Return the finding for a value, or a file of values, that is refused."""
    source = str(getattr(error, "source", ""))
    variable = source.removeprefix("environment variable ")
    if variable != source:
        variable = variable.partition(" ")[0]  # without the flag in it
        remedy = "Correct the value, or unset it."
        return Finding("env-malformed", variable, error.message, remedy, f"unset {variable}")
    remedy = "Correct the entry, or take it out."
    return Finding("config-malformed", source or "configuration", error.message, remedy)


def refused_value(message: str, subject: str) -> Finding:
    """Return the finding for an option's value that a plugin's platform cannot take."""
    start = "environment variable "
    if message.startswith(start):
        variable = message.removeprefix(start).partition(":")[0].partition(" ")[0]
        remedy = "Correct the value, or unset it."
        return Finding("env-malformed", variable, message, remedy, f"unset {variable}")
    return Finding("config-malformed", subject, message, "Correct the entry, or take it out.")


def settings_in_force(config: Config) -> tuple[dict[str, Any], ...]:
    """Return the options that are not at their default, each with its origin."""
    found = []
    for name in config.names():
        try:
            setting = config.setting(name)
        except ConfigError:
            continue
        if setting.origin != "default":
            plain = isinstance(setting.value, bool | int | float | str | None)
            value = setting.value if plain else str(setting.value)
            found.append(
                {"name": name, "value": value, "origin": setting.origin, "detail": setting.detail}
            )
    return tuple(found)


def versions() -> dict[str, str]:
    """Return the versions of Python, of the system and of the distributions that take part."""
    found = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "system": platform.platform(),
        "machine": platform.machine(),
    }
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except Exception as error:  # noqa: BLE001  metadata may be broken in any way
            missing = isinstance(error, metadata.PackageNotFoundError)
            found[name] = "not installed" if missing else f"unreadable ({error})"
    return found

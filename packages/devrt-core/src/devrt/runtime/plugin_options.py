"""The options that plugins declare: known to the configuration once a plugin is loaded."""

from __future__ import annotations

import contextlib

from devrt._config.layers import Config
from devrt.errors import ConfigError, DevrtError, PluginContractError
from devrt.plugins import Plugin, PluginRegistry, Policy
from devrt.runtime.policy import configured_policy

__all__ = ["declare_options", "load_allowed", "why_absent"]


def declare_options(plugin: Plugin, config: Config) -> None:
    """Make a plugin's options known to the configuration.

    Raises `PluginContractError` if one is there already, or is not valid.
    """
    for factory in plugin.clients:
        for spec in factory.options:
            try:
                config.define(spec)
            except ConfigError as error:
                msg = f"plugin {plugin.ref} breaks the plugin contract: {error.message}"
                raise PluginContractError(msg, phase="contract", **plugin.ref.facts()) from error


def load_allowed(plugins: PluginRegistry, config: Config) -> None:
    """Load every plugin that may be used; one that is broken declares no option."""
    for ref in plugins.refs_for(configured_policy(config).platforms):
        if not plugins.is_forbidden(ref):
            with contextlib.suppress(DevrtError):
                plugins.load(ref)


def why_absent(option: str, plugins: PluginRegistry, config: Config) -> str:
    """Return whose option a name is and why that is not loaded; empty if it is nobody's."""
    from devrt.runtime import failures  # only where something failed

    try:
        policy = configured_policy(config)
    except ConfigError:
        policy = Policy()  # another mistake, which is an error of its own
    return failures.absent_option(option, plugins.refs(), policy, plugins)

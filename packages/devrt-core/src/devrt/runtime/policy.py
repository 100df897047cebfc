"""What the configuration and a call say of the choice, as the policy that `select` takes."""

from __future__ import annotations

from devrt._config.layers import Config
from devrt.plugins import Policy, parse_platforms

__all__ = ["configured_names", "configured_policy", "requested_policy"]


def configured_names(config: Config, option: str) -> Policy:
    """Return the platforms that one option lists, with where it is set."""
    setting = config.setting(option)
    return parse_platforms(str(setting.value or ""), setting.detail or f"config.{option}")


def configured_policy(config: Config) -> Policy:
    """Return what is allowed, required, preferred and forbidden, and which setting says so."""
    allowed = configured_names(config, "platforms")
    require = configured_names(config, "require_platforms")
    prefer = configured_names(config, "prefer_platforms")
    forbid = configured_names(config, "forbid_platforms")
    experimental = config.setting("allow_experimental")
    origins = {
        "require": require.platforms and require.source,
        "prefer": prefer.platforms and prefer.source,
        "forbid": forbid.platforms and forbid.source,
        "allow_experimental": not experimental.value
        and (experimental.detail or "config.allow_experimental"),
    }
    return Policy(
        allowed.platforms,
        allowed.source if allowed.platforms else "",
        require=require.platforms,
        prefer=prefer.platforms,
        forbid=forbid.platforms,
        allow_experimental=experimental.value,
        origins=tuple((field, where) for field, where in origins.items() if where),
    )


def requested_policy(platform: str) -> Policy:
    """Return the policy of a call that names a platform.

    Raises `InvalidArgumentError` if there is no name in it.
    """
    requested = parse_platforms(platform, f"the argument {platform!r}")
    if not requested.platforms:
        from devrt.runtime import failures  # only where something failed

        raise failures.nameless()
    return requested

"""What the configuration and a call ask for as a policy, and the choice among candidates by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devrt._config.layers import Config
from devrt._support.record import replaced
from devrt.plugins import Candidate, Decision, Policy, parse_platforms, select

__all__ = [
    "Find",
    "checked_request",
    "configured_names",
    "configured_policy",
    "decide",
    "requested_policy",
]

Find = Callable[[tuple[str, ...]], tuple[Candidate, ...]]
"""Returns the candidates that can serve one of the names; all, if there are none."""


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


def checked_request(platform: object, options: object) -> dict[str, Any]:
    """Return the options of a call that makes a client of a platform.

    Raises `InvalidTypeError` where the platform is no text, or the options are not named.
    """
    if not isinstance(platform, str):
        from devrt.runtime import failures  # only where something failed

        raise failures.no_name(platform)
    given = {} if options is None else options
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        from devrt.runtime import failures  # only where something failed

        raise failures.no_options(platform, given)
    # As many devices of a call are simulated ones; configured, the number alone requests nothing.
    is_counted = given.get("mock_num_gpus") is not None and given.get("mock") is None
    return {**given, "mock": True} if is_counted else dict(given)


def requested_policy(platform: str) -> Policy:
    """Return the policy of a call that names a platform.

    Raises `InvalidArgumentError` if there is no name in it.
    """
    requested = parse_platforms(platform, f"the argument {platform!r}")
    if not requested.platforms:
        from devrt.runtime import failures  # only where something failed

        raise failures.nameless()
    return requested


def decide(
    config: Config, requested: Policy | None, find: Find, problems: Callable[[], Sequence[str]]
) -> Decision:
    """Choose among the candidates that ``find`` returns.

    ``requested`` are the platforms that a call names; None asks for the default. ``problems``
    returns what is wrong with how plugins were named, for an error's message.
    """
    policy = configured_policy(config)
    if requested is not None:  # what a call names must be had; what else is required need not
        policy = replaced(policy, require=())
    named = requested or configured_names(config, "platform_name")
    if not named.platforms:
        return select(find(policy.needed if policy.platforms else ()), policy)
    if requested is not None:
        merged = replaced(policy, platforms=requested.platforms, source=requested.source)
    else:
        origins = (*policy.origins, ("default", named.source))
        merged = replaced(policy, default=named.platforms, require=(), origins=origins)
    candidates = _allowed(find(named.platforms), named, policy, problems)
    decision = select(candidates, merged)
    return _required(decision, policy, find) if policy.require else decision


def _allowed(
    candidates: tuple[Candidate, ...],
    named: Policy,
    policy: Policy,
    problems: Callable[[], Sequence[str]],
) -> tuple[Candidate, ...]:
    """Return the candidates that the policy allows, if each name has one among them."""
    if not policy.platforms:
        return candidates
    allowed = tuple(c for c in candidates if any(map(c.answers_to, policy.platforms)))
    for name in named.platforms:
        answering = [c for c in candidates if c.answers_to(name)]
        if answering and not any(c.answers_to(name) for c in allowed):
            from devrt.runtime import failures  # only where something failed

            raise failures.noted(failures.excluded(name, answering, policy), problems())
    return allowed


def _required(decision: Decision, policy: Policy, find: Find) -> Decision:
    """Return ``decision``, or else one without a choice that says what is required in vain."""
    needs = replaced(policy, platforms=())
    required = select(find(policy.require), needs)
    return decision if required.chosen is not None else required

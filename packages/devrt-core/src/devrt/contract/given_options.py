"""Options that a program gives a client, beside those that come from the configuration."""

from __future__ import annotations

from collections.abc import Iterable

from devrt.errors import InvalidArgumentError

__all__ = ["check_known"]


def check_known(given: Iterable[str], known: Iterable[str], platform: str) -> None:
    """Check that a platform's clients have all options that one is given.

    Parameters
    ----------
    given
        The names of what the factory was given, as `devrt.records.ClientContext.options` has them.
    known
        The names that the factory reads.
    platform
        The client's.

    Raises
    ------
    InvalidArgumentError
        If a name is unknown; the message lists the known ones.
    """
    names = sorted(known)
    unknown = [name for name in given if name not in names]
    if unknown:
        msg = f"a {platform} client has no option {unknown[0]!r}; it has: {', '.join(names)}."
        raise InvalidArgumentError(msg, option=unknown[0], platform=platform)

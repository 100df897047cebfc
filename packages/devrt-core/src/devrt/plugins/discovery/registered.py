"""What a module made for JAX was seen to register, as the reference to its plugin carries it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from devrt._support.record import fields, record
from devrt.plugins.discovery.refs import PluginRef

__all__ = ["Registered", "digest_of", "registered", "set_environment"]


@record(frozen=True, slots=True, kw_only=True)
class Registered:
    """What is known of one registration.

    ``lost`` are options that cannot be given to a client here, each with the reason;
    ``environment`` the variables that the module set, None for those that it removed. ``failed``
    says why nothing is known, ``ended`` what happened after it was registered, and
    ``unknown_library`` why the library is the one found by its name; empty where nothing is wrong
    with that.
    """

    priority: int | None = None
    options: Mapping[str, Any] = {}
    lost: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = {}
    failed: str = ""
    ended: str = ""
    unknown_library: str = ""

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: getattr(self, name) for name, _, _ in fields(Registered)}

    def text(self) -> str:
        """Return it as the field ``registered`` of a reference takes it."""
        import json  # here and below: a start has no such plugin mostly

        return json.dumps(self.facts(), sort_keys=True)


def registered(ref: PluginRef) -> Registered | None:
    """Return what the plugin's module was seen to register; None where it was not run."""
    if not ref.registered:
        return None
    import json

    known = json.loads(ref.registered)
    return Registered(**{**known, "lost": tuple(known["lost"])})


def set_environment(known: Registered | None) -> None:
    """Set the variables as the module set them: its library reads them when it is opened."""
    for name, value in (known.environment if known is not None else {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def digest_of(value: str | None) -> str:
    """Return what stands for a variable's value on disk, which may be a secret."""
    if value is None:
        return ""
    import hashlib

    return hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:16]

"""What could not be taken over from modules that were made for JAX, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator

from devrt.doctor.findings import Finding
from devrt.plugins.discovery.refs import ENVIRONMENT_VARIABLE, PluginRef
from devrt.plugins.discovery.registered import registered

__all__ = ["registration_findings"]


def registration_findings(ref: PluginRef) -> Iterator[Finding]:
    """Yield what is not known of a plugin whose module registers it by running code."""
    known = registered(ref)
    if known is None:
        return
    whose = f"module {ref.entry!r} of plugin {ref}"
    if known.failed:
        message = (
            f"what {whose} registers could not be recorded: {known.failed}. The platform "
            f"{ref.platform!r}, the entry point's name, is a guess, and its priority and options "
            "are not known."
        )
        remedy = (
            f"Correct that and run the doctor again; or name the library in {ENVIRONMENT_VARIABLE},"
            " with the options in a configuration file; or ask its author for a devrt plugin."
        )
        yield Finding("plugin-not-recorded", ref.name, message, remedy)
    if known.ended:
        message = (
            f"not all that {whose} registers may have been recorded: {known.ended}. Platform "
            f"{ref.platform!r} is used as it was registered before that."
        )
        remedy = "Correct that and run the doctor again; or ask its author for a devrt plugin."
        yield Finding("plugin-not-recorded", ref.name, message, remedy)
    if known.unknown_library and ref.library:
        message = (
            f"the library of {whose} is not known: {known.unknown_library}. The one found among "
            f"its files is used, {ref.library}."
        )
        remedy = f"If that is another one, name the right one in {ENVIRONMENT_VARIABLE}."
        yield Finding("plugin-not-recorded", ref.name, message, remedy)
    if known.lost:
        message = (
            f"{whose} registers options that a client cannot be given here, so that they are left "
            f"out: {'; '.join(text.rstrip('.') for text in known.lost)}."
        )
        remedy = f"Give those that matter in a configuration file ({ENVIRONMENT_VARIABLE})."
        yield Finding("plugin-options-lost", ref.name, message, remedy)

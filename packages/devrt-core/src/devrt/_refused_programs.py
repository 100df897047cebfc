"""What to do about programs that a compiler refuses, added to the compiler's own words."""

from __future__ import annotations

import re

from devrt._stablehlo import is_bytecode

__all__ = ["explain"]

_READS = re.compile(r"\n[^\n]*Failed to parse using StableHLO v([\d.]+)[^\n]*")
_WROTE = re.compile(r"produced by: StableHLO_v([\d.]+)")
_DYNAMIC = re.compile(r"'stablehlo\.(?:real_)?dynamic_\w+' op can't be translated")


def explain(message: str, code: bytes) -> str:
    """Return a compiler's refusal, with what to do about it.

    Parameters
    ----------
    message
        The compiler's words.
    code
        The program.

    Returns
    -------
    str
        The words without the guess that the program may be too new where it is text, since nothing
        in text says so; and a last line of advice where there is any.
    """
    reads = _READS.search(message)
    if reads is not None and not is_bytecode(code):
        message = message.replace(reads.group(), "")
    advice = _advice(message, code, reads.group(1) if reads is not None else "")
    return message.rstrip() + (f"\n{advice}" if advice else "")


def _advice(message: str, code: bytes, reads: str) -> str:
    wrote = _WROTE.search(message)
    if reads and is_bytecode(code) and (wrote is not None or "'vhlo." in message):
        version = f" {wrote.group(1)}" if wrote is not None else ", a later version"
        return (
            f"The compiler reads StableHLO up to {reads}, and the program's bytecode was written "
            f"with{version}. Export it for the earlier version, give it as text, or use a later "
            "plugin."
        )
    if _DYNAMIC.search(message):
        return "The program has a symbolic dimension. Export it for the sizes that it runs with."
    if "Only dense elements attr are supported" in message:
        return (
            "The program holds constants as resources (dense_resource). Export them as ordinary "
            "constants, or as arguments."
        )
    return ""

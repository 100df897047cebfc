"""The nanobind domain of a native module, by its file: modules of one domain share classes."""

from __future__ import annotations

import mmap
import re
import sys

__all__ = ["classless", "domain_in"]

_MARK = b" works in one interpreter of a process only"
"""What the SDK says where a second interpreter imports a module, behind the domain."""

_DOMAIN = re.compile(rb"\w+$")
_LONGEST = 200


def domain_in(data: bytes | mmap.mmap) -> str:
    """Return the NB_DOMAIN that a module was built with; empty where it does not say."""
    at = data.find(_MARK)  # not by a pattern: libraries have hundreds of MB
    found = _DOMAIN.search(data[max(0, at - _LONGEST) : max(0, at)])
    return found[0].decode("ascii", "replace") if found else ""


def classless(module: str, prefix: str) -> str:
    """Return why a module that is loaded has no class of its own, and whose mistake that is.

    Parameters
    ----------
    module
        Its name.
    prefix
        What its classes are called by.
    """
    domain = _domain_of(module)
    loaded = list(sys.modules) if domain else ()
    others = [name for name in loaded if name != module and _domain_of(name) == domain]
    msg = f"the native module {module} has no class {prefix}Client: "
    if not others:
        return (
            f"{msg}it was built with another CLASS_PREFIX. Build it with the one that it is given."
        )
    wrong = next((name for name in (module, *others) if name.partition(".")[0] != domain), module)
    return (
        f"{msg}{' and '.join(others)}, loaded before, is of the same NB_DOMAIN, {domain!r}, and "
        f"has registered it. Build {wrong} with NB_DOMAIN {wrong.partition('.')[0]}."
    )


def _domain_of(module: str) -> str:
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    if not path.endswith(".so"):
        return ""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return domain_in(data)
    except (OSError, ValueError):  # the latter of an empty file
        return ""

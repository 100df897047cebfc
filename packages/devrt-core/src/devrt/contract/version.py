"""The version of the plugin contract: which one this devrt has, and which it still supports.

A version is ``"major.minor"``. A minor one adds names, fields and members with defaults; a major
one takes away what was deprecated; ``docs/backend-authors/policy.md`` is the promise. A plugin
records the version that it was *built* against, as a literal in its manifest or its records: what
is installed beside it is another question, and the answer of no use.
"""

from __future__ import annotations

__all__ = ["CONTRACT_VERSION", "OLDEST_CONTRACT_VERSION"]

CONTRACT_VERSION = "1.0"
"""The contract of this devrt-core. Plugins of a later major version are refused."""

OLDEST_CONTRACT_VERSION = "1.0"
"""The oldest contract that this devrt-core supports. Plugins of an older one are refused."""

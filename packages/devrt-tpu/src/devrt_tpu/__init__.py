"""TPUs for devrt; the plugin itself is `devrt_tpu.plugin`."""

from __future__ import annotations

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        # Read seldom, and reading an installed distribution's metadata takes a millisecond.
        from importlib.metadata import version

        return version("devrt-tpu")
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)

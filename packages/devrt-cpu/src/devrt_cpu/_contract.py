"""Makes the native module's classes those of the backend contract."""

from __future__ import annotations

from devrt.native import classes
from devrt_cpu._capabilities import capabilities

__all__ = ["register"]


def register() -> None:
    """Load the native module and make its classes those of `devrt.contract`, once."""
    engine = "devrt_cpu._engine:ENGINE"
    classes.register("devrt_cpu._ext", "Cpu", engine=engine, capabilities=capabilities)

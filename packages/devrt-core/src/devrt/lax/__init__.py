"""Operations as compilers know them, loops and branches: by `jax.lax`'s names.

They are stricter than `devrt.numpy`: operands of one call have one dtype, and shapes broadcast no
further than scalars and dimensions of size 1. Python's numbers take the dtype of the others.
"""

from __future__ import annotations

from typing import Any

from devrt._support.lazy import attach

_exported, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> Any:
    from devrt.programs.overlaid import moving

    value = moving(name, _exported(name))
    globals()[name] = value
    return value

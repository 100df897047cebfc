"""devrt: a device runtime for Python.

The accelerators of a machine come in as wheels. ``devrt.devices()`` shows them, ``device_put``
places arrays on them, meshes and shardings spread arrays over them. Importing devrt loads no
backend and no NumPy; each name brings in its package when it is first used.
"""

from __future__ import annotations

from devrt._support import fork
from devrt._support.lazy import attach, explain_absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_exported, _, __all__ = attach(__name__)
__all__ += ["__version__", "config"]

fork.refuse_lost_imports()


def _advice(name: str) -> str:
    from devrt._support.absent import advice

    return advice("devrt", name, __all__)


explain_absent(__name__, _advice)


def __getattr__(name: str) -> Any:
    if name == "config":  # not kept: it is the default runtime's, which can be replaced
        return _exported("default_runtime")().config
    if name == "__version__":
        from importlib.metadata import version

        return version("devrt-core")
    if name not in __all__:
        raise AttributeError(f"module 'devrt' has no attribute {name!r}{_advice(name)}")
    return _exported(name)


def __dir__() -> list[str]:
    return sorted(__all__)

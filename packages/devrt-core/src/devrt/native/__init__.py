"""The native SDK: C++20 headers and a CMake package from which backends are built.

The headers include no Python. A backend's CMake file finds them with ``python -m devrt.native``.
"""

from __future__ import annotations

import os

__all__ = ["ABI_VERSION", "check_abi", "cmake_dir", "include_dir"]

ABI_VERSION = 1
"""What native modules share with this devrt-core at run time: the headers' ``DEVRT_NATIVE_ABI``."""


def include_dir() -> str:
    """Return the folder for the include path (``#include "devrt/base/status.hpp"``)."""
    return _folder("include")


def cmake_dir() -> str:
    """Return the folder that holds ``devrtConfig.cmake``, to be given to CMake as ``devrt_DIR``."""
    return _folder("cmake")


def _folder(name: str) -> str:
    return os.path.join(os.path.dirname(__file__), name)


def check_abi(module: str, built: int) -> None:
    """Refuse a native module that was built against another ABI; modules call it when imported.

    Parameters
    ----------
    module
        The module's package, for the message.
    built
        The ``DEVRT_NATIVE_ABI`` of the headers that it was built with.

    Raises
    ------
    PluginLoadError
        If ``built`` is not `ABI_VERSION`; both are attributes, ``built_abi`` and
        ``installed_abi``.
    """
    if built == ABI_VERSION:
        return
    from devrt.contract.installation import how_to_install
    from devrt.errors import PluginLoadError

    upgrade = "devrt-core" if built > ABI_VERSION else module.replace("_", "-")
    remedy = (
        f"Upgrade {upgrade} with: {how_to_install(upgrade, options='--upgrade')}; or build "
        f"{module} again against the installed devrt-core."
    )
    msg = (
        f"The native module of {module} was built against version {built} of devrt's native ABI, "
        f"and the installed devrt-core has version {ABI_VERSION}. {remedy}"
    )
    abis = {"built_abi": built, "installed_abi": ABI_VERSION}
    raise PluginLoadError(msg, plugin=module, remedy=remedy, upgrade=upgrade, **abis)

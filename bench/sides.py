"""What differs between the sides before any code of theirs runs: environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["ROOT", "variables"]

ROOT = Path(__file__).resolve().parent.parent

# Whatever the caller's shell says about these must not reach one side and not the other.
_OWNED = ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "DEVRT_PLATFORMS",
          "DEVRT_NUM_CPU_DEVICES", "DEVRT_CPU_ENGINE", "PYTHONPATH", "PYTHONSTARTUP",
          # An installed package has its bytecode; a checkout writes it at the first start.
          "PYTHONDONTWRITEBYTECODE")  # fmt: skip

# devrt's own client, where XLA's may be preferred.
_ON_GPUS = {
    "devrt": {"DEVRT_PLATFORMS": "cuda@devrt-cuda"},
    "jax": {"JAX_PLATFORMS": "cuda"},
}


def variables(
    side: str,
    devices: int | None = None,
    extra_path: str = "",
    base: Mapping[str, str] | None = None,
    engine: str = "",
    platform: str = "cpu",
) -> dict[str, str]:
    """Return the environment of a child process.

    Parameters
    ----------
    side
        ``devrt``, ``jax`` or ``numpy``.
    devices
        How many CPU devices it shall have; None leaves the library's own default.
    extra_path
        A folder to put first on the child's import path.
    base
        The variables to start from; the caller's own when None.
    engine
        devrt's compiler for the CPU; empty for its own choice.
    platform
        ``"cpu"`` or ``"gpu"``: of the latter, the devices are those that the machine has.

    Notes
    -----
    The caller's ``PYTHONPATH`` goes to the devrt side only (it is how an uninstalled checkout is
    found): a peer must not search it.
    """
    given = os.environ if base is None else base
    made = {name: value for name, value in given.items() if name not in _OWNED}
    inherited = given.get("PYTHONPATH", "") if side == "devrt" else ""
    path = [part for part in (extra_path, inherited) if part]
    if path:
        made["PYTHONPATH"] = os.pathsep.join(path)
    if platform == "gpu":
        made |= _ON_GPUS.get(side, {})
    elif side == "devrt":
        made["DEVRT_PLATFORMS"] = "cpu"
        if engine:
            made["DEVRT_CPU_ENGINE"] = engine
        if devices is not None:
            made["DEVRT_NUM_CPU_DEVICES"] = str(devices)
    elif side == "jax":
        made["JAX_PLATFORMS"] = "cpu"
        if devices is not None:
            made["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    return made

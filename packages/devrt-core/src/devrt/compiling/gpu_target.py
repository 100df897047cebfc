"""What the PJRT libraries of XLA for GPUs take, of any vendor, and what they do not survive."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

from devrt.errors import InvalidArgumentError

__all__ = ["GPU_TARGET_OPTIONS", "check_gpu_target", "renamed_gpu_options"]

GPU_TARGET_OPTIONS: Mapping[str, type] = {"topology": str, "target_config": str}
"""The options of a topology of GPUs, and their types; XLA's plugins take any other in silence."""

_NAMES = {"allowed_devices": "visible_devices", "mock": "enable_mock_nccl"}
"""What the libraries call options of `devrt.xla_client.make_gpu_client`."""

_SHAPE = re.compile(r"([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9})")
_MOST_DEVICES = 1 << 14

_DIVISORS = (
    *("threads_per_block_limit", "threads_per_warp", "core_count", "fpus_per_core"),
    "block_dim_limit_x",
)
"""The compiler divides by these: without them it ends the process."""


def check_gpu_target(options: Mapping[str, Any]) -> None:
    """Refuse options of a topology of GPUs that the compiler does not survive.

    Parameters
    ----------
    options
        ``topology``, the number of partitions, hosts and devices of each host; and
        ``target_config``, the text of a ``GpuTargetConfigProto``.

    Raises
    ------
    InvalidArgumentError
        Saying what is accepted.
    """
    for name in options:
        if name not in GPU_TARGET_OPTIONS:
            known = ", ".join(GPU_TARGET_OPTIONS)
            msg = f"a topology of GPUs has no option {name!r}; it has: {known}."
            raise InvalidArgumentError(msg, option=name)
    if "target_config" not in options:
        msg = "a topology of GPUs needs the option target_config, the text of its configuration."
        raise InvalidArgumentError(msg, option="target_config")
    _check_shape(str(options.get("topology", "")))
    _check_config(str(options["target_config"]))


def _check_shape(shape: str) -> None:
    match = _SHAPE.fullmatch(shape)
    sizes = [int(size) for size in match.groups()] if match else [0]
    if min(sizes) < 1 or prod(sizes) > _MOST_DEVICES:
        msg = (
            f"the topology of GPUs {shape!r} must be PARTITIONSxHOSTSxDEVICES, each at least 1 and "
            f"all together at most {_MOST_DEVICES} devices, such as 1x1x8."
        )
        raise InvalidArgumentError(msg, option="topology")


def _check_config(text: str) -> None:
    for field in _DIVISORS:
        found = re.search(rf"^[^#]*\b{field}\s*:\s*([0-9]+)", text, re.MULTILINE)
        if found is None or not int(found.group(1)):
            msg = (
                f"the target_config of a GPU must have {field} above 0: the compiler ends the "
                "process without it. Give the whole text of a GpuTargetConfigProto."
            )
            raise InvalidArgumentError(msg, option="target_config", field=field)


def renamed_gpu_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `devrt.xla_client.make_gpu_client` under the libraries' names."""
    renamed = {_NAMES.get(name, name): value for name, value in options.items()}
    chosen = renamed.get("visible_devices")
    if isinstance(chosen, set | frozenset):
        renamed["visible_devices"] = sorted(chosen, key=lambda number: (str(type(number)), number))
    return renamed

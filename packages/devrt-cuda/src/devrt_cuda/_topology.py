"""GPU topologies: names that stand for a GPU's figures.

XLA's plugin for GPUs takes two options: ``topology``, the number of partitions, hosts and devices
of each host, and ``target_config``, the text of a ``GpuTargetConfigProto``. Its field names are
those of XLA's ``device_description.proto``; the figures are in ``data/gpus.toml``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.compiling.gpu_target import check_gpu_target
from devrt.errors import InvalidArgumentError

__all__ = ["GPUS", "expand", "target_config"]

_NAME = re.compile(r"([a-z][a-z0-9_]*)(?::([0-9]+(?:x[0-9]+){0,2}))?")
_FORM = "GPU:PARTITIONSxHOSTSxDEVICES, such as h100:1x1x8"
_MIB, _KIB = 1 << 20, 1 << 10

_COMMON = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 48 * _KIB,
    "block_dim_limit_x": (1 << 31) - 1,
    "block_dim_limit_y": 65535,
    "block_dim_limit_z": 65535,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
    "registers_per_core_limit": 65536,
    "registers_per_block_limit": 65536,
    "device_address_bits": 64,
}


@functools.cache
def _tables() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    import tomllib  # only who describes GPUs has a use for these two
    from importlib.resources import files

    document = tomllib.loads(files("devrt_cuda").joinpath("data/gpus.toml").read_text())
    by_name = {name: gpu for gpu in document["gpu"] for name in gpu["names"]}
    return by_name, {row["capability"]: row for row in document["architecture"]}


def __getattr__(name: str) -> Any:
    if name == "GPUS":
        return tuple(_tables()[0])
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


if TYPE_CHECKING:
    GPUS: tuple[str, ...]


def expand(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the plugin takes in place of a name, checked.

    The name is ``h100:1x1x8``, ``h100:8`` or ``h100``; empty where the options say it. The caller's
    options go before what the name stands for.
    """
    made = dict(options)
    if name:
        gpu, shape = _parse(name)
        made.setdefault("topology", shape)
        made.setdefault("target_config", target_config(gpu))
    if "target_config" not in made:
        known = ", ".join(_tables()[0])
        msg = (
            f"a topology of GPUs needs a GPU's name ({_FORM}), or the option target_config with "
            f"the text of its configuration. GPUs with figures: {known}."
        )
        raise InvalidArgumentError(msg, option="target_config")
    check_gpu_target(made)
    return made


def _parse(name: str) -> tuple[str, str]:
    match = _NAME.fullmatch(name)
    if match is None:
        msg = f"the GPU topology {name!r} has no valid name: write {_FORM}."
        raise InvalidArgumentError(msg, topology=name)
    gpu, shape = match.group(1), match.group(2) or "1"
    if gpu not in _tables()[0]:
        msg = (
            f"there are no figures of GPU {gpu!r} in {name!r}; there are: "
            f"{', '.join(_tables()[0])}. For another give the option target_config."
        )
        raise InvalidArgumentError(msg, topology=name)
    sizes = shape.split("x")
    return gpu, "x".join(["1"] * (3 - len(sizes)) + sizes)


def target_config(name: str) -> str:
    """Return the text of the target configuration of one of `GPUS`."""
    by_name, architectures = _tables()
    gpu = by_name[name]
    kind = architectures[gpu["capability"]]
    major, minor = gpu["capability"].split(".")
    features = "ACCELERATED_FEATURES" if kind.get("accelerated") else "NONE"
    figures = {
        **_COMMON,
        "core_count": gpu["cores"],
        "fpus_per_core": kind["lanes"],
        "threads_per_core_limit": kind["threads"],
        "shared_memory_per_core": kind["shared_kib"] * _KIB,
        "shared_memory_per_block_optin": kind["block_kib"] * _KIB,
        "memory_bandwidth": gpu["bandwidth_gb"] * 10**9,
        "l2_cache_size": gpu["l2_mib"] * _MIB,
        "clock_rate_ghz": gpu["clock_ghz"],
        "device_memory_size": gpu["memory_mib"] * _MIB,
    }
    lines = [f"  {field}: {value}" for field, value in figures.items()]
    capability = f"major: {major} minor: {minor} feature_extension: {features}"
    model = f'"{gpu["model"]}"'
    return "\n".join(
        [
            "gpu_device_info {",
            *lines,
            f"  cuda_compute_capability {{ {capability} }}",
            '  device_vendor: "NVIDIA Corporation"',
            f"  name: {model}",
            "}",
            'platform_name: "CUDA"',
            f"device_description_str: {model}",
            "",
        ]
    )

"""What the loader of PJRT libraries must know of the one for TPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.records import PluginTraits

__all__ = ["TPU"]

_LIST = (list, tuple)


def _environment() -> Mapping[str, str]:
    from devrt_tpu import _environment

    return _environment.environment()


def _without_nodes(options: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("node_id", "num_nodes"):
        if name in options:
            from devrt.errors import InvalidArgumentError

            msg = (
                f"option {name!r} cannot be given to the plugin for TPUs, which finds the other "
                "hosts by its own environment (TPU_WORKER_ID, TPU_WORKER_HOSTNAMES). Leave it out."
            )
            raise InvalidArgumentError(msg, option=name)
    return options


def _topology(name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    from devrt_tpu import _topology

    _topology.check(name, options)
    return name, options


TPU = PluginTraits(
    patterns=("tpu", "libtpu*"),
    extensions=(16,),  # topologies of TPUs
    platforms=("tpu",),
    environment=_environment,
    is_exclusive=True,
    client_options={
        "max_inflight_computations": int,
        "ml_framework_name": str,
        "ml_framework_version": str,
    },
    topology_options={
        "chips_per_host_bounds": _LIST,
        "wrap": _LIST,
        "num_slices": int,
        "chip_config_name": str,
    },
    adapt_options=_without_nodes,
    adapt_topology=_topology,
    compiler_variables=("LIBTPU_INIT_ARGS",),
)
"""By its name, its file, or what it offers."""

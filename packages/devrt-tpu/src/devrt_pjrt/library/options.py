"""The types of plugins' options: a value of another type ends the process inside some plugins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError

if TYPE_CHECKING:
    from devrt.records import OptionTypes
    from devrt_pjrt.library.library import Library

__all__ = [
    "CLIENT_OPTIONS",
    "check_client",
]

_LIST = (list, tuple)

CLIENT_OPTIONS: OptionTypes = MappingProxyType(
    {
        "cpu_device_count": int,
        "asynchronous": bool,
        "platform_name": str,
        "allocator": str,
        "memory_fraction": float,
        "preallocate": bool,
        "collective_memory_size": int,
        "visible_devices": _LIST,
        "node_id": int,
        "num_nodes": int,
        "partition_index": int,
        "use_tfrt_gpu_client": bool,
        "should_stage_host_to_device_transfers": bool,
        "abort_collectives_on_failure": bool,
    }
)
"""Of XLA's clients, each a name that means the same with every plugin that has it."""

_HOST_MARK, _HOST_VERSION = b"pjrt_c_api_cpu", (0, 81)
_HOST_OPTION = "cpu_device_count"
_MOST_DEVICES = 1024


def check_client(options: Mapping[str, Any], library: Library) -> None:
    """Refuse options that XLA's plugin for the host ignores or does not come back from.

    Later versions of it check their options themselves.
    """
    if library.version > _HOST_VERSION:
        return
    unknown = [name for name in options if name != _HOST_OPTION]
    count = options.get(_HOST_OPTION, 1)
    # The file is looked into last, as that takes a while.
    if (not unknown and 1 <= count <= _MOST_DEVICES) or not library.contains(_HOST_MARK):
        return
    if unknown:
        msg = (
            f"the PJRT plugin {library.label} of version 0.81 has no option {unknown[0]!r}; it "
            f"has: {_HOST_OPTION}."
        )
        raise InvalidArgumentError(msg, option=unknown[0])
    msg = f"option {_HOST_OPTION!r} must be from 1 to {_MOST_DEVICES}, and is {count}."
    raise InvalidArgumentError(msg, option=_HOST_OPTION)

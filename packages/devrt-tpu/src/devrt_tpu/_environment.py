"""What the library for TPUs reads from the environment when it is initialised."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["WITHOUT_CHIPS", "environment"]

WITHOUT_CHIPS: Mapping[str, str] = MappingProxyType(
    {
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_LOG_DIR": "disabled",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
)
"""Set where there is no chip: the library asks the cloud for metadata otherwise, for minutes, and
lets one process at a time have chips that are not there."""


def environment() -> Mapping[str, str]:
    """Return what the library needs in the environment; nothing where there is a chip."""
    from devrt_tpu._machine import has_chips

    return {} if has_chips() else WITHOUT_CHIPS

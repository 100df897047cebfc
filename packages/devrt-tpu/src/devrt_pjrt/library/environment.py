"""What a plugin's library reads from the environment when it is initialised."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["WITHOUT_CHIPS", "is_tpu", "prepare"]

_log = logging.getLogger("devrt_tpu")

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


def is_tpu(name: str, path: str) -> bool:
    """Return whether a library is the one for TPUs, as its platform or its file is called."""
    return name == "tpu" or os.path.basename(path).startswith("libtpu")


def prepare(name: str, path: str) -> dict[str, str]:
    """Set what a library needs in the environment and return it.

    What the user has set stays. Every variable that is set is told to logger ``devrt_tpu``.
    """
    if not is_tpu(name, path):
        return {}
    from devrt_tpu._machine import has_chips

    if has_chips():
        return {}
    missing = {key: value for key, value in WITHOUT_CHIPS.items() if key not in os.environ}
    for key, value in missing.items():
        _log.info("no TPU chip is here: %s=%s is set for %s", key, value, path)
    os.environ.update(missing)
    return missing

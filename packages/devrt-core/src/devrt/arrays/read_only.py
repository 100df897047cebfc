"""Host values of arrays: read-only for good, because every reader is handed the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt.contract.host_values import is_read_only, read_only
from devrt.contract.results import checked_array
from devrt.errors import DevrtError
from devrt.runtime.plugin_errors import raise_named

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract import Buffer

__all__ = ["host_of"]


def host_of(buffer: Buffer) -> np.ndarray[Any, Any]:
    """Return a buffer's elements as `read_only` does, checked to be of its shape and dtype."""
    try:
        host = buffer.__array__()
    except DevrtError:
        raise  # it names what failed, and a closed client tells no device any more
    except Exception as error:  # noqa: BLE001  plugin code
        raise_named(error, buffer.device.client, "__array__")
    try:
        is_whole = host.shape == buffer.shape and host.dtype == buffer.dtype
        if is_whole and is_read_only(host):
            return host
    except AttributeError:  # no array
        pass
    return read_only(checked_array(buffer, host))

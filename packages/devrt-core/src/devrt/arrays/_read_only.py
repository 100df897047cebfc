"""Host values of arrays: read-only for good, because every reader is handed the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt.runtime._plugin_errors import raise_named, wrong_result

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract import Buffer

__all__ = ["host_of", "read_only"]


def host_of(buffer: Buffer) -> np.ndarray[Any, Any]:
    """Return a buffer's elements as `read_only` does, checked to be of its shape and dtype."""
    try:
        host = buffer.__array__()
    except Exception as error:  # noqa: BLE001  plugin code
        raise_named(error, buffer.device.client, "__array__")
    base: Any = host.base
    if not host.flags.writeable and base is not None and not hasattr(base, "flags"):
        return host
    if host.shape != buffer.shape or host.dtype != buffer.dtype:
        what = f"{host.dtype}{list(host.shape)} for {buffer.dtype}{list(buffer.shape)}"
        raise wrong_result(buffer.device.client, "__array__", what)
    return _protected(host)


def read_only(host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array with the elements of ``host`` that nobody can make writable again.

    Elements that lie densely are not copied.
    """
    # What a native backend returns: a view of its own object. Asked first, as it is on the way of
    # every first reading.
    base: Any = host.base
    if not host.flags.writeable and base is not None and not hasattr(base, "flags"):
        return host
    return _protected(host)


def _protected(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    host: np.ndarray[Any, Any] = np.asarray(given)  # of no subclass
    if not _can_be_written(host):
        return host
    if not host.size:
        empty = np.empty(host.shape, host.dtype)
        empty.flags.writeable = False
        return empty
    if host.flags.f_contiguous and not host.flags.c_contiguous:
        return _protected(host.T).T
    # An array over a read-only buffer; a flag alone can be set back.
    dense = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    data = memoryview(dense).toreadonly()  # type: ignore[arg-type]
    flat: np.ndarray[Any, Any] = np.frombuffer(data, np.uint8).view(host.dtype)
    return flat.reshape(host.shape)


def _can_be_written(host: np.ndarray[Any, Any]) -> bool:
    """Return whether the array or one that it is a view of is writable, or can be made so."""
    import numpy as np

    base: Any = host
    while isinstance(base, np.ndarray):
        if base.flags.writeable or base.base is None:  # an array may unlock memory of its own
            return True
        base = base.base
    return False

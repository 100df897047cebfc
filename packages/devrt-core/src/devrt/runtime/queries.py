"""Questions about platforms, devices, processes and memory, answered by the default runtime."""

from __future__ import annotations

import os

from devrt._support.warn import warn
from devrt.contract import Client, Device
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.runtime.current import default_runtime

__all__ = [
    "backends",
    "backends_are_initialized",
    "canonicalize_platform",
    "clear_backends",
    "default_backend",
    "device_count",
    "devices",
    "expand_platform_alias",
    "get_backend",
    "get_device_backend",
    "heap_profile",
    "host_count",
    "host_id",
    "host_ids",
    "is_gpu",
    "is_known_platform",
    "local_device_count",
    "local_devices",
    "process_count",
    "process_index",
    "process_indices",
]

Backend = str | Client | None


def get_backend(platform: Backend = None) -> Client:
    """Return the client of a platform; see `devrt.runtime.Runtime.get_backend`."""
    return default_runtime().get_backend(platform)


def get_device_backend(device: Device | None = None) -> Client:
    """Return the client of ``device``, or of the default platform."""
    return get_backend() if device is None else device.client


def backends() -> dict[str, Client]:
    """Return the live clients by platform, after making the default one."""
    return default_runtime().backends()


def backends_are_initialized() -> bool:
    """Return whether any client has been made."""
    return bool(default_runtime().live_clients())


def clear_backends() -> None:
    """Close every client, give device memory back, and let the next use start anew."""
    default_runtime().clear_backends()


def default_backend() -> str:
    """Return the platform of the default backend."""
    return get_backend().platform


def devices(backend: Backend = None) -> list[Device]:
    """Return every device of a platform, over all processes, ordered by ``id``.

    Parameters
    ----------
    backend
        A platform (``"cpu"``), an alias, or a client; None for the default platform. Only that
        platform's plugin is touched.

    Raises
    ------
    SelectionError
        If the platform cannot be had; never another platform's devices.
    """
    return get_backend(backend).devices()


def local_devices(
    process_index: int | None = None, backend: Backend = None, host_id: int | None = None
) -> list[Device]:
    """Return the devices attached to one process, this one when ``process_index`` is None.

    Raises
    ------
    InvalidArgumentError
        If the platform has no process of that index.
    """
    if host_id is not None:
        _renamed("the argument host_id of local_devices", "process_index")
        process_index = host_id
    client = get_backend(backend)
    if process_index is None:
        return client.local_devices()
    if not hasattr(process_index, "__index__"):
        msg = f"a process is named by its index, not by {process_index!r}."
        raise InvalidTypeError(msg, process_index=process_index)
    count = process_count(client)
    if not 0 <= process_index < count:
        msg = f"platform {client.platform!r} has no process {process_index}; it has {count}."
        raise InvalidArgumentError(msg, process_index=process_index, process_count=count)
    return [device for device in client.devices() if device.process_index == process_index]


def device_count(backend: Backend = None) -> int:
    """Return the number of devices over all processes."""
    return get_backend(backend).device_count()


def local_device_count(backend: Backend = None) -> int:
    """Return the number of devices that this process addresses."""
    return get_backend(backend).local_device_count()


def process_index(backend: Backend = None) -> int:
    """Return this process's index among those of the platform."""
    return get_backend(backend).process_index()


def process_count(backend: Backend = None) -> int:
    """Return the number of processes that have devices of the platform."""
    return max(device.process_index for device in devices(backend)) + 1


def process_indices(backend: Backend = None) -> list[int]:
    """Return the indices of all processes, ascending."""
    return list(range(process_count(backend)))


def host_id(backend: Backend = None) -> int:
    """Return `process_index` under its deprecated name."""
    _renamed("host_id", "process_index")
    return process_index(backend)


def host_count(backend: Backend = None) -> int:
    """Return `process_count` under its deprecated name."""
    _renamed("host_count", "process_count")
    return process_count(backend)


def host_ids(backend: Backend = None) -> list[int]:
    """Return `process_indices` under its deprecated name."""
    _renamed("host_ids", "process_indices")
    return process_indices(backend)


def is_known_platform(platform: str) -> bool:
    """Return whether some plugin serves ``platform`` or has it as an alias, usable or not."""
    return bool(default_runtime().plugins.refs_for((platform.lower(),)))


def expand_platform_alias(platform: str) -> list[str]:
    """Return the installed platforms that ``platform`` stands for; itself if it is no alias."""
    refs = default_runtime().plugins.refs_for((platform.lower(),))
    return list(dict.fromkeys(ref.platform for ref in refs)) or [platform]


def is_gpu(platform: str) -> bool:
    """Return whether a plugin that serves ``platform`` gives it the alias ``gpu``."""
    plugins = default_runtime().plugins
    refs = [ref for ref in plugins.refs() if ref.platform == platform.lower()]
    return any("gpu" in plugins.aliases(ref) for ref in refs)


def canonicalize_platform(platform: str) -> str:
    """Return the one platform that a name or an alias stands for on this machine.

    Raises
    ------
    SelectionError
        If an alias stands for no platform that can be used here.
    """
    expanded = expand_platform_alias(platform)
    return platform if expanded == [platform] else get_backend(platform).platform


def heap_profile(path: str | os.PathLike[str] | None = None, platform: Backend = None) -> bytes:
    """Return what lives in the memory of a platform, by the call site where it was made.

    Parameters
    ----------
    path
        A file to write the profile to as well; ``devrt heap FILE`` and pprof read it.
    platform
        The platform or client; None for the default one.

    Returns
    -------
    bytes
        A gzipped pprof profile: the values ``objects`` (count) and ``space`` (bytes), with labels
        for the device, the memory kind, and the shape and dtype.

    Raises
    ------
    UnimplementedError
        If the platform's client makes no profiles.
    """
    profile = get_backend(platform).heap_profile()
    if path is not None:
        with open(path, "wb") as file:
            file.write(profile)
    return profile


def _renamed(old: str, new: str) -> None:
    warn(f"{old} is deprecated; use {new}.", DeprecationWarning)

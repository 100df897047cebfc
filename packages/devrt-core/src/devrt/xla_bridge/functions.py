"""JAX's functions of its registry that `devrt.runtime` has under no name."""

from __future__ import annotations

import os
import threading
from typing import Any

from devrt import xla_client
from devrt.contract import Client
from devrt.errors import ConfigError
from devrt.plugins.discovery.pjrt_env import parse_entries, read_config

__all__ = [
    "get_pjrt_plugin_config",
    "get_pjrt_plugin_names_and_library_paths",
    "get_tpu_library_path",
    "make_cpu_client",
    "make_gpu_client",
    "tpu_client_timer_callback",
]


_TAKES_LONG = (
    "making the client takes more than %s seconds. Start the program on every host of the platform."
)


def make_cpu_client() -> Client:
    """Return a client of the host's own devices, with the configured number of them."""
    return xla_client.make_cpu_client()


def make_gpu_client(*, platform_name: str, visible_devices_flag: Any) -> Client:
    """Return a client of GPUs.

    Parameters
    ----------
    platform_name
        The platform.
    visible_devices_flag
        Has in ``value`` the numbers of the devices to use, with commas between them, or ``"all"``.

    Raises
    ------
    SelectionError
        If the platform cannot be had on this machine, with every cause.
    """
    value = str(visible_devices_flag.value)
    allowed = None if value == "all" else {int(number) for number in value.split(",")}
    return xla_client.make_gpu_client(platform_name=platform_name, allowed_devices=allowed)


def tpu_client_timer_callback(timer_secs: float) -> Client:
    """Make a client of the platform in the function's name; log where that takes long.

    Parameters
    ----------
    timer_secs
        Seconds until the record, which logger ``devrt`` gets.
    """
    import logging  # which a start has no time for

    log = logging.getLogger("devrt").warning
    timer = threading.Timer(timer_secs, log, (_TAKES_LONG, timer_secs))
    timer.daemon = True
    timer.start()
    try:
        return xla_client.make_tpu_client(get_tpu_library_path())
    finally:
        timer.cancel()


def get_tpu_library_path() -> str | None:
    """Return the library that the environment names; None for the installed plugin's own."""
    return os.environ.get("TPU_LIBRARY_PATH")


def get_pjrt_plugin_names_and_library_paths(plugins_from_env: str) -> dict[str, str]:
    """Return the libraries that a value of ``PJRT_NAMES_AND_LIBRARY_PATHS`` names.

    Raises
    ------
    ConfigError
        If an entry has another form; the message says which.
    """
    entries, problems = parse_entries(plugins_from_env)
    if problems:
        raise ConfigError(f"{problems[0].sentence()}.", option="PJRT_NAMES_AND_LIBRARY_PATHS")
    return {entry.name: entry.path for entry in entries}


def get_pjrt_plugin_config(json_path: str) -> tuple[str, dict[str, Any]]:
    """Return the library and the client's options that a configuration file names."""
    found = read_config(json_path)
    return found.library, found.options

"""Simulated GPUs: how many are requested, and the library that shows them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from devrt._support.record import record
from devrt.errors import BackendUnavailableError, ConfigError, InvalidArgumentError

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = [
    "MOST_DEVICES",
    "MockTopology",
    "is_simulated",
    "mock_topology",
    "parsed_topology",
    "simulated_devices",
    "simulator_library",
]

_SIMULATOR = "DEVRT_GPU_SIMULATOR"
_MOST_SIMULATED_NODES = 1 << 16
MOST_DEVICES = 1024  # that are simulated in one process


@record(frozen=True, slots=True)
class MockTopology:
    """Simulated devices: how many each of how many nodes of how many partitions has.

    Attributes
    ----------
    partitions, nodes_each, devices_each : int
        The number of partitions, the nodes of each, and the devices of each node.
    """

    partitions: int
    nodes_each: int
    devices_each: int

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.partitions * self.nodes_each

    def partition_of(self, node: int) -> int:
        """Return which partition a node is in."""
        return node // self.nodes_each


def is_simulated(devices: Iterable[Device]) -> bool:
    """Return whether devices of one client are simulated: all of them are, or none."""
    return any("(simulated)" in device.device_kind for device in devices)


def mock_topology(options: Mapping[str, Any], platform: str) -> MockTopology | None:
    """Return which simulated devices are requested; None for real ones."""
    given, configured = options.get("mock_gpu_topology"), options.get(f"{platform}_mock")
    count = options.get("mock_num_gpus")
    is_requested = options.get("mock") or options.get("use_mock_gpu_client")
    if options.get("mock") is False:
        _check_none_given(given)
        return None
    if given is not None and given != "":
        return parsed_topology(str(given), "mock_gpu_topology")
    if configured and not (is_requested and count is not None):
        return _configured_topology(str(configured), f"{platform}_mock")
    if is_requested:
        devices = _in_range(1 if count is None else count, MOST_DEVICES, "mock_num_gpus")
        return MockTopology(1, 1, devices)
    return None


def _check_none_given(topology: Any) -> None:
    if topology:
        msg = (
            f"mock=False and mock_gpu_topology={topology!r} contradict each other. Leave one out: "
            "simulated devices are made where a topology is given."
        )
        raise InvalidArgumentError(msg, option="mock")


def _configured_topology(text: str, option: str) -> MockTopology:
    """Return the same of the configuration's option, whose errors are the user's to correct."""
    try:
        return parsed_topology(text, option)
    except InvalidArgumentError as error:
        msg = f"option {option!r} (DEVRT_{option.upper()}): {error.message}"
        remedy = "Correct the value, or unset it."
        raise ConfigError(msg, option=option, value=text, remedy=remedy) from None


def parsed_topology(text: str, option: str) -> MockTopology:
    """Return the simulated devices that a text gives, as ``"2x4"``; errors name the ``option``.

    Raises
    ------
    InvalidArgumentError
        If it is written in another way, or a number is 0 or too large.
    """
    parts = text.lower().replace(" ", "").split("x")
    is_number = [part.isascii() and part.isdigit() and len(part) < 6 for part in parts]
    if not all(is_number) or len(parts) > 3:
        msg = (
            f"{option} is written 8, 2x8 (nodes, simulated devices of each) or 2x4x8 (slices, "
            f"nodes of each, devices of each), not {text!r}."
        )
        raise InvalidArgumentError(msg, option=option)
    *groups, devices = map(int, parts)
    _in_range(math.prod(groups), _MOST_SIMULATED_NODES, option, "nodes")
    partitions, nodes_each = (*groups, 1, 1)[:2]
    return MockTopology(partitions, nodes_each, _in_range(devices, MOST_DEVICES, option))


def _in_range(number: int, most: int, option: str, what: str = "devices") -> int:
    if not 1 <= number <= most:
        msg = f"{option} must give at least 1 and at most {most} {what}, not {number}."
        raise InvalidArgumentError(msg, option=option)
    return number


def simulated_devices(allowed: str | None, devices: int, source: str) -> str:
    """Return which devices a client of so many has: the machine may simulate more for others.

    ``source`` is the option or variable that chooses them.
    """
    if allowed is None:
        return ",".join(map(str, range(devices)))
    for number in filter(str.isdecimal, allowed.split(",")):
        if int(number) >= devices:
            msg = (
                f"{source} names device {number}, and {devices} are simulated for this client, "
                "numbered from 0."
            )
            raise InvalidArgumentError(msg, option=source)
    return allowed


_configured: dict[str, int] = {}


def simulator_library(path: str, platform: str, devices: int) -> str:
    """Return the path of the simulator's library, which then shows so many devices.

    One process has one simulated machine, as it has one driver: it keeps the most devices that were
    requested before its first client.
    """
    import ctypes  # a native library, which importing a plugin must not load

    if not os.path.isfile(path):
        msg = f"the simulator of {platform} devices is not installed ({path})."
        raise BackendUnavailableError(msg, platform=platform)
    if path not in _configured:
        library = ctypes.CDLL(path)
        configure = library.devrt_simulator_configure
        configure.argtypes, configure.restype = [ctypes.c_char_p], ctypes.c_char_p
        # What tests have it do beside: a seed, delays, faults.
        settings = f"devices={devices} {os.environ.get(_SIMULATOR, '')}"
        problem = configure(settings.encode())
        if problem:
            raise InvalidArgumentError(problem.decode(), option=_SIMULATOR)
        _configured[path] = devices
    if devices > _configured[path]:
        msg = (
            f"{devices} simulated {platform} devices are requested, and this process simulates "
            f"{_configured[path]} already. Make the client with the most devices first."
        )
        raise InvalidArgumentError(msg, option="mock_gpu_topology")
    return path

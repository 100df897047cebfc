"""Options of a client for GPUs: their names and types, and what they say of memory and devices.

Those that come from the configuration are checked there. What a program gives itself is not, and
would otherwise be read as whatever it is true for: ``mock="false"`` as simulated devices.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devrt._support.partitions import MOST_NODES, one_partition
from devrt._support.warn import warn
from devrt.contract import check_known
from devrt.errors import ConfigError, DevrtWarning, InvalidArgumentError, InvalidTypeError
from devrt.native.gpu_simulation import MOST_DEVICES
from devrt.records import OptionSpec

__all__ = ["OF_JAX", "allocation", "checked_options", "chosen_devices", "nodes_of"]

_ALLOCATORS = ("default", "platform", "bfc", "cuda_async")
_MEMORY = ("allocator", "memory_fraction", "preallocate", "collective_memory_size")

_WHOLE, _NUMBER, _TRUTH, _TEXT = "a whole number", "a number", "True or False", "text"
_NUMBERS = {_WHOLE: "__index__", _NUMBER: "__float__"}
_LEAST_FRACTION = 1e-9  # less is not even a byte of a GiB
_MOST = 1 << 62  # as large as any count of bytes

_GIVEN = {
    "allocator": "",  # `allocation` reads it
    "allowed_devices": "",  # `chosen_devices` does
    "collective_memory_size": _WHOLE,
    "distributed_client": "",  # `exchange_for` does
    "get_global_topology_timeout_minutes": _NUMBER,
    "get_local_topology_timeout_minutes": _NUMBER,
    "memory_fraction": _NUMBER,
    "mock": _TRUTH,
    "mock_gpu_topology": "",  # `mock_topology` does
    "node_id": _WHOLE,
    "num_nodes": _WHOLE,
    "partition_index": _WHOLE,
    "platform_name": _TEXT,
    "preallocate": _TRUTH,
    "slice_index": _WHOLE,
}
"""What callers may give beside the configured options; the names are jaxlib's, and None is for
what is not given."""

OF_JAX = (
    OptionSpec(
        name="use_mock_gpu_client",
        type=bool,
        default=False,
        help="JAX's option: simulated devices in place of the machine's, mock_num_gpus of them.",
    ),
    OptionSpec(
        name="mock_num_gpus",
        type=int,
        default=None,  # JAX's is 1, which would come before a platform's own number
        minimum=1,
        maximum=MOST_DEVICES,
        help="JAX's option: how many devices use_mock_gpu_client simulates; 1 unless it is set.",
    ),
)


def checked_options(
    options: Mapping[str, Any], specs: Sequence[OptionSpec], platform: str
) -> dict[str, Any]:
    """Return the options of a client, each of its type.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        If a client of the platform has no such option, or it takes another value.
    """
    known = {spec.name: spec for spec in specs}
    check_known(options, {*_GIVEN, *known}, platform)
    checked = {
        name: _configured(known[name], value) if name in known else _given(name, value)
        for name, value in options.items()
    }
    _check_platform(checked.get("platform_name"), platform)
    return checked


def _check_platform(named: str | None, platform: str) -> None:
    """Refuse another platform than the client's; XLA's clients take capitals and ``gpu`` too."""
    if named is not None and named.lower() not in (platform, "gpu"):
        msg = (
            f"platform_name is {named!r}, and this is a client of {platform!r}. Leave it out, or "
            "make a client of the platform that is meant."
        )
        raise InvalidArgumentError(msg, option="platform_name")


def _configured(spec: OptionSpec, value: Any) -> Any:
    from devrt._config.values import checked  # not at the top: importing a plugin has no use for it

    if value is None:
        return spec.default
    try:
        return checked(spec, value, "make_client")
    except ConfigError as error:  # given by the program, which can correct it
        raise InvalidArgumentError(error.message, option=spec.name) from None


def _given(name: str, value: Any) -> Any:
    form = _GIVEN[name]
    if value is None or not form:
        return value
    if form == _TRUTH and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if form == _TEXT and isinstance(value, str):
        return value
    is_number = hasattr(value, _NUMBERS.get(form, "")) and getattr(value, "ndim", 0) == 0
    if is_number and not isinstance(value, bool):
        if not -_MOST <= value <= _MOST:  # nor NaN
            raise InvalidArgumentError(f"{name} is out of range: {value!r}.", option=name)
        return operator.index(value) if form == _WHOLE else float(value)
    msg = f"the option {name!r} takes {form}, not {value!r} of type {type(value).__name__}."
    raise InvalidTypeError(msg, option=name)


def allocation(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the driver's options of memory: those given, else those of the environment."""
    from devrt._config.gpu_options import (
        GpuAllocatorConfig,
        fraction_variable,
        generate_pjrt_gpu_plugin_options,
    )

    from_environment: dict[str, Any] = dict(generate_pjrt_gpu_plugin_options())
    given = {name: options[name] for name in _MEMORY if options.get(name) is not None}
    allocator = given.get("allocator", from_environment["allocator"])
    of_config: dict[str, Any] = {}
    if isinstance(allocator, GpuAllocatorConfig):
        # Its defaults are jaxlib's, which takes three quarters at once: only what is given counts.
        of_config = {n: value for n, value in allocator.given().items() if n in _MEMORY}
        _check_agreement(of_config, options)
        given |= of_config
        allocator = allocator.kind.name
    chosen = {name: from_environment[name] for name in _MEMORY if name in from_environment} | given
    chosen["allocator"] = str(getattr(allocator, "name", allocator)).lower()
    if chosen["allocator"] not in _ALLOCATORS:
        listed = ", ".join(_ALLOCATORS)
        where = "" if options.get("allocator") is not None else " of XLA_PYTHON_CLIENT_ALLOCATOR"
        msg = f"the allocator {allocator!r}{where} is none of this client's: {listed}."
        raise InvalidArgumentError(msg, option="allocator")
    if chosen["allocator"] == "platform" and chosen.get("preallocate"):
        _no_preallocation(options, of_config)
    if "memory_fraction" in chosen:
        variable = "" if "memory_fraction" in given else fraction_variable()
        chosen["memory_fraction"] = _checked_fraction(chosen["memory_fraction"], variable)
    _check_size(chosen.get("collective_memory_size", 0))
    return chosen


def _no_preallocation(options: Mapping[str, Any], of_config: Mapping[str, Any]) -> None:
    """Refuse a call that would preallocate what no allocator keeps.

    JAX takes its two variables together, and one of them may be exported for a program that gives
    the other as an option: there a warning is enough.
    """
    is_of_call = options.get("allocator") is not None
    if is_of_call and of_config.get("preallocate", options.get("preallocate")):
        msg = (
            "allocator='platform' takes each block from the driver and keeps none, so there is "
            "nothing that preallocate=True could take in advance. Give one of them."
        )
        raise InvalidArgumentError(msg, option="preallocate")
    msg = (
        "preallocate (or XLA_PYTHON_CLIENT_PREALLOCATE) does nothing with the allocator 'platform' "
        "(or XLA_PYTHON_CLIENT_ALLOCATOR), which takes each block from the driver and keeps none."
    )
    warn(msg, DevrtWarning)


def _check_agreement(of_config: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse an option that a `GpuAllocatorConfig` beside it has with another value."""
    for name, value in of_config.items():
        if options.get(name) not in (None, value):
            msg = (
                f"the option {name}={options[name]!r} and {name}={value!r} of the "
                "GpuAllocatorConfig contradict each other. Give one of them."
            )
            raise InvalidArgumentError(msg, option=name)


def _checked_fraction(fraction: Any, variable: str) -> float:
    # XLA takes more than 1 for unified memory, which this client has as a kind of its own.
    if not _LEAST_FRACTION <= fraction <= 1:
        source = variable or "memory_fraction"
        written = os.environ[variable] if variable else fraction
        msg = (
            f"{source} must be at least {_LEAST_FRACTION} and at most 1, the whole memory of a "
            f"device, not {written!r}. Arrays in memory of the kind 'managed' may be larger."
        )
        raise InvalidArgumentError(msg, option=source)
    return float(fraction)


def _check_size(collective_memory_size: int) -> None:
    if collective_memory_size < 0:
        msg = f"collective_memory_size must not be negative: {collective_memory_size}."
        raise InvalidArgumentError(msg, option="collective_memory_size")


def chosen_devices(
    options: Mapping[str, Any], platform: str, variable: str
) -> tuple[str | None, str]:
    """Return the driver's numbers of the devices to use, with commas, and what gives them.

    None are for all. Those that the program gives come before the configured ones, and these before
    JAX's variable.
    """
    given = options.get("allowed_devices")
    if given is not None:
        return _joined(given), "allowed_devices"
    option = f"{platform}_visible_devices"
    if text := options.get(option):
        return _numbers(text, option), option
    text = os.environ.get(variable)
    return (_numbers(text, variable) if text else None), variable


def _numbers(text: str, source: str) -> str | None:
    """Return the numbers of a text, which may have blanks between them."""
    if text.strip() == "all":
        return None
    numbers = [part.strip() for part in text.split(",")]
    if not any(numbers):
        return ","
    if all(part.isascii() and part.isdigit() and len(part) < 10 for part in numbers):
        return ",".join(numbers)
    msg = f"{source} must be numbers from 0 on with commas between them, or 'all', not {text!r}."
    raise InvalidArgumentError(msg, option=source)


def _joined(numbers: Any) -> str:
    if isinstance(numbers, str | bytes) or not isinstance(numbers, Iterable):
        numbers = [numbers]
    listed = list(numbers)
    if not all(hasattr(number, "__index__") and type(number) is not bool for number in listed):
        msg = f"allowed_devices must be a set of whole numbers, not {numbers!r}."
        raise InvalidTypeError(msg, option="allowed_devices")
    return ",".join(str(number) for number in sorted(map(operator.index, listed))) or ","


def nodes_of(options: Mapping[str, Any], simulated: int = 1) -> tuple[int, int]:
    """Return which of how many processes this is; ``simulated`` are as many as are left out."""
    number, count = options.get("node_id"), options.get("num_nodes")
    if simulated > 1 and count not in (None, simulated):
        msg = (
            f"num_nodes is {count}, and the simulated devices are of {simulated} nodes. Leave "
            "num_nodes out, or simulate the devices of one node, which every process then has."
        )
        raise InvalidArgumentError(msg, option="num_nodes")
    found = (0 if number is None else number, simulated if count is None else count)
    if not all(-MOST_NODES <= each <= MOST_NODES for each in found):
        msg = f"node_id and num_nodes are out of range: {found[0]} of {found[1]}."
        raise InvalidArgumentError(msg, option="num_nodes")
    if found[1] > 0 and not 0 <= found[0] < found[1]:
        msg = f"node_id must be at least 0 and below num_nodes, {found[1]}, not {found[0]}."
        raise InvalidArgumentError(msg, option="node_id")
    return found


def partition_of(options: Mapping[str, Any], simulated: int | None = None) -> int | None:
    """Return which partition the process's devices are in; None where nothing says so.

    ``simulated`` is the one that its simulated devices are in.
    """
    names = ("partition_index", "slice_index")
    given = {name: options.get(name) for name in names}
    return one_partition(given | {"mock_gpu_topology": simulated}, "option")

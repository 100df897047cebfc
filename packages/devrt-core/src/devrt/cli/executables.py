"""Programs' files made into executables on devices, and the arrays that these take and give."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.cli.files import FileProgram, naming
from devrt.cli.tables import waiting
from devrt.compiling import Program
from devrt.errors import ConfigError, DevrtError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract import LoadedExecutable
    from devrt.contract.op_sharding import OpSharding

__all__ = ["compiled", "described_array", "device_count", "gathered", "loaded", "put", "whole"]

Arrays = Sequence["np.ndarray[Any, Any]"]


def compiled(
    path: str,
    code: FileProgram,
    platform: str | None,
    count: int | None,
    options: Mapping[str, Any] | None = None,
) -> LoadedExecutable:
    """Compile a program for the devices of this machine.

    Parameters
    ----------
    path
        The program's file, which errors name.
    code
        The program.
    platform
        Whose devices; None for the default's.
    count
        How many of them; None for as many as the program needs.
    options
        Compile options.

    Raises
    ------
    InvalidArgumentError
        If it was exported for other platforms, or cannot be compiled.
    """
    client = _client(platform, count)
    code.check_platform(getattr(client, "plugin_platform", client.platform))
    chosen = None if count is None else client.local_devices()[:count]
    with naming(path), waiting(f"compiling {path} for {client.platform}"):
        executable: LoadedExecutable = client.compile_and_load(code, chosen, **(options or {}))
    return executable


def loaded(path: str, code: bytes, platform: str | None, count: int | None) -> LoadedExecutable:
    """Load what ``devrt compile`` wrote; the parameters are those of `compiled`.

    Raises
    ------
    InvalidArgumentError
        If it is nothing of that kind, or was made for other devices.
    """
    client = _client(platform, count)
    try:
        executable: LoadedExecutable = client.deserialize_executable(code)
    except DevrtError as error:
        msg = (
            f"{path!r} is no program, neither StableHLO's text nor its bytecode, and no executable "
            f"that runs on {client.platform}: {error.message} `devrt compile` writes executables; "
            "--platform names the platform that one is for, --devices how many it needs."
        )
        raise type(error)(msg, code=error.code, **error.data) from error
    return executable


def _client(platform: str | None, count: int | None) -> Any:
    import devrt

    if count is not None:
        _want(count)
    return devrt.devices(platform)[0].client


def _want(count: int) -> None:
    """Ask for so many devices where a platform makes as many as it is requested."""
    import devrt

    # Where the option is not there, its platform is not in use; a client that is has what it has.
    with contextlib.suppress(ConfigError):
        if devrt.config.read("num_cpu_devices") != count:
            devrt.config.update("num_cpu_devices", count)


def device_count(path: str, code: Program, devices: int | None) -> int | None:
    """Return the number of devices: as the program says, else as was requested."""
    facts = code.facts
    declared = (facts.num_replicas or 1) * (facts.num_partitions or 1)
    if declared == 1:
        return devices
    if devices not in (None, declared):
        msg = f"{path} is for {declared} devices, not {devices}: leave --devices away."
        raise InvalidArgumentError(msg, operation="compile", devices=devices)
    return declared


def put(path: str, executable: LoadedExecutable, given: Arrays) -> list[list[Any]]:
    """Return buffers of whole arrays, for each parameter one on each device; errors name a path."""
    import numpy as np

    shardings = executable.get_parameter_shardings()
    devices = executable.local_devices()
    rows = []
    wanted = whole(executable.parameters, shardings)
    for i, ((shape, dtype), array) in enumerate(zip(wanted, given, strict=True)):
        value = _in_dtype(array, dtype)
        if (value.shape, value.dtype) != (shape, dtype):
            own, right = described_array(value.shape, value.dtype), described_array(shape, dtype)
            msg = f"argument in{i} of {path} is {own} and must be {right}."
            raise InvalidArgumentError(msg, operation="run", shape=value.shape)
        parts = [_part(value.shape, shardings, i, d) for d in range(len(devices))]
        rows.append(
            [
                executable.client.buffer_from_pyval(np.array(value[part], order="C"), device)
                for part, device in zip(parts, devices, strict=True)
            ]
        )
    return rows


def gathered(executable: LoadedExecutable, results: Sequence[Sequence[Any]]) -> Arrays:
    """Return whole arrays of a call's results."""
    import numpy as np

    shardings = executable.get_output_shardings()
    made = []
    for i, shards in enumerate(results):
        first = np.asarray(shards[0])
        if not shardings or not shardings[i].partitions:
            made.append(first)
            continue
        shape = shardings[i].global_shape(first.shape)
        array = np.empty(shape, first.dtype)
        for d, shard in enumerate(shards):
            array[_part(shape, shardings, i, d)] = np.asarray(shard)
        made.append(array)
    return made


def whole(specs: Any, shardings: Sequence[OpSharding]) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and dtype of whole arrays, from those of one device's shards."""
    if not shardings:
        return [(tuple(shape), dtype) for shape, dtype in specs]
    pairs = zip(specs, shardings, strict=True)
    return [(sharding.global_shape(shape), dtype) for (shape, dtype), sharding in pairs]


def described_array(shape: Sequence[int], dtype: np.dtype[Any]) -> str:
    """Return an array's dtype and shape in words."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def _in_dtype(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return stored raw bits of a type that NumPy does not know; anything else stays as it is."""
    is_raw = dtype.isbuiltin != 1 and array.dtype.kind in "uV"
    return array.view(dtype) if is_raw and array.dtype.itemsize == dtype.itemsize else array


def _part(
    shape: tuple[int, ...], shardings: Sequence[OpSharding], index: int, partition: int
) -> tuple[Any, ...]:
    """Return the index of a partition's shard in the whole array."""
    if not shardings:
        return (...,)
    try:
        return shardings[index].index_of(shape, partition)
    except InvalidArgumentError as error:
        msg = f"argument {index}: {error.message}"
        raise InvalidArgumentError(msg, operation="run", shape=shape) from error

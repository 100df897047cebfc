"""What ``devrt run`` and ``devrt inspect`` do: compile an exported program; call or describe it."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

from devrt.cli import report
from devrt.cli.files import naming, read_arguments, read_program, writing
from devrt.errors import (
    ConfigError,
    DevrtError,
    DevrtWarning,
    InvalidArgumentError,
    UnimplementedError,
)

if TYPE_CHECKING:
    import numpy as np

    from devrt.compiling import Program
    from devrt.contract import LoadedExecutable
    from devrt.contract.op_sharding import OpSharding

__all__ = ["inspect", "run"]


def run(program: str, inputs: str | None, outputs: str | None, devices: int | None) -> list[str]:
    """Run a program on arrays of an ``.npz`` file; returns one line for each output.

    Parameters
    ----------
    program
        StableHLO, text or bytecode.
    inputs
        The arguments: ``in0``, ``in1``, ..., or in the order of the file.
    outputs
        Where ``out0``, ``out1``, ... are written; None writes nothing. Types that NumPy does not
        know are stored as their raw bits.
    devices
        How many devices it runs on where the program does not say; None for one.
    """
    import numpy as np

    given = read_arguments(inputs)
    with contextlib.ExitStack() as stack:
        file = None if outputs is None else stack.enter_context(writing(outputs))
        code = read_program(program)
        executable = _compile(program, code, None, _count(program, code, devices))
        made = _called(executable, program, given, inputs)
        if file is not None:
            stored = {f"out{i}": _storable(array) for i, array in enumerate(made)}
            np.savez(file, **stored)  # type: ignore[arg-type]
    return [f"out{i} {_describe(array.shape, array.dtype)}" for i, array in enumerate(made)]


def _called(
    executable: LoadedExecutable, program: str, given: list[Any], inputs: str | None
) -> list[np.ndarray[Any, Any]]:
    if len(given) != len(executable.parameters):
        source = "there is no --inputs" if inputs is None else f"{inputs} has {len(given)}"
        msg = f"{program} takes {len(executable.parameters)} arguments, and {source}."
        raise InvalidArgumentError(msg, operation="run")
    return _gather(executable, executable.execute_sharded(_put(executable, given)))


def inspect(program: str, devices: int | None) -> dict[str, Any]:
    """Return what a program takes and gives, how it is divided, and who can take it.

    Keys: ``ops`` (the operations it is written in), ``backends`` (every installed one: platform,
    distribution, version, whether it takes the program, and the reason where it does not), and as
    the first that takes it compiled it: ``program``, ``platform``, ``devices``, ``parameters``,
    ``outputs``, ``donated``, ``communicates``, ``custom_calls``, ``flops``. Those are missing where
    none does.
    """
    code = read_program(program)
    count = _count(program, code, devices)
    executable = None
    queried: set[str] = set()
    rows = []
    for backend in report.backends()["backends"]:
        row = {name: backend[name] for name in ("platform", "distribution", "version")}
        reason = _excluded(backend, queried)
        if not reason:
            queried.add(backend["platform"])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DevrtWarning)  # as of an experimental platform
                    made = _compile(program, code, backend["platform"], count)
                executable = executable or made
            except DevrtError as error:
                reason = error.message
        rows.append(row | {"takes": not reason, "reason": reason or "it compiles"})
    described = {} if executable is None else _described(executable)
    return described | {"ops": sorted(code.facts.operations), "backends": rows}


def _excluded(backend: dict[str, Any], queried: set[str]) -> str:
    """Return why a backend cannot be queried; empty where it can."""
    if backend["state"] not in ("chosen", "eligible"):
        return str(backend["reason"] or backend["state"])
    if backend["platform"] in queried:
        return "another backend of its platform comes before it"
    return ""


def _described(executable: Any) -> dict[str, Any]:
    parameters = executable.get_parameter_shardings()
    results = executable.get_output_shardings()
    return {
        "program": executable.name,
        "platform": executable.client.platform,
        "devices": len(executable.local_devices()),
        "parameters": _lines(executable.parameters, parameters),
        "outputs": _lines(executable.outputs, results),
        "donated": list(executable.donated_parameters),
        "communicates": executable.is_collective,
        "custom_calls": list(executable.custom_calls),
        "flops": _flops(executable),
    }


def _flops(executable: LoadedExecutable) -> float | None:
    try:
        return executable.cost_analysis().get("flops")
    except UnimplementedError:  # no backend has to know
        return None


def _compile(
    program: str, code: bytes, platform: str | None, count: int | None
) -> LoadedExecutable:
    import devrt

    if count is not None:
        _want(count)
    client = devrt.devices(platform)[0].client
    chosen = None if count is None else client.local_devices()[:count]
    with naming(program):
        return client.compile_and_load(code, chosen)


def _want(count: int) -> None:
    """Ask for so many devices where a platform makes as many as it is requested."""
    import devrt

    # Where the option is not there, its platform is not in use; a client that is has what it has.
    with contextlib.suppress(ConfigError):
        if devrt.config.read("num_cpu_devices") != count:
            devrt.config.update("num_cpu_devices", count)


def _count(program: str, code: Program, devices: int | None) -> int | None:
    """Return the number of devices: as the program says, else as was requested."""
    facts = code.facts
    declared = (facts.num_replicas or 1) * (facts.num_partitions or 1)
    if declared == 1:
        return devices
    if devices not in (None, declared):
        msg = f"{program} is for {declared} devices, not {devices}: leave --devices away."
        raise InvalidArgumentError(msg, operation="compile", devices=devices)
    return declared


def _put(executable: LoadedExecutable, given: list[np.ndarray[Any, Any]]) -> list[list[Any]]:
    import numpy as np

    shardings = executable.get_parameter_shardings()
    devices = executable.local_devices()
    rows = []
    for i, ((_, dtype), array) in enumerate(zip(executable.parameters, given, strict=True)):
        value = _in_dtype(array, dtype)
        parts = [_part(value.shape, shardings, i, d) for d in range(len(devices))]
        rows.append(
            [
                executable.client.buffer_from_pyval(np.array(value[part], order="C"), device)
                for part, device in zip(parts, devices, strict=True)
            ]
        )
    return rows


def _in_dtype(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return stored raw bits of a type that NumPy does not know; anything else stays as it is."""
    is_raw = dtype.isbuiltin != 1 and array.dtype.kind in "uV"
    return array.view(dtype) if is_raw and array.dtype.itemsize == dtype.itemsize else array


def _storable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _part(
    shape: tuple[int, ...], shardings: list[OpSharding], index: int, partition: int
) -> tuple[Any, ...]:
    """Return the index of a partition's shard in the whole array."""
    if not shardings:
        return (...,)
    try:
        return shardings[index].index_of(shape, partition)
    except InvalidArgumentError as error:
        msg = f"argument {index}: {error.message}"
        raise InvalidArgumentError(msg, operation="run", shape=shape) from error


def _gather(executable: LoadedExecutable, results: list[list[Any]]) -> list[np.ndarray[Any, Any]]:
    import numpy as np

    shardings = executable.get_output_shardings()
    made = []
    for i, shards in enumerate(results):
        first = np.asarray(shards[0])
        if not shardings or not shardings[i].partitions:
            made.append(first)
            continue
        shape = shardings[i].global_shape(first.shape)
        whole = np.empty(shape, first.dtype)
        for d, shard in enumerate(shards):
            whole[_part(shape, shardings, i, d)] = np.asarray(shard)
        made.append(whole)
    return made


def _describe(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def _lines(specs: Any, shardings: list[OpSharding]) -> list[str]:
    """Return the whole arrays, as ``run`` takes and gives them, and how each is divided."""
    lines = []
    for i, (shape, dtype) in enumerate(specs):
        whole = shardings[i].global_shape(shape) if shardings else tuple(shape)
        counts = [size // n if n else 1 for size, n in zip(whole, shape, strict=True)]
        divided = f" in {'x'.join(map(str, counts))} parts" if whole != tuple(shape) else ""
        lines.append(_describe(whole, dtype) + divided)
    return lines

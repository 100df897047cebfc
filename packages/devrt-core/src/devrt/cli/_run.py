"""What ``devrt run`` and ``devrt inspect`` do: compile an exported program; call or describe it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

    from devrt._op_sharding import OpSharding
    from devrt.contract import LoadedExecutable

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
        How many devices it runs on; None as the program says.
    """
    import numpy as np

    executable = _compile(program, devices)
    given = _read(inputs)
    if len(given) != len(executable.parameters):
        msg = (
            f"{program} takes {len(executable.parameters)} arguments, and "
            f"{inputs or 'no file of inputs'} has {len(given)}."
        )
        raise InvalidArgumentError(msg, operation="run")
    results = executable.execute_sharded(_put(executable, given))
    made = _gather(executable, results)
    if outputs is not None:
        stored = {f"out{i}": _storable(array) for i, array in enumerate(made)}
        np.savez(outputs, **stored)  # type: ignore[arg-type]
    return [f"out{i} {_describe(array.shape, array.dtype)}" for i, array in enumerate(made)]


def inspect(program: str, devices: int | None) -> dict[str, Any]:
    """Return what a compiled program takes and gives, and how it is divided."""
    executable: Any = _compile(program, devices)
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
        "flops": executable.cost_analysis().get("flops"),
    }


def _compile(program: str, devices: int | None) -> LoadedExecutable:
    import devrt

    if devices is not None:
        devrt.config.update("num_cpu_devices", devices)
    client = devrt.devices()[0].client
    chosen = None if devices is None else client.local_devices()[:devices]
    return client.compile_and_load(Path(program).read_bytes(), chosen)


def _read(path: str | None) -> list[np.ndarray[Any, Any]]:
    import numpy as np

    if path is None:
        return []
    with np.load(path) as stored:
        names = [name for name in stored.files if re.fullmatch(r"in\d+", name)]
        ordered = sorted(names, key=lambda name: int(name[2:])) or stored.files
        return [stored[name] for name in ordered]


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
    """Return stored raw bits in their own dtype; anything else stays as it is."""
    is_raw = array.dtype != dtype and array.dtype.kind in "uV"
    return array.view(dtype) if is_raw and array.dtype.itemsize == dtype.itemsize else array


def _storable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _part(
    shape: tuple[int, ...], shardings: list[OpSharding], index: int, partition: int
) -> tuple[Any, ...]:
    """Return the place of a partition's shard in the whole array."""
    if not shardings or not shardings[index].partitions:
        return (...,)
    counts = shardings[index].partitions
    for size, count in zip(shape, counts, strict=True):
        if size % count:
            msg = f"argument {index} of shape {shape} does not divide into {counts} equal parts."
            raise InvalidArgumentError(msg, operation="run", shape=shape)
    tile = shardings[index].tile_of(partition)
    return tuple(
        slice(place * (size // count), (place + 1) * (size // count))
        for size, count, place in zip(shape, counts, tile, strict=True)
    )


def _gather(executable: LoadedExecutable, results: list[list[Any]]) -> list[np.ndarray[Any, Any]]:
    import numpy as np

    shardings = executable.get_output_shardings()
    made = []
    for i, shards in enumerate(results):
        first = np.asarray(shards[0])
        if not shardings or not shardings[i].partitions:
            made.append(first)
            continue
        counts = shardings[i].partitions
        shape = tuple(n * count for n, count in zip(first.shape, counts, strict=True))
        whole = np.empty(shape, first.dtype)
        for d, shard in enumerate(shards):
            whole[_part(shape, shardings, i, d)] = np.asarray(shard)
        made.append(whole)
    return made


def _describe(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def _lines(specs: Any, shardings: list[OpSharding]) -> list[str]:
    lines = []
    for i, (shape, dtype) in enumerate(specs):
        counts = shardings[i].partitions if shardings else ()
        divided = f" of {'x'.join(map(str, counts))} parts" if any(n > 1 for n in counts) else ""
        lines.append(_describe(shape, dtype) + divided)
    return lines

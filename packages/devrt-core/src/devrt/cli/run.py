"""What ``devrt run`` does: compile or load a program, call it on arrays, and show what it gives."""

from __future__ import annotations

import contextlib
import re
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from devrt.cli import executables
from devrt.cli.files import is_program, read_arguments, read_code, writing
from devrt.cli.tables import Output
from devrt.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract import LoadedExecutable
    from devrt.sharding import Drawn

__all__ = ["drawn", "made_up", "run", "show"]

_SHOWN = 60  # elements of a result, beyond which its middle is left out


def run(
    program: str,
    inputs: str | None = None,
    outputs: str | None = None,
    *,
    platform: str | None = None,
    devices: int | None = None,
    repeat: int = 1,
    seed: int | None = None,
) -> dict[str, Any]:
    """Run a program on arrays of an ``.npz`` file; returns one line for each output.

    ``program`` is StableHLO, text or bytecode. ``inputs`` has ``in0``, ``in1``, ..., or else takes
    them in the order of the file. ``out0``, ``out1``, ... are written to ``outputs``, if not None,
    types that NumPy does not know as their raw bits. ``devices`` is how many it runs on where the
    program does not say; None for one.
    """
    import numpy as np

    given = read_arguments(inputs)
    with contextlib.ExitStack() as stack:
        file = None if outputs is None else stack.enter_context(writing(outputs))
        began = time.perf_counter()
        executable = _executable(program, platform, devices)
        load_seconds = time.perf_counter() - began
        if seed is not None:
            given = _random_arguments(executable, seed)
        _check_count(executable, program, given, inputs)
        made, run_seconds = _called(program, executable, given, repeat)
        if file is not None:
            stored = {f"out{i}": _storable(array) for i, array in enumerate(made)}
            np.savez(file, **stored)  # type: ignore[arg-type]
    where = [str(device) for device in executable.local_devices()]
    times = {"load_seconds": load_seconds, "run_seconds": run_seconds}
    return {"outputs": made, "devices": where, "shards": drawn(executable), **times}


def drawn(executable: LoadedExecutable) -> list[Drawn]:
    """Return how each argument and each result of an executable lies, to draw it."""
    from devrt.sharding import Drawn, GSPMDSharding, SingleDeviceSharding

    devices = executable.local_devices()
    sides = {
        "in": (executable.parameters, executable.get_parameter_shardings()),
        "out": (executable.outputs, executable.get_output_shardings()),
    }
    return [
        Drawn(
            f"{side}{i}",
            str(dtype),
            shape,
            GSPMDSharding(devices, shardings[i])
            if shardings and len(devices) > 1
            else SingleDeviceSharding(devices[0]),
        )
        for side, (specs, shardings) in sides.items()
        for i, (shape, dtype) in enumerate(executables.whole(specs, shardings))
    ]


def show(
    report: Mapping[str, Any], *, values: bool = True, times: bool = True, shards: bool = False
) -> None:
    """Print a line for each output, the outputs themselves, and how long it took.

    With ``shards``, first a drawing of where each shard of the arguments and results lies.
    """
    import numpy as np

    from devrt.sharding import shards_text

    out = Output()
    for line in shards_text(report["shards"]).splitlines() if shards else ():
        out.line(line)
    for number, array in enumerate(report["outputs"]):
        out.line(f"out{number} {executables.described_array(array.shape, array.dtype)}")
        if values:
            out.line(np.array2string(array, threshold=_SHOWN, max_line_width=76))
    for line in _times(report) if times else ():
        out.line(line)


def _times(report: Mapping[str, Any]) -> Iterator[str]:
    seconds, devices = report["run_seconds"], report["devices"]
    where = devices[0]
    if len(devices) > 1:
        where = f"{len(devices)} devices, {devices[0]} to {devices[-1]}"
    yield f"ready in {_seconds(report['load_seconds'])}, ran in {_seconds(seconds[0])} on {where}"
    if later := seconds[1:]:
        median, fastest = _seconds(statistics.median(later)), _seconds(min(later))
        yield f"then {len(later)} times: median {median}, fastest {fastest}"


def _seconds(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _executable(path: str, platform: str | None, devices: int | None) -> LoadedExecutable:
    code = read_code(path)
    if not is_program(code):
        return executables.loaded(path, code, platform, devices)
    count = executables.device_count(path, code, devices)
    return executables.compiled(path, code, platform, count)


def _check_count(
    executable: LoadedExecutable, program: str, given: list[Any], inputs: str | None
) -> None:
    wanted = len(executable.parameters)
    if len(given) != wanted:
        source = f"{inputs} has {len(given)}"
        if inputs is None:
            source = "there is no --inputs; --random makes some up"
        msg = f"{program} takes {wanted} arguments, and {source}."
        raise InvalidArgumentError(msg, operation="run")


def _called(
    program: str, executable: LoadedExecutable, given: list[Any], repeat: int
) -> tuple[executables.Arrays, list[float]]:
    """Return the last results, and how long each run took; arguments are put before it."""
    seconds, donated = [], list(executable.donated_parameters)
    arguments = executables.put(program, executable, given)
    for number in range(repeat):
        if number and donated:
            arguments = executables.put(program, executable, given)
        for shard in (shard for shards in arguments for shard in shards):
            shard.block_until_ready()
        began = time.perf_counter()
        results = executable.execute_sharded(arguments)
        for shard in (shard for shards in results for shard in shards):
            shard.block_until_ready()
        seconds.append(time.perf_counter() - began)
    return executables.gathered(executable, results), seconds


def _random_arguments(executable: LoadedExecutable, seed: int) -> list[Any]:
    import numpy as np

    generator = np.random.default_rng(seed)
    specs = executables.whole(executable.parameters, executable.get_parameter_shardings())
    return [made_up(shape, dtype, generator) for shape, dtype in specs]


def made_up(
    shape: tuple[int, ...], dtype: np.dtype[Any], generator: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return random elements: floats in [0, 1), whole numbers from 0 to 9 where they fit."""
    integer = re.fullmatch(r"(u?)int(\d+)", dtype.name)
    if integer:
        bits = int(integer[2]) - (not integer[1])
        return generator.integers(0, min(10, 2**bits), shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    made = generator.random(shape)
    return (made + 1j * generator.random(shape) if dtype.kind == "c" else made).astype(dtype)


def _storable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")

"""A program's first result in a fresh process: compiled there, and taken from the cache on disk."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.case import Factory, Spec, Timed, repeated
from bench.subjects.call import exported_programs, shapes_of, values_of

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

_OWN = """module @mlp { func.func public @main(%arg0: tensor<64x128xf32>,
    %arg1: tensor<128x256xf32>, %arg2: tensor<256x10xf32>) -> tensor<64x10xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<64x256xf32>
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
    : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32>
  %1 = stablehlo.maximum %0, %zero : tensor<64x256xf32>
  %2 = stablehlo.dot_general %1, %arg2, contracting_dims = [1] x [0]
    : (tensor<64x256xf32>, tensor<256x10xf32>) -> tensor<64x10xf32>
  return %2 : tensor<64x10xf32> } }"""

_JAX = """
import sys
import jax, numpy as np
from jaxlib import _jax, xla_client
program, inputs, outputs = sys.argv[1:]
device = jax.devices()[0]
with open(program) as file:
    executable = device.client.compile_and_load(
        file.read(), _jax.DeviceList((device,)), xla_client.CompileOptions())
with np.load(inputs) as stored:
    arguments = [jax.device_put(value) for value in stored.values()]
results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
np.savez(outputs, *[np.asarray(shards[0]) for shards in results])
"""


def _first(name: str) -> str:
    return f"{name}: a fresh process, from the program to its written outputs"


def _second(name: str) -> str:
    return f"{name}: the same again, from the cache on disk; the peer compiles"


_NAMES = ["a perceptron", *(path.stem for path in exported_programs())]
SPECS = [Spec(case(name)) for name in _NAMES for case in (_first, _second)]


class _Files:
    """A program, its inputs, and where its outputs and the cache go."""

    def __init__(self, program: Path | None) -> None:
        self._folder = TemporaryDirectory(prefix="devrt-bench-")
        atexit.register(self._folder.cleanup)
        place = Path(self._folder.name)
        self.program = program or place / "program.mlir"
        if program is None:
            self.program.write_text(_OWN)
        self.inputs, self.outputs, self.cache = place / "in.npz", place / "out.npz", place / "kept"
        np.savez(self.inputs, *[values_of(*spec) for spec in shapes_of(self.program)])


def _timed(command: list[str], files: _Files, **variables: str) -> Timed:
    environment = os.environ | variables

    def call(_: object) -> None:
        files.outputs.unlink(missing_ok=True)
        subprocess.run(command, check=True, env=environment, stdout=-3, stderr=-3)
        assert files.outputs.exists()

    return repeated(call, None)


def _devrt(program: Path | None, *, is_kept: bool) -> Timed:
    files = _Files(program)
    command = [sys.executable, "-m", "devrt", "run", os.fspath(files.program)]
    command += ["--inputs", os.fspath(files.inputs), "--outputs", os.fspath(files.outputs)]
    timed = _timed(
        command,
        files,
        DEVRT_ENABLE_COMPILATION_CACHE=str(is_kept).lower(),
        DEVRT_COMPILATION_CACHE_DIR=os.fspath(files.cache),
        DEVRT_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    )
    if is_kept:
        timed.call(None)
        assert any(files.cache.iterdir())
    return timed


def _jax(program: Path | None) -> Timed:
    files = _Files(program)
    paths = map(os.fspath, (files.program, files.inputs, files.outputs))
    return _timed([sys.executable, "-c", _JAX, *paths], files)


def _programs() -> dict[str, Path | None]:
    return {_NAMES[0]: None, **{path.stem: path for path in exported_programs()}}


def devrt_cases() -> dict[str, Factory]:
    """Return devrt's side."""
    return {
        case(name): partial(_devrt, path, is_kept=case is _second)
        for name, path in _programs().items()
        for case in (_first, _second)
    }


def jax_cases() -> dict[str, Factory]:
    """Return JAX's side; it keeps nothing of a program given as text, so it compiles twice."""
    return {
        case(name): partial(_jax, path)
        for name, path in _programs().items()
        for case in (_first, _second)
    }

"""Calls of compiled programs, and compiling: the same compiler underneath, so what is around it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Timed, repeated
from bench.subjects._data import sharding

__all__ = ["SPECS", "devrt_cases", "exported_programs", "jax_cases", "shapes_of", "values_of"]

ONE = "x + x on 8 floats, one device, not waited for"
ONE_WAITED = "x + x on 8 floats, one device, waited for"
ARRAYS = "x + x on an array of 8 floats, one device, not waited for"
ARRAYS_WAITED = "x + x on an array of 8 floats, one device, waited for"
ARRAYS_THREE = "x + y + z on arrays of 8 floats, one device, not waited for"
ARRAYS_EIGHT = "x + x on an array of 64 floats over 8 devices, waited for"
EIGHT = "x + x on 64 floats over 8 devices, waited for"
REDUCE = "sum of 64 floats over 8 devices (all-reduce), waited for"
COMPILE = "compile x + x"
KEPT = "x + x from the cache on disk, where the peer compiles"

_ADD = """module @add {{ func.func public @main(%a: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %0 = stablehlo.add %a, %a : tensor<{n}xf32>
  return %0 : tensor<{n}xf32> }} }}"""

_ADD_THREE = """module @add { func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>,
    %c: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8xf32>
  %1 = stablehlo.add %0, %c : tensor<8xf32>
  return %1 : tensor<8xf32> } }"""

_OVER_EIGHT = """
module @sharded attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
      -> {result} {{
    {body}
    return %0 : {result}
  }}
}}"""
_SHARDED_ADD = _OVER_EIGHT.format(
    result="tensor<64xf32>", body="%0 = stablehlo.add %a, %a : tensor<64xf32>"
)
_REDUCE = _OVER_EIGHT.format(
    result="tensor<f32>",
    body="%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "    %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]\n"
    "      : (tensor<64xf32>, tensor<f32>) -> tensor<f32>",
)


def exported_programs() -> list[Path]:
    """Return exported programs at their larger sizes, where ``STABLEHLO_CASES`` has them."""
    folder = Path(os.environ.get("STABLEHLO_CASES") or "/nonexistent")
    found = sorted((folder / "programs" / "bench").glob("*.mlir"))
    apart = {"linalg", "gspmd_mlp", "shard_map_dp"}  # custom calls; several devices
    return [path for path in found if path.stem not in apart]


def _programs() -> dict[str, Path]:
    return {f"program {path.stem}, waited for": path for path in exported_programs()}


SPECS = [
    Spec(ONE),
    Spec(ONE_WAITED),
    Spec(ARRAYS),
    Spec(ARRAYS_WAITED),
    Spec(ARRAYS_THREE),
    Spec(ARRAYS_EIGHT, devices=8),
    Spec(EIGHT, devices=8),
    Spec(REDUCE, devices=8),
    Spec(COMPILE),
    Spec(KEPT),
    *(Spec(name) for name in _programs()),
]


def devrt_cases() -> dict[str, Factory]:
    """Return devrt's side."""
    import devrt
    from devrt_cpu import make_cpu_client  # its clients keep nothing on disk

    folder = _folder()
    devrt.config.update("compilation_cache_dir", folder.name)
    client = devrt.devices()[0].client
    without_cache = make_cpu_client()
    return {
        ONE: lambda: _devrt_one(client, is_waited=False),
        ONE_WAITED: lambda: _devrt_one(client, is_waited=True),
        ARRAYS: lambda: _devrt_arrays(devrt, 1, is_waited=False),
        ARRAYS_WAITED: lambda: _devrt_arrays(devrt, 1, is_waited=True),
        ARRAYS_THREE: lambda: _devrt_arrays(devrt, 3, is_waited=False),
        ARRAYS_EIGHT: lambda: _devrt_arrays_eight(devrt),
        EIGHT: lambda: _devrt_eight(client, _SHARDED_ADD),
        REDUCE: lambda: _devrt_eight(client, _REDUCE),
        COMPILE: lambda: repeated(without_cache.compile_and_load, _ADD.format(n=8)),
        KEPT: lambda: _devrt_kept(client, folder),
        **{name: partial(_devrt_program, client, path) for name, path in _programs().items()},
    }


def _devrt_one(client: Any, *, is_waited: bool) -> Timed:
    execute = client.compile_and_load(_ADD.format(n=8)).execute
    arguments = [client.buffer_from_pyval(np.arange(8, dtype=np.float32))]
    if is_waited:
        return repeated(lambda a: execute(a)[0].block_until_ready(), arguments)
    return repeated(execute, arguments)


def _devrt_arrays(devrt: Any, count: int, *, is_waited: bool) -> Timed:
    from devrt.programs import load_program

    call = load_program(_ADD.format(n=8) if count == 1 else _ADD_THREE)
    arrays = [devrt.device_put(np.arange(8, dtype=np.float32)) for _ in range(count)]
    if is_waited:
        return repeated(lambda a: call(a)[0].block_until_ready(), arrays[0])
    return repeated(call, arrays[0]) if count == 1 else repeated(_spread(call), arrays)


def _devrt_arrays_eight(devrt: Any) -> Timed:
    from devrt.programs import load_program

    call = load_program(_SHARDED_ADD)
    array = devrt.device_put(np.arange(64, dtype=np.float32), call.in_shardings[0])
    return repeated(lambda a: call(a)[0].block_until_ready(), array)


def _spread(call: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a call of several arguments as one of a list of them."""
    return lambda arguments: call(*arguments)


@cache
def _folder() -> TemporaryDirectory[str]:
    """Return this process's cache on disk: its client is made with it once."""
    return TemporaryDirectory(prefix="devrt-bench-")


def _devrt_kept(client: Any, folder: TemporaryDirectory[str]) -> Timed:
    client.compile_and_load(_ADD.format(n=8))
    assert os.listdir(folder.name)
    return repeated(client.compile_and_load, _ADD.format(n=8))


def _devrt_eight(client: Any, program: str) -> Timed:
    execute = client.compile_and_load(program).execute_sharded
    shards = [
        client.buffer_from_pyval(np.arange(8, dtype=np.float32), device)
        for device in client.local_devices()
    ]
    return repeated(lambda a: [b.block_until_ready() for b in execute(a)[0]], [shards])


def _devrt_program(client: Any, path: Path) -> Timed:
    executable = client.compile_and_load(path.read_bytes())
    arguments = [client.buffer_from_pyval(values_of(*spec)) for spec in executable.parameters]
    execute = executable.execute
    return repeated(lambda a: [b.block_until_ready() for b in execute(a)], arguments)


def values_of(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return arguments that no program minds: small numbers, the same on every side."""
    random = np.random.default_rng(0)
    if np.dtype(dtype).kind in "iub":
        return random.integers(0, 2, shape).astype(dtype)
    return (random.standard_normal(shape) * 0.1).astype(dtype)


def jax_cases() -> dict[str, Factory]:
    """Return JAX's side."""
    import jax

    return {
        ONE: lambda: _jax_one(jax, is_waited=False),
        ONE_WAITED: lambda: _jax_one(jax, is_waited=True),
        ARRAYS: lambda: _jax_one(jax, is_waited=False),
        ARRAYS_WAITED: lambda: _jax_one(jax, is_waited=True),
        ARRAYS_THREE: lambda: _jax_three(jax),
        ARRAYS_EIGHT: lambda: _jax_eight(jax, lambda x: x + x),
        EIGHT: lambda: _jax_eight(jax, lambda x: x + x),
        REDUCE: lambda: _jax_eight(jax, lambda x: x.sum()),
        COMPILE: lambda: repeated(_jax_compile(jax), _ADD.format(n=8)),
        KEPT: lambda: repeated(_jax_compile(jax), _ADD.format(n=8)),
        **{name: partial(_jax_program, jax, path) for name, path in _programs().items()},
    }


def _jax_one(jax: Any, *, is_waited: bool) -> Timed:
    argument = jax.device_put(np.arange(8, dtype=np.float32))
    call = jax.jit(lambda x: x + x)
    call(argument)
    if is_waited:
        return repeated(lambda a: call(a).block_until_ready(), argument)
    return repeated(call, argument)


def _jax_three(jax: Any) -> Timed:
    arrays = [jax.device_put(np.arange(8, dtype=np.float32)) for _ in range(3)]
    call = jax.jit(lambda x, y, z: x + y + z)
    call(*arrays)
    return repeated(_spread(call), arrays)


def _jax_eight(jax: Any, function: Callable[[Any], Any]) -> Timed:
    argument = jax.device_put(np.arange(64, dtype=np.float32), sharding(jax, 8))
    call = jax.jit(function)
    call(argument)
    return repeated(lambda a: call(a).block_until_ready(), argument)


def _jax_compile(jax: Any) -> Callable[[str], Any]:
    """Return what compiles a module's text in jaxlib, below tracing."""
    from jaxlib import _jax, xla_client

    device = jax.devices()[0]
    options = xla_client.CompileOptions()
    devices = _jax.DeviceList((device,))
    return lambda text: device.client.compile_and_load(text, devices, options)


def _jax_program(jax: Any, path: Path) -> Timed:
    executable = _jax_compile(jax)(path.read_text())
    arguments = [jax.device_put(values_of(*spec)) for spec in shapes_of(path)]
    execute = executable.execute_sharded

    def call(values: list[Any]) -> None:
        for shards in execute(values).disassemble_into_single_device_arrays():
            shards[0].block_until_ready()

    return repeated(call, arguments)


def shapes_of(path: Path) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and dtype of each argument of `@main`, as the text has them."""
    import re

    import ml_dtypes

    names = {"f": "float", "i": "int", "ui": "uint"}
    special = {"i1": np.bool_, "bf16": ml_dtypes.bfloat16, "complex<f32>": np.complex64}
    main = re.search(r"@main\((.*?)\) ->", path.read_text(), re.DOTALL)
    assert main is not None
    found = []
    for text in re.findall(r"%arg\d+: tensor<((?:[^<>]|<[^<>]*>)*)>", main.group(1)):
        dims, dtype = re.fullmatch(r"((?:\d+x)*)(.+)", text).groups()  # type: ignore[union-attr]
        shape = tuple(map(int, dims.split("x")[:-1]))
        if dtype in special:
            found.append((shape, special[dtype]))
        else:
            kind, bits = re.fullmatch(r"(\D+)(\d+)", dtype).groups()  # type: ignore[union-attr]
            found.append((shape, names[kind] + bits))
    return found

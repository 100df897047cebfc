"""A PJRT plugin through devrt's loader, beside JAX and pypjrt with the same plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Timed, repeated
from bench.subjects._data import MIB, source

__all__ = ["SPECS", "devrt_cases", "jax_cases", "pypjrt_cases"]

PUT = "put 8 floats"
PUT_LARGE = "put 64 MiB, waited for"
EXECUTE = "execute a sum of 8 floats"
FETCH = "execute a sum of 8 floats and fetch it"
EIGHT = "execute a sum on 8 devices, waited for"
CLIENT = "make and close a client"
IMPORT = "a fresh process: import"
LOAD = "a fresh process: import, open and initialise the plugin"
START = "a fresh process: import, load, make a client, put 8 floats"
LIBRARY = "DEVRT_BENCH_PJRT_LIBRARY"

_BOTH = ("jaxpjrt", "pypjrt")
SPECS = [
    Spec(PUT, _BOTH),
    Spec(PUT_LARGE, _BOTH),
    Spec(EXECUTE, _BOTH),
    Spec(FETCH, _BOTH),
    Spec(EIGHT, ("jaxpjrt",)),
    Spec(CLIENT, ("pypjrt",)),  # jaxlib's clients cannot be closed: they pile up until collected
    Spec(IMPORT, _BOTH),
    Spec(LOAD, ("pypjrt",)),  # JAX does both when it makes the client
    Spec(START, _BOTH),
]

ADD = """
module @add {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""


_alive = ExitStack()
"""Holds what is a context manager for as long as the worker lives."""


def _library() -> str:
    """Return the plugin: the installed wheel's, or the one that the variable names."""
    named = os.environ.get(LIBRARY)
    if named:
        return named
    spec = find_spec("xla_plugins.xla_cpu_pjrt")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"xla-cpu-pjrt is not installed here, and {LIBRARY} is not set")
    return os.path.join(spec.submodule_search_locations[0], "xla_cpu_pjrt.so")


def _fresh(code: str) -> Timed:
    """Time processes that run this code; the interpreter's own start is part of each."""
    command = [sys.executable, "-c", code]
    return repeated(lambda _: subprocess.run(command, check=True, stderr=-3), None)


DEVRT_LOAD = """
import devrt_pjrt as pjrt
pjrt.library_for("bench", {path!r}).initialize()
"""
PYPJRT_LOAD = """
import pypjrt
pypjrt.Plugin({path!r}).initialize()
"""
DEVRT_START = """
import numpy as np
import devrt_pjrt as pjrt
client = pjrt.make_client(pjrt.library_for("bench", {path!r}), "bench")
client.buffer_from_pyval(np.zeros(8, np.float32)).block_until_ready()
"""
JAX_START = """
import numpy as np, jax
jax.config.update("jax_platforms", "xlacpu")
jax.device_put(np.zeros(8, np.float32)).block_until_ready()
"""
PYPJRT_START = """
import numpy as np, pypjrt
plugin = pypjrt.Plugin({path!r})
plugin.initialize()
with pypjrt.Client.create(plugin) as client, client.device(0) as device:
    with client.buffer_from_host(np.zeros(8, np.float32), 11, (8,), device):
        pass
"""


def devrt_cases() -> dict[str, Factory]:
    """Return devrt's side."""
    import devrt_pjrt

    library = devrt_pjrt.library_for("bench", _library())
    client = devrt_pjrt.make_client(library, "bench", {"cpu_device_count": 8})
    device, put = client.devices()[0], client.buffer_from_pyval
    add, wide = client.compile_and_load(ADD), client.compile_and_load(ADD, client.devices())
    here = put(source(32), device)
    spread = [put(source(32), d) for d in client.devices()]

    def on_eight(_: Any) -> None:
        for buffer in wide.execute_sharded([spread, spread])[0]:
            buffer.block_until_ready()

    return {
        PUT: lambda: repeated(lambda x: put(x, device), source(32)),
        PUT_LARGE: lambda: repeated(lambda x: put(x, device).block_until_ready(), source(64 * MIB)),
        EXECUTE: lambda: repeated(lambda x: add.execute([x, x]), here),
        FETCH: lambda: repeated(lambda x: np.asarray(add.execute([x, x])[0]), here),
        EIGHT: lambda: repeated(on_eight, None),
        CLIENT: lambda: repeated(lambda _: devrt_pjrt.make_client(library, "bench").close(), None),
        IMPORT: lambda: _fresh("import devrt_pjrt"),  # the client comes with its first use
        LOAD: lambda: _fresh(DEVRT_LOAD.format(path=_library())),
        START: lambda: _fresh(DEVRT_START.format(path=_library())),
    }


def jax_cases() -> dict[str, Factory]:
    """Return JAX's side, with the plugin that the environment names."""
    file = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)  # noqa: SIM115
    with file:
        options = {"cpu_device_count": 8}
        json.dump({"library_path": _library(), "create_options": options}, file)
    os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"xlacpu:{file.name}"
    import jax

    jax.config.update("jax_platforms", "xlacpu")  # the worker's environment says cpu
    devices = jax.devices()
    add = jax.jit(lambda a, b: a + b)
    here = jax.device_put(source(32), devices[0])
    mesh = jax.sharding.Mesh(np.array(devices), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    spread = jax.device_put(np.tile(source(32), 8), sharding)
    assert len(devices) == 8
    return {
        PUT: lambda: repeated(lambda x: jax.device_put(x, devices[0]), source(32)),
        PUT_LARGE: lambda: repeated(
            lambda x: jax.device_put(x, devices[0]).block_until_ready(), source(64 * MIB)
        ),
        EXECUTE: lambda: repeated(lambda x: add(x, x), here),
        FETCH: lambda: repeated(lambda x: np.asarray(add(x, x)), here),
        EIGHT: lambda: repeated(lambda x: add(x, x).block_until_ready(), spread),
        IMPORT: lambda: _fresh("import jax"),
        START: lambda: _fresh(JAX_START),
    }


def pypjrt_cases() -> dict[str, Factory]:
    """Return pypjrt's side."""
    import pypjrt

    plugin = pypjrt.Plugin(_library())
    plugin.initialize()
    client = _alive.enter_context(pypjrt.Client.create(plugin))
    device = _alive.enter_context(client.device(0))
    add = _alive.enter_context(client.compile(ADD))
    float32 = 11  # PJRT_Buffer_Type_F32
    here = _alive.enter_context(client.buffer_from_host(source(32), float32, (8,), device))

    def put(x: Any) -> None:
        with client.buffer_from_host(x, float32, x.shape, device):
            pass

    def execute(x: Any) -> list[Any]:
        made: list[Any] = add(x, x)
        return made

    def fetch(x: Any) -> None:
        (made,) = add(x, x)
        np.frombuffer(made.to_host(), np.float32)
        made.close()

    def drop(x: Any) -> None:
        for made in execute(x):
            made.close()

    def timed(call: Any, nbytes: int) -> Timed:
        return repeated(call, source(nbytes))

    return {
        PUT: lambda: timed(put, 32),
        PUT_LARGE: lambda: timed(put, 64 * MIB),
        EXECUTE: lambda: repeated(drop, here),
        FETCH: lambda: repeated(fetch, here),
        CLIENT: lambda: repeated(lambda _: pypjrt.Client.create(plugin).close(), None),
        IMPORT: lambda: _fresh("import pypjrt"),
        LOAD: lambda: _fresh(PYPJRT_LOAD.format(path=_library())),
        START: lambda: _fresh(PYPJRT_START.format(path=_library())),
    }

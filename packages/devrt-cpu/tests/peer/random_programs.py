"""Makes random programs, with arguments and jax's own results: run by a Python that has jax.

``python random_programs.py FOLDER FIRST LAST`` writes for each seed ``SEED.mlirbc``, ``SEED.npz``
(``in0``..., ``out0``...: whole arrays; types that NumPy does not know as raw bits) and
``SEED.json``: dtypes, which arguments jax deleted, and, for a program over several devices, its
mesh and the place of each device's part of every argument and result.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import export
from jax._src import xla_bridge  # no public name registers a plugin with options
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from operations import OPERATIONS, choose, scaled

if plugin := os.environ.get("FUZZ_PLUGIN"):
    xla_bridge.register_plugin("xlacpu", library_path=plugin, options={"cpu_device_count": 8})

jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")  # donations that jax cannot use

Random = np.random.Generator
DTYPES = (
    "float32 float32 float32 float64 bfloat16 float16 int8 int16 int32 int64 uint8 uint32 bool "
    "complex64 complex128 int4 float8_e4m3fn"
).split()
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 65504.0, 1e-30]


def main(folder, first, last):
    for seed in range(int(first), int(last)):
        random = np.random.default_rng(seed)
        make = sharded if len(jax.devices()) > 1 and random.random() < 0.3 else single
        write(Path(folder, str(seed)), *make(random))


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def argument(random, shape):
    dtype = dtype_of(choose(random, *DTYPES))
    if dtype.kind in "iub" or dtype.name == "int4":
        return random.integers(0, 2 if dtype.kind == "b" else 8, shape).astype(dtype)
    values = random.standard_normal(shape) * 2
    if random.random() < 0.1:
        values = random.choice(SPECIAL, shape)
    if dtype.kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def chain(steps, values, results):
    """Apply operations, each on values that were made before, and return the last ones."""
    pool = [jnp.asarray(value) for value in values]
    for step in steps:
        random = np.random.default_rng(step)
        x, y = choose(random, *pool), choose(random, *pool)
        wide = [
            v if v.dtype.itemsize > 1 or v.dtype.name in PLAIN else v.astype("float32")
            for v in (x, y)
        ]
        made = choose(random, *OPERATIONS)(random, *wide)
        pool.append(made if made.dtype.name in KNOWN else made.astype("float32"))
    return pool[-results:]


PLAIN = {"bool", "int8", "uint8"}
KNOWN = {
    *PLAIN,
    *"int16 int32 int64 uint16 uint32 uint64 bfloat16 float16 float32 float64".split(),
    *"complex64 complex128 int4 uint4 float8_e4m3fn float8_e5m2".split(),
}


def single(random):
    """Return a program on one device: function, arguments, options of jit, no mesh."""
    arguments = []
    for _ in range(int(random.integers(0, 5))):
        shape = tuple(
            int(n)
            for n in random.integers(0 if random.random() < 0.1 else 1, 7, random.integers(0, 4))
        )
        arguments.append(argument(random, shape))
    steps = random.integers(0, 1 << 30, random.integers(1, 10)).tolist()
    results = int(random.integers(1, 4))
    if not arguments:
        constant = argument(random, (3, 2))
        return lambda: chain(steps, [constant], results), [], {}, None
    donated = tuple(i for i in range(len(arguments)) if random.random() < 0.3)

    def function(*values):
        return chain(steps, list(values), results)

    return function, arguments, {"donate_argnums": donated}, None


def sharded(random):
    """Return a program over a mesh of some of the devices, its arguments sharded at random."""
    count = len(jax.devices())
    sizes = choose(
        random,
        *[s for s in [(2,), (4,), (8,), (2, 2), (2, 4), (4, 2), (2, 2, 2)] if np.prod(s) <= count],
    )
    axes = "xyz"[: len(sizes)]
    devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    mesh = Mesh(devices, tuple(axes))
    arguments, shardings = [], []
    for _ in range(int(random.integers(1, 4))):
        shape = tuple(8 * int(n) for n in random.integers(1, 3, random.integers(0, 4)))
        arguments.append(argument(random, shape))
        shardings.append(NamedSharding(mesh, spec(random, len(shape), list(axes))))
    steps = random.integers(0, 1 << 30, random.integers(1, 7)).tolist()
    donated = tuple(i for i in range(len(arguments)) if random.random() < 0.2)

    def function(*values):
        return pieces(steps, [jnp.asarray(v) for v in values])

    return function, arguments, {"donate_argnums": donated, "in_shardings": shardings}, mesh


def spec(random, rank, axes):
    entries = [None] * rank
    for axis in random.permutation(axes).tolist():
        if rank and random.random() < 0.7:
            at = int(random.integers(rank))
            entries[at] = (*(entries[at] or ()), axis)
    return PartitionSpec(*entries)


def pieces(steps, pool):
    """Apply operations that a partitioner divides: element-wise, products, sums, transposes."""
    for step in steps:
        random = np.random.default_rng(step)
        x = choose(random, *pool)
        x = x if x.dtype.name in KNOWN - PLAIN and x.dtype.itemsize > 1 else x.astype("float32")
        kind = int(random.integers(7))
        if kind == 0:
            x = scaled(x + x)
        elif kind == 1:
            x = jnp.sum(x, axis=choose(random, None, *range(x.ndim)))
        elif kind == 2:
            x = jnp.transpose(x)
        elif kind == 3 and x.ndim == 2 and x.dtype.kind in "fc":
            x = scaled(x) @ scaled(x).T
        elif kind == 4 and x.ndim:
            x = jnp.roll(x, 1, axis=int(random.integers(x.ndim)))
        elif kind == 5:
            x = jnp.where(x == x, x, jnp.zeros_like(x))
        else:
            x = x.reshape(-1)
        pool = [*pool, x]
    return pool[-2:]


def write(path, function, arguments, options, mesh):
    jitted = jax.jit(function, keep_unused=True, **options)
    exported = export.export(jitted, platforms=["cpu"])(*arguments)
    shardings = options.get("in_shardings")
    if shardings is None:
        placed = [jax.device_put(a) for a in arguments]
    else:
        placed = [jax.device_put(a, s) for a, s in zip(arguments, shardings, strict=True)]
    results = jax.block_until_ready(jitted(*placed))
    arrays = [np.asarray(result) for result in results]
    facts = {
        "in": [a.dtype.name for a in arguments],
        "out": [a.dtype.name for a in arrays],
        "deleted": [i for i, a in enumerate(placed) if a.is_deleted()],
        "mesh": None if mesh is None else list(mesh.shape.items()),
    }
    if mesh is not None:
        flat = [device.id for device in mesh.devices.flat]
        facts["in_places"] = [
            places(s, a.shape, flat) for s, a in zip(shardings, arguments, strict=True)
        ]
        facts["out_places"] = [places(r.sharding, r.shape, flat) for r in results]
    data = {f"in{i}": raw(a) for i, a in enumerate(arguments)}
    data |= {f"out{i}": raw(a) for i, a in enumerate(arrays)}
    path.with_suffix(".mlirbc").write_bytes(exported.mlir_module_serialized)
    np.savez(path.with_suffix(".npz"), **data)
    path.with_suffix(".json").write_text(json.dumps(facts))


def places(sharding, shape, flat):
    """Return where each device's part begins and ends, the devices in the mesh's order."""
    found = {d.id: index for d, index in sharding.devices_indices_map(shape).items()}
    return [
        [list(part.indices(n)[:2]) for part, n in zip(found[d], shape, strict=True)] for d in flat
    ]


def raw(value):
    return value if value.dtype.isbuiltin == 1 else value.view(f"u{value.dtype.itemsize}")


if __name__ == "__main__":
    main(*sys.argv[1:])

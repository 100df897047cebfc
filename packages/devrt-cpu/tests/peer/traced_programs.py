"""Writes random programs of NumPy's and lax's functions, for any namespace that has them.

``python traced_programs.py FOLDER FIRST LAST`` runs those of some seeds under jax and keeps what
they give, a file for each; `results` runs one under another namespace. The steps of a program are
drawn while it is traced, from the seed and the shapes and dtypes that there are, so that both
namespaces take the same ones for as long as they agree.
"""

import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from traced_steps import STEPS, collective, is_float

__all__ = ["DEVICES", "devrt_namespace", "results"]

DEVICES = 8
MESHES = {"x": (8,), "xy": (4, 2), "xyz": (2, 2, 2)}
ROUNDINGS = 4
MODES = "eager jit grad sharded mapped".split()


def jax_namespace():
    """Return jax's names, as programs use them."""
    import jax

    return _namespace(jax, jax.numpy, jax.lax, jax.random)


def devrt_namespace():
    """Return devrt's names, as programs use them."""
    import devrt
    import devrt.numpy

    devrt.config.update("num_cpu_devices", DEVICES)
    return _namespace(devrt, devrt.numpy, devrt.lax, devrt.random)


def _namespace(root, numpy, lax, random):
    return SimpleNamespace(root=root, np=numpy, lax=lax, random=random)


# -- programs ------------------------------------------------------------------------------------


def body(ns, seed, args, axes=None):
    """Run the steps of a seed on some values; return up to three results of fractions."""
    rng = np.random.default_rng((seed, 1))
    values = list(args)
    for _ in range(int(rng.integers(4, 12))):
        step = STEPS[int(rng.integers(len(STEPS)))]
        if axes and rng.random() < 0.3:
            made = collective(ns, rng, values, axes)
        else:
            made = step(ns, rng, values[-4:] if rng.random() < 0.6 else values)
        if made is not None and 0 < made.size <= 4096 and made.ndim <= 4:
            values.append(made)
    return values[-3:]


def arguments(seed, mode, nudge=0):
    """Return a program's arguments; with a number, each fraction moved by some roundings."""
    rng = np.random.default_rng((seed, 2))
    count = int(rng.integers(1, 4))
    sizes = (8,) if mode in ("sharded", "mapped") else (1, 2, 3, 4)
    made = []
    for i in range(count):
        rank = int(rng.integers(1, 4)) if mode in ("sharded", "mapped") else int(rng.integers(0, 4))
        shape = tuple(int(n) for n in rng.choice(sizes if mode != "mapped" else (8, 16), size=rank))
        if mode == "mapped":
            shape = (16, *(min(n, 8) for n in shape[1:]))
        x = rng.normal(size=shape)
        kind = rng.random()
        dtype = np.float32 if i == 0 or kind < 0.7 else np.int32 if kind < 0.9 else np.bool_
        made.append((x * (3 if dtype is np.int32 else 1)).astype(dtype))
    return [_nudged(a, (seed, 4, nudge)) if nudge and a.dtype == np.float32 else a for a in made]


def _nudged(a, entropy):
    moved = np.random.default_rng(entropy).uniform(-1, 1, a.shape) * ROUNDINGS
    return (a * (1 + moved * np.finfo(a.dtype).eps)).astype(a.dtype)


def total(ns, results):
    """Return one number that all results of fractions decide."""
    parts = [ns.np.mean(ns.np.sin(r.astype("float32"))) for r in results if is_float(r)]
    return sum(parts[1:], parts[0]) if parts else ns.np.float32(0) * 1


def mesh_of(ns, rng):
    names = str(rng.choice(list(MESHES)))
    sizes = MESHES[names]
    auto = (ns.root.sharding.AxisType.Auto,) * len(sizes)
    devices = ns.root.devices("cpu")[:DEVICES]
    return ns.root.make_mesh(sizes, tuple(names), axis_types=auto, devices=devices)


def spec_of(ns, rng, shape, names):
    """Return a spec whose axes divide dimensions of 8."""
    free, entries = list(names), []
    for n in shape:
        axis = free.pop(0) if free and n % 8 == 0 and rng.random() < 0.6 else None
        entries.append(axis)
    return ns.root.sharding.PartitionSpec(*entries)


def eager(ns, seed, args):
    return body(ns, seed, [ns.np.asarray(a) for a in args])


def jit(ns, seed, args):
    return ns.root.jit(lambda *given: body(ns, seed, given))(*args)


def chosen_arguments(args):
    return tuple(i for i, a in enumerate(args) if a.dtype == np.float32)


def grad(ns, seed, args):
    def loss(*given):
        return total(ns, body(ns, seed, given))

    made = ns.root.value_and_grad(loss, argnums=chosen_arguments(args))
    value, gradients = ns.root.jit(made)(*args)
    return [value, *gradients]


def sharded(ns, seed, args):
    rng = np.random.default_rng((seed, 3))
    mesh = mesh_of(ns, rng)
    named = ns.root.sharding.NamedSharding
    put = [
        ns.root.device_put(a, named(mesh, spec_of(ns, rng, a.shape, mesh.axis_names))) for a in args
    ]
    if rng.random() < 0.5:
        return ns.root.jit(lambda *given: body(ns, seed, given))(*put)
    return grad(ns, seed, put)


def mapped(ns, seed, args):
    rng = np.random.default_rng((seed, 3))
    mesh = mesh_of(ns, rng)
    spec = ns.root.sharding.PartitionSpec
    axes = dict(zip(mesh.axis_names, mesh.devices.shape, strict=True))
    every = tuple(axes)
    is_whole = [bool(rng.random() < 0.2) for _ in args]
    in_specs = tuple(spec() if w else spec(every) for w in is_whole)

    def part(*given):
        results = body(ns, seed, given, axes)
        varying = 0 * ns.lax.axis_index(every)
        return [ns.np.reshape(r, (-1,)).astype("float32") + varying for r in results]

    function = ns.root.shard_map(part, mesh=mesh, in_specs=in_specs, out_specs=spec(every))
    if rng.random() < 0.5:
        return ns.root.jit(function)(*args)

    def loss(*given):
        return total(ns, function(*given))

    value, gradients = ns.root.jit(ns.root.value_and_grad(loss, argnums=chosen_arguments(args)))(
        *args
    )
    return [value, *gradients]


def results(ns, seed, nudge=0):
    """Run the program of a seed; return its results as NumPy arrays, or the error's text."""
    mode = MODES[seed % len(MODES)]
    args = arguments(seed, mode, nudge)
    try:
        found = {"eager": eager, "jit": jit, "grad": grad, "sharded": sharded, "mapped": mapped}[
            mode
        ](ns, seed, args)
        return [np.asarray(x) for x in found], ""
    except Exception as error:  # noqa: BLE001 - any error is a result
        return [], f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"


def main():
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    ns = jax_namespace()
    for seed in range(first, last):
        arrays, error = results(ns, seed)
        wide = {
            f"out{i}": a.astype(np.float32) if a.dtype.name == "bfloat16" else a
            for i, a in enumerate(arrays)
        }
        names = np.array([a.dtype.name for a in arrays])
        np.savez(folder / f"{seed}.npz", error=np.array(error), dtypes=names, **wide)


if __name__ == "__main__":
    main()

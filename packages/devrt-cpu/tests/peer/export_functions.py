"""Writes what one version of jax serialises of functions: run where jax and flatbuffers are.

``python export_functions.py FOLDER`` writes ``NAME-VERSION.jax`` files, which
`packages/devrt-cpu/tests/programs/test_exported_functions.py` reads.
"""

from __future__ import annotations

import collections
import os
import sys
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Point = collections.namedtuple("Point", ["x", "y"])


def spec(*shape: Any, dtype: Any = np.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def model(params: Any, x: Any, *, scale: Any) -> Any:
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return {"y": hidden @ params["w2"] * scale, "more": (hidden.sum(), [x])}


def exported_model() -> Any:
    params = {"b1": spec(8), "unused": spec(3), "w1": spec(4, 8), "w2": spec(8, 2)}
    return export.export(jax.jit(model))(params, spec(3, 4), scale=spec())


def platforms() -> Any:
    return export.export(jax.jit(lambda x: x + 1), platforms=["tpu", "cpu"])(spec(4))


def for_tpu() -> Any:
    return export.export(jax.jit(lambda x: x + 1), platforms=["tpu"])(spec(4))


def symbolic() -> Any:
    (b,) = export.symbolic_shape("b")
    return export.export(jax.jit(lambda x, y: x + y))(spec(4), spec(b, 4))


def sharded() -> Any:
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    rows = NamedSharding(mesh, PartitionSpec("rows"))
    double = jax.jit(lambda x: x + x, in_shardings=rows, out_shardings=rows)
    return export.export(double)(spec(8, 2))


def classes() -> Any:
    export.register_namedtuple_serialization(Point, serialized_name="geometry.Point")
    point = Point(spec(2), spec(2))

    def swapped(point: Any, rest: Any) -> Any:
        return Point(point.y, point.x), collections.OrderedDict(b=rest["b"], a=rest["a"])

    rest = collections.OrderedDict(b=spec(2), a=spec(2))
    return export.export(jax.jit(swapped))(point, rest)


def donating() -> Any:
    step = jax.jit(lambda state, x: {"n": state["n"] + x}, donate_argnums=0)
    return export.export(step)({"n": spec(4)}, spec(4))


FUNCTIONS = {
    "model": exported_model,
    "platforms": platforms,
    "for_tpu": for_tpu,
    "symbolic": symbolic,
    "sharded": sharded,
    "classes": classes,
    "donating": donating,
}


def main(folder: Path) -> None:
    for name, make in FUNCTIONS.items():
        try:
            data = make().serialize()
        except Exception as error:  # noqa: BLE001  an older version may not know how
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
            continue
        (folder / f"{name}-{jax.__version__}.jax").write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

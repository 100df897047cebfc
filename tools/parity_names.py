"""What the checks of `parity` are written with: objects of devrt, and small questions."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import devrt
import devrt.contract
import devrt.errors
import devrt.records
from devrt import runtime, xla_bridge, xla_client
from devrt.sharding import NamedSharding, P, SingleDeviceSharding

ADD = """
module @add {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""
X = np.arange(8, dtype=np.float32)


@contextmanager
def given() -> Iterator[dict[str, Any]]:
    """Yield the names that checks use."""
    client = xla_client.make_cpu_client(num_devices=8)
    plugin = _plugin_client()
    device = client.devices()[0]
    mesh = devrt.make_mesh((8,), ("x",))
    sharding = NamedSharding(mesh, P("x"))
    executables = {c: c.compile_and_load(ADD) for c in (client, plugin)}

    def both(check: Callable[[Any, Any], Any]) -> bool:
        return all(check(c, e) for c, e in executables.items())

    with tempfile.TemporaryDirectory() as folder:
        yield {
            "devrt": devrt,
            "np": np,
            "jnp": devrt.numpy,
            "P": P,
            "xla_client": xla_client,
            "xla_bridge": xla_bridge,
            "x": X,
            "client": client,
            "device": device,
            "memory": device.default_memory(),
            "buffer": client.buffer_from_pyval(X, device),
            "devices": xla_client.DeviceList(tuple(client.devices())),
            "topology": xla_client.get_topology_for_devices(client.devices()),
            "assignment": xla_client.DeviceAssignment.create(np.array([[0], [1]])),
            "mesh": mesh,
            "sharding": sharding,
            "single": SingleDeviceSharding(devrt.devices()[0]),
            "array": devrt.device_put(X, devrt.devices()[0]),
            "sharded": devrt.device_put(X, sharding),
            "program": ADD,
            "executable": executables[client],
            "json_file": _json(folder),
            "pjrt": lambda: plugin,
            "both": both,
            **{function.__name__: function for function in _QUESTIONS},
        }
    client.close()
    plugin.close()


def _plugin_client() -> Any:
    from devrt_cpu._library import choose

    xla_client.load_pjrt_plugin_dynamically("parity", choose().path)
    return xla_client.make_c_api_client("parity", {"cpu_device_count": 2})


def _json(folder: str) -> str:
    file = Path(folder, "plugin.json")
    file.write_text(json.dumps({"library_path": "x.so", "create_options": {"n": 1}}))
    return str(file)


def has(of: Any, names: str) -> bool:
    """Return whether an object has all of some names."""
    return all(hasattr(of, name) for name in names.split())


def takes(function: Any, names: str) -> bool:
    """Return whether a function's parameters begin with some, in order."""
    given = list(inspect.signature(function).parameters)
    wanted = names.split()
    return given[: len(wanted)] == wanted


def fields(record: type, names: str) -> bool:
    """Return whether a dataclass has some fields."""
    return set(names.split()) <= {field.name for field in dataclasses.fields(record)}


def raises(kind: type[Exception], function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether a call raises an error of a kind."""
    try:
        function(*arguments)
    except kind:
        return True
    return False


def warns(kind: type[Warning], function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a call returns that warns; None if it does not."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value = function(*arguments)
    return value if any(issubclass(one.category, kind) for one in seen) else None


def restored(option: str, value: Any) -> bool:
    """Return whether an option takes a value; it has its own again afterwards."""
    plain = option.removeprefix("jax_")
    before = getattr(devrt.config, plain)
    devrt.config.update(option, value)
    taken = getattr(devrt.config, plain)
    devrt.config.update(option, before)
    return bool(taken == value)


def placed_by_default(device: Any) -> Any:
    """Return the device of what is placed without naming one."""
    with devrt.default_device(device):
        return devrt.device_put(X).device


def registered() -> Any:
    """Return the client of a platform that a call registers."""
    factory = functools.partial(xla_client.make_c_api_client, "parity", {"cpu_device_count": 2})
    runtime.register_backend_factory("parity", factory)
    return runtime.get_backend("parity")


def deleted(value: Any) -> bool:
    """Return whether deleting deletes."""
    was_deleted = value.is_deleted()
    value.delete()
    return bool(value.is_deleted() and not was_deleted)


def flag(value: str) -> Any:
    """Return a flag of JAX's configuration."""
    return SimpleNamespace(value=value)


def put(client: Any) -> list[Any]:
    """Return the arguments of the program."""
    return [client.buffer_from_pyval(X), client.buffer_from_pyval(X)]


def stream_within(number: int) -> int:
    """Return the execution stream within its context."""
    with xla_client.execution_stream_id(number):
        return xla_client.get_execution_stream_id()


_QUESTIONS = (
    *(has, takes, fields, raises, warns, restored, placed_by_default, registered),
    *(deleted, flag, put, stream_within),
)

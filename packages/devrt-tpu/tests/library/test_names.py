"""Plugins by name, as programs written for jaxlib's xla_client load and use them."""

import pytest

import devrt_pjrt
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_pjrt.library import names
from support import python

USE = """
import sys
import numpy as np
from devrt import xla_client
from devrt.errors import DevrtError
path, program = sys.argv[1:]
capsule = xla_client.load_pjrt_plugin_dynamically("mine", path)
print(xla_client.pjrt_plugin_loaded("mine"), xla_client.pjrt_plugin_initialized("mine"))
xla_client.initialize_pjrt_plugin("mine")
print(xla_client.pjrt_plugin_initialized("mine"), xla_client.pjrt_plugin_loaded("other"))
xla_client.load_pjrt_plugin_with_c_api("again", capsule)
with xla_client.make_c_api_client("mine", {"cpu_device_count": 2}) as client:
    x = client.buffer_from_pyval(np.ones(8, np.float32), client.devices()[1])
    print(client.platform, client.device_count(), np.asarray(x).sum())
    (y,) = client.compile(program).execute([client.buffer_from_pyval(np.ones(8, np.float32))] * 2)
    print(np.asarray(y)[0])
with xla_client.make_c_api_client("again") as client:
    print(client.platform)
for act in (lambda: xla_client.load_pjrt_plugin_dynamically("mine", "/etc/passwd"),
            lambda: xla_client.make_c_api_device_topology(capsule, "x"),
            lambda: xla_client.make_c_api_client("nothing"),
            lambda: xla_client.initialize_pjrt_plugin("nothing")):
    try:
        act()
    except DevrtError as error:
        print(type(error).__name__)
"""


def test_a_plugin_is_loaded_and_used_by_name(xla_cpu_library, add_text):
    done = python(USE, xla_cpu_library, add_text)
    assert done.stdout.splitlines() == [
        "True False",
        "True False",
        "mine 2 8.0",
        "2.0",
        "again",
        "PluginLoadError",
        "UnimplementedError",
        "InvalidArgumentError",
        "InvalidArgumentError",
    ]


def test_a_topology_is_described_through_a_capsule(libtpu):
    code = """
import sys
from devrt import xla_client
from devrt.errors import DevrtError
capsule = xla_client.load_pjrt_plugin_dynamically("tpu", sys.argv[1])
made = xla_client.make_c_api_device_topology(capsule, "v5e:2x2")
print(made.platform, len(made._make_compile_only_devices()))
print(len(xla_client.make_tfrt_tpu_c_api_device_topology("v5e:4x2")._make_compile_only_devices()))
xla_client.load_pjrt_plugin_with_c_api("renamed", capsule)
try:
    xla_client.make_c_api_device_topology(capsule, "v5e:0x0")
except DevrtError as error:
    print(type(error).__name__)
"""
    done = python(code, libtpu, options=())
    assert done.stdout.splitlines() == ["tpu 4", "8", "InvalidArgumentError"]


def test_every_public_name_is_there_and_loaded_when_it_is_requested():
    assert "make_client" in devrt_pjrt.__all__
    for name in devrt_pjrt.__all__:
        assert getattr(devrt_pjrt, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = devrt_pjrt.nothing
    assert set(devrt_pjrt.__all__) <= set(dir(devrt_pjrt))


def test_a_start_loads_only_what_it_needs(xla_cpu_library):
    code = f"""
import sys, numpy
before = set(sys.modules)
import devrt_pjrt as pjrt
client = pjrt.make_client(pjrt.library_for("lean", {xla_cpu_library!r}), "lean")
client.buffer_from_pyval([1.5]).block_until_ready()
loaded = set(sys.modules) - before
for name in ("tomllib", "hashlib", "importlib.resources", "tempfile", "json"):
    assert name in before or name not in loaded, name
for name in ("_custom_call", "_compile", "_topology", "_dlpack", "_store"):
    assert f"devrt_pjrt.{{name}}" not in loaded, name
"""
    python(code)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_what_is_no_name_is_refused_before_a_library_is_opened(name, monkeypatch):
    monkeypatch.setattr(names, "open_library", None)
    errors = InvalidArgumentError, InvalidTypeError
    for load in devrt_pjrt.load_pjrt_plugin_dynamically, names.add_library:
        with pytest.raises(errors, match=r"a plugin's name|under a name"):
            load(name, "/nowhere/library.so")

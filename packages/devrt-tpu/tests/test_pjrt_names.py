"""Plugins by name, as programs written for jaxlib's xla_client load and use them."""

import subprocess
import sys

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
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE, xla_cpu_library, add_text],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
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
    done = subprocess.run(
        [sys.executable, "-c", code, libtpu],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["tpu 4", "8", "InvalidArgumentError"]

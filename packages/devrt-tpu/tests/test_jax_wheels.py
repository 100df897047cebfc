"""Real PJRT libraries in wheels made for JAX, whose modules register them under other names."""

import json
import re
from pathlib import Path

import pytest

from support import module_file, run_python

MODULE = """
import os
import jax._src.xla_bridge as xb

def initialize():
    os.environ["OTHER_HOME"] = os.path.dirname(__file__)
    xb.register_plugin("OtherName", priority=350, library_path={library!r},
                       options={{"cpu_device_count": 3}})
"""
USE = """
import json, os, sys, devrt, numpy as np
devices = devrt.devices("othername")
array = devrt.device_put(np.arange(4.0), devices[2])
print(json.dumps({
    "devices": len(devices), "platform": devices[0].platform, "sum": float(np.asarray(array).sum()),
    "default": devrt.default_backend(), "home": os.environ["OTHER_HOME"],
    "jax": [name for name in sys.modules if name.split(".")[0] in ("jax", "jaxlib")],
    "entry": "other_for_jax" in sys.modules,
}))
"""


@pytest.fixture
def site(tmp_path, xla_cpu_library):
    """Return a folder with a wheel made for JAX that has XLA's CPU plugin under another name."""
    site = tmp_path / "site"
    package = site / "other_for_jax"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MODULE.format(library=xla_cpu_library))
    (package / "other_pjrt.so").symlink_to(xla_cpu_library)
    info = site / "other_wheel-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-wheel\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jax_plugins]\nplugin_of_other = other_for_jax\n")
    (info / "RECORD").write_text("other_for_jax/__init__.py,,\nother_for_jax/other_pjrt.so,,\n")
    return site


def run(site, *arguments, **environ):
    environ = {"PYTHONPATH": site, "DEVRT_CACHE_DIR": site.parent / "cache"} | environ
    return run_python("-W", "error", *arguments, **environ)


@pytest.mark.parametrize("start", ["first", "with a verdict that was kept"])
def test_a_wheel_serves_the_platform_that_its_module_registers(site, start):
    if start != "first":
        run(site, "-c", USE)
        assert list((site.parent / "cache" / "registrations").glob("*.json"))
    result = run(site, "-c", USE)
    logged = r"WARNING: All log messages before absl|[IWE]\d{4} "  # the library's own, of itself
    assert [line for line in result.stderr.splitlines() if not re.match(logged, line)] == []
    assert json.loads(result.stdout) == {
        "devices": 3,
        "platform": "othername",
        "sum": 6.0,
        "default": "othername",
        "home": str(site / "other_for_jax"),
        "jax": [],
        "entry": False,
    }


def test_the_doctor_and_the_list_know_it_by_that_name(site):
    report = json.loads(run(site, "-m", "devrt", "doctor", "--json").stdout)
    (row,) = [row for row in report["plugins"] if row["distribution"] == "other-wheel"]
    assert (row["platform"], row["state"], row["priority"]) == ("othername", "chosen", 350)
    assert row["facts"]["device_count"] == 3
    assert not [f for f in report["findings"] if f["code"] in ("plugin-not-recorded",)]
    listed = json.loads(run(site, "-m", "devrt", "list", "--json").stdout)
    assert "othername" in [row["platform"] for row in listed["backends"]]


def test_a_real_wheel_that_the_table_knows_is_not_run():
    from devrt.plugins import Callbacks, PluginRegistry, installed_plugins

    if module_file("jax_plugins.xla_cuda13", "xla_cuda_plugin.so") is None:
        pytest.skip("jax-cuda13-pjrt is not installed")
    callbacks = Callbacks(run_entries=lambda refs: pytest.fail(f"{refs} were run"))
    registry = PluginRegistry(installed_plugins, callbacks)
    registry.settle()
    (ref,) = [ref for ref in registry.refs() if ref.distribution == "jax-cuda13-pjrt"]
    assert (ref.platform, Path(ref.library).name) == ("cuda", "xla_cuda_plugin.so")

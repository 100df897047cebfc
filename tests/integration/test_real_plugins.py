"""Plugin wheels of others, as they are on the index: found, described, and harmless.

They are large (60 to 205 MB), so this runs with the wheels (``-m wheels``). Nothing here makes a
client of theirs: a machine without their hardware could only show that they refuse.
"""

import json
import os
import subprocess
import sys

import pytest

from support import run_python

pytestmark = pytest.mark.wheels

WHEELS = ("jax-cuda13-pjrt==0.12.0.1", "libtpu==0.0.51", "xla-cpu-pjrt==0.0.1")
"""Distribution and version."""
RUNS_HERE = "xla-cpu-pjrt"
"""The one whose devices every machine has, once devrt-tpu is there to load it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install the wheels, without what they need to run, into a folder of their own."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    done = subprocess.run([*command, *WHEELS], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the index cannot be reached, or lacks {', '.join(WHEELS)}: {done.stderr}")
    return folder


def run(site, *arguments, **environ):
    done = run_python(*arguments, status=None, PYTHONPATH=site, **environ)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_they_are_found_and_described(site, tmp_path):
    report = json.loads(run(site, "-m", "devrt", "doctor", "--json", DEVRT_CACHE_DIR=str(tmp_path)))
    assert report["default"] == "cpu@devrt-cpu"
    rows = {row["distribution"].replace("_", "-"): row for row in report["plugins"]}
    for requirement in WHEELS:
        name, _, version = requirement.partition("==")
        row = rows[name]
        assert row["version"] == version
        assert row["library"].endswith(".so")
        assert os.path.isfile(row["library"])
        major, minor = row["facts"]["pjrt_version"]
        assert (major, minor) >= (0, 50)
        assert row["reason"]
        if name == RUNS_HERE:
            assert row["state"] == "eligible"
            continue
        assert row["state"] == "unavailable"
        assert row["remedy"]


def test_they_do_not_touch_the_cpu(site):
    program = """
import json, sys
opened = []
def watch(name, given):
    if name == "ctypes.dlopen":
        opened.append(str(given[0]))
sys.addaudithook(watch)
import devrt
platforms = [device.platform for device in devrt.devices("cpu")]
with open("/proc/self/maps") as maps:
    mapped = [word for line in maps for word in line.split() if "pjrt" in word or "libtpu" in word]
modules = [name for name in sys.modules if name.startswith(("jax", "libtpu", "xla"))]
print(json.dumps([platforms[:1], devrt.default_backend(), opened, mapped, modules]))
"""
    assert json.loads(run(site, "-c", program)) == [["cpu"], "cpu", [], [], []]

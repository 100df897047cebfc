"""Plugin wheels of others, as they are on the index: found, described, and harmless.

They are large (60 to 205 MB), so this runs with the wheels (``-m wheels``). Nothing here makes a
client of theirs: a machine without their hardware could only show that they refuse.
"""

import json
import os

import pytest

from wheelhouse import MATRIX

pytestmark = pytest.mark.wheels

(ROW,) = (row for row in MATRIX["environment"] if row["name"] == "adopted")
WHEELS = ROW["no_deps"]
RUNS_HERE = "xla-cpu-pjrt"
"""The one whose devices every machine has, once devrt-tpu is there to load it."""


@pytest.fixture
def environment(environments):
    """The wheels beside ours."""
    return environments(ROW)


def test_they_are_found_and_described(environment):
    report = json.loads(environment.run(["devrt", "doctor", "--json"]))
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


def test_they_do_not_touch_the_cpu(environment):
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
    printed = environment.run(["python", "-c", program])
    assert json.loads(printed) == [["cpu"], "cpu", [], [], []]

"""``devrt topo`` and ``devrt top`` on what plugins report, and on plugins that fail at it."""

import json
import os

import pytest
from click.testing import CliRunner

from devrt.cli import main

REPORTS = """
import os
from devrt.hardware import DeviceLink, DeviceProcess, DeviceReading

def links(devices):
    return [DeviceLink(devices[1].id, devices[0].id, "FAST", 4)]

def readings(devices):
    process = DeviceProcess(os.getpid(), 1 << 20)
    return [DeviceReading(devices[0].id, memory_used=3 << 20, utilization=42, power=71.5,
                          processes=(process,))]
"""
FAILS = """
def links(devices):
    raise RuntimeError("no luck")

def readings(devices):
    return [17]
"""


class Code(str):
    """Source that stands in a plugin's record as it is written."""

    __repr__ = str.__str__


@pytest.fixture
def run(plugins, as_default, monkeypatch, tmp_path):
    """Return a function that runs a command on a plugin with such callables."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(extra, *arguments):
        plugins.add("one", extra=extra, links=Code("links"), readings=Code("readings"))
        as_default(plugins.runtime())
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    return run


def test_topo_has_a_plugins_links_from_either_side(run):
    (platform,) = json.loads(run(REPORTS, "topo", "--json").stdout)["platforms"]
    assert platform["matrix"] == [["X", "FAST4"], ["FAST4", "X"]]
    assert (platform["elsewhere"], platform["problem"]) == (0, None)


def test_topo_without_links_or_addresses_says_that_nobody_says(run):
    done = run(FAILS, "topo")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["one:0", "X", "?", "-", "-"]
    assert "its links raised RuntimeError: no luck" in done.stdout
    assert lines[-1].split()[0] == "?"


def test_top_has_a_plugins_readings_and_the_names_of_processes(run):
    first, second = json.loads(run(REPORTS, "top", "--json").stdout)["devices"]
    assert (first["used"], first["utilization"], first["power"]) == (3 << 20, 42, 71.5)
    (process,) = first["processes"]
    assert (process["pid"], process["bytes"]) == (os.getpid(), 1 << 20)
    assert process["name"]
    assert (second["used"], second["processes"]) == (None, [])


def test_top_shows_the_devices_where_a_plugins_readings_fail(run):
    done = run(FAILS, "top", "--once")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:3]] == ["one:0", "one:1"]
    assert "one: its readings raised AttributeError" in done.stdout

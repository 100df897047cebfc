"""``devrt topo`` and ``devrt top`` on what plugins report, and on plugins that fail at it."""

import json
import os

import pytest
from click.testing import CliRunner

from devrt import hardware
from devrt.cli import main

REPORTS = """
import os
from devrt.hardware import DeviceLink, DeviceProcess, DeviceReading

def links(devices):
    return [DeviceLink(devices[1].id, devices[0].id, "FAST", 4)]

def readings(devices):
    process = DeviceProcess(os.getpid(), 1 << 20)
    return [DeviceReading(devices[0].id, memory_used=3 << 20, utilization=42, power=71.5,
                          memory_numa_node=9, processes=(process,))]
"""
FAILS = """
def links(devices):
    raise RuntimeError("no luck")

def readings(devices):
    return [17]
"""

MACHINE = (
    REPORTS
    + """
def machine():
    process = DeviceProcess(os.getpid(), None)
    return [DeviceReading(5, memory_used=1 << 30, memory_total=2 << 30, utilization=7,
                          kind="One X", pci_bus_id="0000:3b:00.0", processes=(process,))]
"""
)
MACHINE_FAILS = REPORTS + "def machine():\n    raise OSError('no library')\n"
REFUSES = "raise AssertionError('a client is made')"


class Code(str):
    """Source that stands in a plugin's record as it is written."""

    __repr__ = str.__str__


@pytest.fixture
def run(plugins, as_default, monkeypatch, tmp_path):
    """Return a function that runs a command on a plugin with such callables."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(extra, *arguments, **fields):
        plugins.add("one", extra=extra, links=Code("links"), readings=Code("readings"), **fields)
        as_default(plugins.runtime())
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    return run


def test_topo_has_a_plugins_links_from_either_side(run):
    (platform,) = json.loads(run(REPORTS, "topo", "--json").stdout)["platforms"]
    assert platform["matrix"] == [["X", "FAST4"], ["FAST4", "X"]]
    assert (platform["elsewhere"], platform["problem"]) == (0, None)


def test_topo_has_the_columns_of_nvidia_smi(run):
    lines = run(REPORTS, "topo").stdout.splitlines()
    assert lines[1].split(maxsplit=2)[2] == "CPU Affinity  NUMA Affinity  GPU NUMA ID"
    assert [line.split()[-1] for line in lines[2:4]] == ["9", "N/A"]


def test_topo_without_links_or_addresses_says_that_nobody_says(run):
    done = run(FAILS, "topo")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["one:0", "X", "?", "N/A", "N/A", "N/A"]
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


def test_top_counts_each_kind_of_memory_of_each_client(run):
    first, _ = json.loads(run(REPORTS, "top", "--json").stdout)["devices"]
    assert first["client"] == "one@fake-one"
    assert first["memory"] == {"device": 0}


def test_top_has_a_line_for_the_memory_of_each_client(run):
    lines = run(REPORTS, "top", "--once").stdout.splitlines()
    assert "one:0   one@fake-one  device 0 B" in lines


def test_top_shows_the_machine_and_makes_no_client(run):
    done = run(MACHINE, "top", "--json", machine=Code("machine"), make=REFUSES)
    (row,) = json.loads(done.stdout)["devices"]
    assert (row["platform"], row["id"], row["kind"]) == ("one", 5, "One X")
    assert (row["used"], row["total"], row["utilization"]) == (1 << 30, 2 << 30, 7)
    assert (row["pci_bus_id"], row["client"], row["memory"]) == ("0000:3b:00.0", None, {})
    assert [p["pid"] for p in row["processes"]] == [os.getpid()]


def test_top_has_a_table_of_the_machines_processes(run):
    named = ("--platform", "one")
    done = run(MACHINE, "top", "--once", *named, machine=Code("machine"), make=REFUSES)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["one:5", "1.0", "GiB", "2.0", "GiB", "7%", "-", "-", "One", "X"]
    assert lines[-1][:3] == ["one:5", str(os.getpid()), "-"]


def test_top_takes_a_client_where_the_machine_cannot_be_read(run):
    done = run(MACHINE_FAILS, "top", "--json", machine=Code("machine"))
    first, _ = json.loads(done.stdout)["devices"]
    assert (first["client"], first["used"]) == ("one@fake-one", 3 << 20)


MOCK = "(OptionSpec(name='one_mock', type=str, default='', help='Simulated.'),)"


@pytest.mark.parametrize("command", ["top", "topo"])
def test_simulated_devices_are_shown_in_place_of_the_machines(run, command):
    given = ("--mock", "one:3", "--json")
    make = "return AcmeClient(int(context.options['one_mock']))"
    done = run(REPORTS, command, *given, options=Code(MOCK), make=make, simulates=True)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    rows = report["devices"] if command == "top" else report["platforms"][0]["devices"]
    assert [row["id"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize("interval", ["nan", "inf", "1e300", "0"])
def test_what_no_wait_can_last_is_refused_before_anything_is_drawn(run, interval):
    done = run(REPORTS, "top", "--interval", interval)
    assert done.exit_code == 2
    assert "Invalid value for '--interval'" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("given", [(), ("--json",)], ids=str)
def test_topo_ends_with_an_error_where_a_backend_fails(run, plugins, given):
    plugins.add("other", make="raise OSError('driver too old')")
    done = run(REPORTS, "topo", *given)
    assert done.exit_code == 1
    assert "driver too old" in done.output
    assert "one" in done.stdout


@pytest.mark.parametrize("options", ["()", MOCK])
def test_a_platform_without_simulated_devices_says_so(run, options):
    done = run(REPORTS, "top", "--mock", "one:2", options=Code(options))
    assert done.exit_code == 1
    assert "platform 'one' has no simulated devices" in done.stderr


def test_processors_near_a_device_are_those_of_its_node_or_of_the_bus(tmp_path):
    for path, cpus in (
        ("devices/system/node/node1", "cpulist 8-15"),
        ("bus/pci/devices/0000:3b:00.0", "local_cpulist 0-7"),
    ):
        name, text = cpus.split()
        (tmp_path / "sys" / path).mkdir(parents=True)
        (tmp_path / "sys" / path / name).write_text(f"{text}\n")
    assert hardware.numa_cpus(1, root=tmp_path) == "8-15"
    assert hardware.pci_cpus("0000:3b:00.0", root=tmp_path) == "0-7"
    assert hardware.pci_cpus("0000:3c:00.0", root=tmp_path) == ""

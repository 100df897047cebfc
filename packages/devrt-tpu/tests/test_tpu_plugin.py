"""What the tpu plugin registers and says, on trees of files made for each case."""

import importlib.metadata
import tomllib
from importlib.resources import files

import pytest

from devrt.contract import PjrtLoader
from devrt.errors import BackendUnavailableError
from devrt.plugins import PluginRegistry
from devrt.records import Available, ClientContext, ClientFactory, Unavailable
from devrt_tpu import _machine, plugin
from devrt_tpu.traits import TPU
from support import python, write

VERSION = importlib.metadata.version("devrt-tpu")


def add_chip(root, number, device="0x0063", vendor="0x1ae0"):
    write(root, f"sys/bus/pci/devices/0000:0{number}:00.0/vendor", f"{vendor}\n")
    write(root, f"sys/bus/pci/devices/0000:0{number}:00.0/device", f"{device}\n")


def add_libtpu(root):
    write(root, "site/libtpu/libtpu.so")
    return str(write(root, "site/libtpu/__init__.py").parent.parent)


def probe(root, environ=None, search_path=()):
    return _machine.probe(root, environ or {}, list(search_path))


def test_one_platform_is_registered_as_jax_registers_it():
    (record,) = plugin.devrt_client_factories()
    assert record == ClientFactory(
        library=plugin.library,
        probe=plugin.probe,
    )
    row = tomllib.loads(files("devrt_tpu").joinpath("devrt.toml").read_text())["backend"][0]
    assert (row["priority"], row["fail_quietly"], row["pjrt_loader"]) == (
        300,
        True,
        True,
    )


def test_no_chip(tmp_path):
    assert probe(tmp_path).reason == "no TPU chip is on the PCI bus of this machine"


@pytest.mark.parametrize(
    ("vendor", "device"),
    [
        ("0x1ae0", "0x0042"),  # a network card of the same vendor
        ("0x1ae0", "garbled"),
        ("0x10de", "0x0063"),
    ],
)
def test_other_hardware_is_no_chip(tmp_path, vendor, device):
    add_chip(tmp_path, 1, device, vendor)
    write(tmp_path, "dev/accel0")
    write(tmp_path, "dev/vfio/0")
    assert probe(tmp_path).reason.startswith("no TPU chip")


def test_chips_without_devices(tmp_path):
    add_chip(tmp_path, 1)
    add_chip(tmp_path, 2)
    write(tmp_path, "dev/vfio/vfio")  # the control node, which is there without any chip
    answer = probe(tmp_path)
    assert answer.reason.startswith("2 TPU chips (v5e) on the PCI bus, but no /dev/accel<N>")
    assert "--privileged" in answer.remedy


@pytest.mark.parametrize("node", ["dev/accel0", "dev/vfio/0"])
def test_no_library(tmp_path, node):
    add_chip(tmp_path, 1)
    write(tmp_path, node)
    answer = probe(tmp_path)
    assert answer.reason == "package libtpu is not installed and TPU_LIBRARY_PATH is not set"
    assert "pip install libtpu" in answer.remedy


def test_a_library_path_that_names_no_file(tmp_path):
    add_chip(tmp_path, 1)
    write(tmp_path, "dev/accel0")
    answer = probe(
        tmp_path, {"TPU_LIBRARY_PATH": "/opt/libtpu.so"}, search_path=[add_libtpu(tmp_path)]
    )
    assert answer.reason == "TPU_LIBRARY_PATH names /opt/libtpu.so, which is no file"


def test_all_is_here_with_the_package(tmp_path):
    add_chip(tmp_path, 1, "0x005e")
    write(tmp_path, "dev/accel0")
    assert probe(tmp_path, search_path=[add_libtpu(tmp_path)]) == Available("1 TPU chip (v4)")


def test_all_is_here_with_the_library_path(tmp_path):
    add_chip(tmp_path, 1)
    write(tmp_path, "dev/vfio/7")
    write(tmp_path, "opt/libtpu.so")
    answer = probe(tmp_path, {"TPU_LIBRARY_PATH": "/opt/libtpu.so"})
    assert answer == Available("1 TPU chip (v5e)")


def test_the_package_is_not_imported_to_be_found(tmp_path):
    folder = add_libtpu(tmp_path)
    write(tmp_path, "site/libtpu/__init__.py", "raise SystemExit('imported')")
    found = _machine.find_library(tmp_path, {}, [folder])
    assert found == str(tmp_path / "site/libtpu/libtpu.so")


def test_a_package_without_its_library_does_not_count(tmp_path):
    folder = add_libtpu(tmp_path)
    (tmp_path / "site/libtpu/libtpu.so").unlink()
    assert isinstance(_machine.find_library(tmp_path, {}, [folder]), Unavailable)


def test_without_a_library_there_is_neither_client_nor_topology(monkeypatch):
    missing = Unavailable("package libtpu is not installed", "Run pip install libtpu.")
    monkeypatch.setattr(_machine, "find_library", lambda: missing)
    registry = PluginRegistry()
    (ref,) = (ref for ref in registry.refs() if ref.name == "tpu@devrt-tpu")
    loaded = registry.load(ref)
    ((topology,), factory) = loaded.topologies, loaded.client_factory()
    for make in (lambda: factory.factory(ClientContext()), lambda: topology.factory("v5e:2x2")):
        with pytest.raises(BackendUnavailableError, match="libtpu is not installed") as caught:
            make()
        assert caught.value.platform == "tpu"
        assert caught.value.remedy == "Run pip install libtpu."


def test_the_loader_takes_any_library():
    loader = plugin.devrt_pjrt_loader()
    assert isinstance(loader, PjrtLoader)
    answer = loader.check("nowhere/plugin.so")
    assert "there is no such file" in answer.reason


def test_the_environment_is_prepared_only_where_there_is_no_chip(monkeypatch):
    monkeypatch.setattr(_machine, "has_chips", lambda: False)
    assert TPU.environment()["TPU_SKIP_MDS_QUERY"] == "1"
    monkeypatch.setattr(_machine, "has_chips", lambda: True)
    assert TPU.environment() == {}


def test_the_doctor_is_reported_what_the_library_changes():
    from devrt_tpu import _machine, plugin

    library = _machine.find_library()
    if not isinstance(library, str):
        assert plugin.devrt_doctor_findings() == []
        pytest.skip("libtpu is not installed")
    (finding,) = plugin.devrt_doctor_findings()
    assert finding.severity == "info"
    assert library in finding.message
    code = """
import signal, sys
from devrt_tpu import _machine
import devrt_pjrt as pjrt
for name in _machine.LIBRARY_HANDLERS:  # what a parent ignores, its children ignore too
    signal.signal(getattr(signal, name), signal.SIG_DFL)
from devrt_tpu.traits import TPU
library = pjrt.library_for("tpu", sys.argv[1], traits=[TPU])
library.initialize()
print(*library.changes.handlers)
"""
    done = python(code, library, options=())
    assert set(done.stdout.split()) == set(_machine.LIBRARY_HANDLERS)
    assert all(name in finding.message for name in _machine.LIBRARY_HANDLERS)

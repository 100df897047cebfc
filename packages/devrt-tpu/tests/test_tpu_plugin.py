"""What the tpu plugin registers and says, on trees of files made for each case."""

import importlib.metadata
import subprocess
import sys

import pytest

from devrt.errors import StatusCode, UnimplementedError
from devrt.records import ClientContext, ClientFactory, Unavailable
from devrt_tpu import _machine, plugin

VERSION = importlib.metadata.version("devrt-tpu")
NO_CLIENT = f"devrt-tpu {VERSION} has no client yet"


def write(root, path, content=""):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def add_chip(root, number, device="0x0063", vendor="0x1ae0"):
    write(root, f"sys/bus/pci/devices/0000:0{number}:00.0/vendor", f"{vendor}\n")
    write(root, f"sys/bus/pci/devices/0000:0{number}:00.0/device", f"{device}\n")


def add_libtpu(root):
    return str(write(root, "site/libtpu/__init__.py").parent.parent)


def probe(root, environ=None, search_path=()):
    return _machine.probe(root, environ or {}, list(search_path))


def test_one_platform_is_registered_as_jax_registers_it():
    (record,) = plugin.devrt_client_factories()
    assert record == ClientFactory(
        platform="tpu",
        priority=300,
        fail_quietly=True,
        factory=plugin.make_client,
        probe=plugin.probe,
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


def test_all_is_here_but_the_client_with_the_package(tmp_path):
    add_chip(tmp_path, 1, "0x005e")
    write(tmp_path, "dev/accel0")
    answer = probe(tmp_path, search_path=[add_libtpu(tmp_path)])
    assert answer.reason == f"1 TPU chip (v4) and libtpu are here, but {NO_CLIENT}"
    assert "DEVRT_PLATFORMS=cpu" in answer.remedy


def test_all_is_here_but_the_client_with_the_library_path(tmp_path):
    add_chip(tmp_path, 1)
    write(tmp_path, "dev/vfio/7")
    write(tmp_path, "opt/libtpu.so")
    answer = probe(tmp_path, {"TPU_LIBRARY_PATH": "/opt/libtpu.so"})
    assert answer.reason == f"1 TPU chip (v5e) and libtpu are here, but {NO_CLIENT}"


def test_the_package_is_not_imported_to_be_found(tmp_path):
    add_chip(tmp_path, 1)
    write(tmp_path, "dev/accel0")
    folder = add_libtpu(tmp_path)
    write(tmp_path, "site/libtpu/__init__.py", "raise SystemExit('imported')")
    assert NO_CLIENT in probe(tmp_path, search_path=[folder]).reason


def test_the_factory_refuses_in_the_words_of_the_probe():
    with pytest.raises(UnimplementedError, match=NO_CLIENT) as caught:
        plugin.make_client(ClientContext())
    assert caught.value.code is StatusCode.UNIMPLEMENTED
    assert caught.value.platform == "tpu"
    assert caught.value.plugin == "devrt-tpu"
    assert "DEVRT_PLATFORMS=cpu" in str(caught.value)


def test_the_probe_of_this_machine_never_claims_the_platform():
    answer = plugin.probe()
    assert isinstance(answer, Unavailable)
    assert answer.reason
    assert answer.remedy.endswith(".") or "https://" in answer.remedy


def test_importing_and_probing_load_no_native_library():
    script = (
        "import sys, devrt.hookspecs\n"
        "before = set(sys.modules)\n"
        "import devrt_tpu.plugin as plugin\n"
        "plugin.probe(), plugin.devrt_client_factories()\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names | new & {'ctypes'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "['devrt', 'devrt_tpu']\n",
        "",
    )


def test_the_version_is_the_distributions():
    import devrt_tpu

    assert devrt_tpu.__version__ == VERSION
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        devrt_tpu.nothing  # noqa: B018

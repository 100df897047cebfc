"""What the cuda plugin registers and says, on trees of files made for each case."""

import importlib.metadata

import pytest

from devrt_cuda import _machine
from support import add_pci, write

VERSION = importlib.metadata.version("devrt-cuda")
NO_CLIENT = f"devrt-cuda {VERSION} has no client of its own yet"
INSTALL = 'pip install ./packages/devrt-tpu "./packages/devrt-cuda[xla]"'


def add_driver(root, version="580.65.06"):
    line = (
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Jan  2 03:04:05 UTC 2025"
    )
    write(root, "proc/driver/nvidia/version", f"{line}\nGCC version:  gcc version 12.2.0\n")


def add_library(root, folder="usr/lib"):
    write(root, f"{folder}/libcuda.so.580.65.06")
    (root / folder / "libcuda.so.1").symlink_to("libcuda.so.580.65.06")


def probe(root):
    return _machine.probe(root, {})


def test_no_gpu(tmp_path):
    answer = probe(tmp_path)
    assert answer.reason.startswith("no NVIDIA GPU was found")
    assert answer.remedy.endswith("compiled for GPUs here all the same.")


@pytest.mark.parametrize("class_code", ["0x030000", "0x030200"])
def test_a_gpu_without_its_driver(tmp_path, class_code):
    add_pci(tmp_path, "0x10de", class_code)
    assert probe(tmp_path).reason == "an NVIDIA GPU is here, but its kernel driver is not loaded"


@pytest.mark.parametrize(("vendor", "class_code"), [("0x10de", "0x020000"), ("0x1002", "0x030000")])
def test_other_hardware_is_no_gpu(tmp_path, vendor, class_code):
    add_pci(tmp_path, vendor, class_code)
    assert probe(tmp_path).reason.startswith("no NVIDIA GPU was found")


def test_a_driver_without_devices(tmp_path):
    add_driver(tmp_path)
    write(tmp_path, "dev/nvidiactl")
    answer = probe(tmp_path)
    assert "no device /dev/nvidia<N> is visible" in answer.reason
    assert "--gpus" in answer.remedy


def test_a_driver_without_its_library(tmp_path):
    add_driver(tmp_path)
    write(tmp_path, "dev/nvidia0")
    answer = probe(tmp_path)
    assert "libcuda.so.1 is not" in answer.reason
    assert "NVIDIA_DRIVER_CAPABILITIES" in answer.remedy


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("580.65.06", "580.65.06"),
        ("550.54", "550.54"),
        ("none", "unknown"),
    ],
)
def test_all_is_here_but_the_client(tmp_path, monkeypatch, version, shown):
    monkeypatch.setattr(_machine, "_PLUGINS", ())
    add_driver(tmp_path, version)
    write(tmp_path, "dev/nvidia3")
    add_library(tmp_path)
    answer = probe(tmp_path)
    assert answer.reason == f"the driver is here (version {shown}), but {NO_CLIENT}"
    assert INSTALL in answer.remedy


def test_where_xla_s_plugin_is_installed_it_serves_the_platform(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(
        tmp_path,
        "jax_cuda13_pjrt-9.9.dist-info/METADATA",
        "Metadata-Version: 2.1\nName: jax-cuda13-pjrt\nVersion: 9.9\n",
    )
    assert _machine.what_to_install() == (
        "jax-cuda13-pjrt 9.9, which the PJRT loader runs, serves the platform."
    )


def test_without_xla_s_plugin_it_is_what_to_install(monkeypatch):
    monkeypatch.setattr(_machine, "_PLUGINS", ("no-such-plugin",))
    assert _machine.what_to_install().endswith(f"{INSTALL} (in devrt's checkout)")


def test_every_gpu_that_is_known_leads_to_this_distribution():
    from devrt.plugins.discovery.known import wheels_for_topology
    from devrt_cuda._topology import GPUS

    assert {name: wheels_for_topology(f"{name}:1x1x8") for name in GPUS} == {
        name: {"cuda": "devrt-cuda"} for name in GPUS
    }


def test_the_open_kernel_module_names_its_version_too(tmp_path):
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
    write(tmp_path, "proc/driver/nvidia/version", text)
    write(tmp_path, "dev/nvidia0")
    add_library(tmp_path)
    assert "(version 570.86.15)" in probe(tmp_path).reason


def test_a_windows_guest_has_its_version_from_the_library(tmp_path):
    write(tmp_path, "dev/dxg")
    assert probe(tmp_path).reason.startswith("this is a Windows guest, and Windows gives it no lib")
    add_library(tmp_path, "usr/lib/wsl/lib")
    assert "(version 580.65.06)" in probe(tmp_path).reason


def test_the_library_is_found_through_the_environment(tmp_path):
    add_driver(tmp_path)
    write(tmp_path, "dev/nvidia0")
    add_library(tmp_path, "opt/driver")
    answer = _machine.probe(tmp_path, {"LD_LIBRARY_PATH": "/opt/driver"})
    assert NO_CLIENT in answer.reason

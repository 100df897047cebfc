"""What the cuda plugin registers and says, on trees of files made for each case."""

import subprocess
import sys

import pytest

from devrt.records import Available
from devrt_cuda import _machine
from support import add_pci, write


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
def test_all_is_here(tmp_path, version, shown):
    add_driver(tmp_path, version)
    write(tmp_path, "dev/nvidia3")
    add_library(tmp_path)
    assert probe(tmp_path) == Available(f"driver {shown}")


PROGRAM = """
import sys
import devrt

platform = sys.argv[1]
devrt.config.update(f"{platform}_mock", "3")
print(len(devrt.devices(platform)))
with devrt.Runtime() as other:
    print(len(other.decide(platform).usable))
"""


def test_simulated_devices_that_a_call_asks_for_need_nothing(vendor):
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, vendor.platform]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["3", "0"]  # another runtime has a configuration of its own


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
    assert probe(tmp_path) == Available("driver 570.86.15")


def test_a_windows_guest_has_its_version_from_the_library(tmp_path):
    write(tmp_path, "dev/dxg")
    assert probe(tmp_path).reason.startswith("this is a Windows guest, and Windows gives it no lib")
    add_library(tmp_path, "usr/lib/wsl/lib")
    assert probe(tmp_path) == Available("driver 580.65.06")


def test_the_library_is_found_through_the_environment(tmp_path):
    add_driver(tmp_path)
    write(tmp_path, "dev/nvidia0")
    add_library(tmp_path, "opt/driver")
    found = _machine.probe(tmp_path, {"LD_LIBRARY_PATH": "/opt/driver"})
    assert found == Available("driver 580.65.06")

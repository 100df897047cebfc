"""What the rocm plugin registers and says, on trees of files made for each case."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from devrt.records import Available
from devrt_rocm import _machine
from support import add_pci, write


def add_driver(root, *gpu_ids):
    write(root, "dev/kfd")
    for number, gpu_id in enumerate(gpu_ids):
        write(root, f"sys/class/kfd/kfd/topology/nodes/{number}/gpu_id", f"{gpu_id}\n")


def add_runtime(root, release="rocm-7.0.1", library="libamdhip64.so.7", version="7.0.1-42\n"):
    write(root, f"opt/{release}/lib/{library}")
    if version:
        write(root, f"opt/{release}/.info/version", version)


def probe(root):
    return _machine.probe(root, {})


@pytest.fixture
def open_folder():
    """A folder that every user can reach, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def other_user():
    """Run as a user whom permissions bind: the superuser passes every check."""
    uid = os.geteuid()
    if uid == 0:
        os.seteuid(65534)
    yield
    os.seteuid(uid)


def test_no_gpu(tmp_path):
    answer = probe(tmp_path)
    assert answer.reason == "no AMD GPU was found (no /dev/kfd)"
    assert answer.remedy.endswith("DEVRT_PLATFORMS=cpu.")


@pytest.mark.parametrize("class_code", ["0x030000", "0x038000", "0x120000"])
def test_a_gpu_without_its_driver(tmp_path, class_code):
    add_pci(tmp_path, "0x1002", class_code)
    answer = probe(tmp_path)
    assert answer.reason.startswith("an AMD GPU is here, but /dev/kfd is not")
    assert "--device /dev/kfd" in answer.remedy


@pytest.mark.parametrize(("vendor", "class_code"), [("0x1002", "0x060000"), ("0x10de", "0x030000")])
def test_other_hardware_is_no_gpu(tmp_path, vendor, class_code):
    add_pci(tmp_path, vendor, class_code)
    assert probe(tmp_path).reason.startswith("no AMD GPU was found")


def test_a_user_who_may_not_open_the_driver(open_folder, other_user):
    uid = os.geteuid()
    os.seteuid(os.getuid())
    add_driver(open_folder, 1234)
    (open_folder / "dev/kfd").chmod(0)
    os.seteuid(uid)
    answer = probe(open_folder)
    assert answer.reason == "this user may not open /dev/kfd"
    assert "render" in answer.remedy


@pytest.mark.parametrize("gpu_ids", [(), (0,), (0, 0)])
def test_a_driver_that_lists_processors_only(tmp_path, gpu_ids):
    add_driver(tmp_path, *gpu_ids)
    assert probe(tmp_path).reason == "the amdgpu driver is loaded, but it lists no GPU"


def test_a_driver_without_the_runtime(tmp_path):
    add_driver(tmp_path, 0, 51966)
    answer = probe(tmp_path)
    assert "the HIP runtime is not (libamdhip64.so.7 or libamdhip64.so.6" in answer.reason
    assert "LD_LIBRARY_PATH" in answer.remedy


@pytest.mark.parametrize(
    ("library", "version", "shown"),
    [
        ("libamdhip64.so.7", "7.0.1-42\n", "libamdhip64.so.7, ROCm 7.0.1-42"),
        ("libamdhip64.so.6", "6.2.0\n", "libamdhip64.so.6, ROCm 6.2.0"),
        ("libamdhip64.so.7", None, "libamdhip64.so.7, ROCm of unknown version"),
    ],
)
def test_all_is_here(tmp_path, library, version, shown):
    add_driver(tmp_path, 0, 51966)
    add_runtime(tmp_path, library=library, version=version)
    assert probe(tmp_path) == Available(shown)


def test_the_newer_runtime_of_two_is_named(tmp_path):
    add_driver(tmp_path, 51966)
    add_runtime(tmp_path, "rocm-6.2.0", "libamdhip64.so.6", "6.2.0")
    add_runtime(tmp_path)
    assert probe(tmp_path) == Available("libamdhip64.so.7, ROCm 7.0.1-42")

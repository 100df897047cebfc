"""The vendor-neutral look at PCI ids and library files, on trees made for the test."""

import os
import sys
from pathlib import Path

import pytest

from devrt.hardware import (
    PciDevice,
    find_shared_library,
    numa_cpus,
    pci_connection,
    pci_devices,
    pci_vendors,
)


def write(root, path, content=""):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def add_pci(root, address, vendor, device="0x0001", class_code="0x030200"):
    folder = f"sys/bus/pci/devices/{address}"
    write(root, f"{folder}/vendor", f"{vendor}\n")
    write(root, f"{folder}/device", f"{device}\n")
    write(root, f"{folder}/class", f"{class_code}\n")


def find(*names, root, **options):
    return find_shared_library(*names, root=root, environ=options.pop("environ", {}), **options)


def test_pci_devices_are_those_of_one_vendor_by_address(tmp_path):
    add_pci(tmp_path, "0000:03:00.0", "0xabcd", "0x0002")
    add_pci(tmp_path, "0000:01:00.0", "0xabcd", "0x0001", "0x120000")
    add_pci(tmp_path, "0000:02:00.0", "0x8086")
    assert pci_devices(0xABCD, root=tmp_path) == (
        PciDevice("0000:01:00.0", 0xABCD, 0x0001, 0x120000),
        PciDevice("0000:03:00.0", 0xABCD, 0x0002, 0x030200),
    )


def test_the_vendors_on_the_bus(tmp_path):
    assert pci_vendors(root=tmp_path) == frozenset()
    for address, vendor in (("0000:01:00.0", 0xABCD), ("0000:02:00.0", 0x1234)):
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor:#06x}\n")
    assert pci_vendors(root=tmp_path) == {0xABCD, 0x1234}
    table = tmp_path / "proc/bus/pci/devices"
    table.parent.mkdir(parents=True)
    for text, found in (
        ("0008\t8086abcd\tb\t0\n0010\tabcd0001\t0\tdriver\n", {0x8086, 0xABCD}),
        ("", {0xABCD, 0x1234}),
        ("unusual\n", {0xABCD, 0x1234}),
    ):
        table.write_text(text)
        assert pci_vendors(root=tmp_path) == found


def test_the_vendors_of_this_machine_are_those_of_its_devices():
    from_bus = {int(p.read_text(), 16) for p in Path("/sys/bus/pci/devices").glob("*/vendor")}
    assert pci_vendors() == from_bus


def test_pci_devices_are_none_where_there_is_no_bus(tmp_path):
    assert pci_devices(0xABCD, root=tmp_path) == ()


@pytest.mark.parametrize("content", ["", "not a number", "\x00"])
def test_an_unreadable_pci_vendor_is_no_match(tmp_path, content):
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/vendor", content)
    assert pci_devices(0xABCD, root=tmp_path) == ()


def test_a_pci_device_without_its_other_files_still_counts(tmp_path):
    write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/vendor", "0xabcd")
    assert pci_devices(0xABCD, root=tmp_path) == (PciDevice("0000:01:00.0", 0xABCD, -1, -1),)


@pytest.mark.parametrize("folder", ["lib", "lib64", "usr/lib", "usr/lib64"])
def test_library_in_a_standard_folder(tmp_path, folder):
    file = write(tmp_path, f"{folder}/libx.so.1")
    assert find("libx.so.1", root=tmp_path) == file


@pytest.mark.skipif(
    not hasattr(sys.implementation, "_multiarch"), reason="this Python names no multiarch folder"
)
def test_library_in_the_folder_of_this_architecture_only(tmp_path):
    write(tmp_path, "usr/lib/other-linux-gnu/libx.so.1")
    assert find("libx.so.1", root=tmp_path) is None
    file = write(tmp_path, f"usr/lib/{sys.implementation._multiarch}/libx.so.1")
    assert find("libx.so.1", root=tmp_path) == file


def test_library_path_variable_comes_first(tmp_path):
    write(tmp_path, "lib/libx.so.1")
    file = write(tmp_path, "opt/mine/libx.so.1")
    environ = {"LD_LIBRARY_PATH": os.pathsep.join(["", "/opt/none", "/opt/mine"])}
    assert find("libx.so.1", root=tmp_path, environ=environ) == file


def test_library_that_only_the_cache_knows(tmp_path):
    file = write(tmp_path, "opt/far/libx.so.1")
    write(tmp_path, "etc/ld.so.cache", b"head\0/opt/far/liby.so\0/opt/far/libx.so.1\0libx.so.1\0")
    assert find("libx.so.1", root=tmp_path) == file


@pytest.mark.parametrize(
    "cache",
    [
        b"\0/opt/far/libx.so.1\0",  # the file is gone
        b"\0/opt/far/libx.so.12\0/opt/far/libx.so\0",  # other versions
        b"\0far/libx.so.1\0",  # not a full path
        b"/libx.so.1",  # cut off
        b"",
    ],
)
def test_cache_entries_that_are_no_answer(tmp_path, cache):
    write(tmp_path, "opt/far/libx.so.12")
    write(tmp_path, "etc/ld.so.cache", cache)
    assert find("libx.so.1", root=tmp_path) is None


def test_more_folders_may_hold_wildcards_and_come_last(tmp_path):
    extra = write(tmp_path, "opt/vendor-2.1/lib/libx.so.1")
    assert find("libx.so.1", root=tmp_path, folders=["opt/vendor-*/lib"]) == extra
    usual = write(tmp_path, "usr/lib/libx.so.1")
    assert find("libx.so.1", root=tmp_path, folders=["opt/vendor-*/lib"]) == usual


def test_the_preferred_name_wins_wherever_it_is(tmp_path):
    write(tmp_path, "lib/libx.so.1")
    newer = write(tmp_path, "opt/vendor/lib/libx.so.2")
    assert find("libx.so.2", "libx.so.1", root=tmp_path, folders=["opt/vendor/lib"]) == newer


def test_a_folder_or_a_dangling_link_is_no_library(tmp_path):
    (tmp_path / "lib/libx.so.1").mkdir(parents=True)
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/libx.so.1").symlink_to("libx.so.1.9")
    assert find("libx.so.1", root=tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name their C library otherwise")
def test_the_real_machine_has_a_c_library():
    found = find_shared_library("libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1")
    assert found is not None
    assert found.is_file()


def add_way(root, *way, node=0):
    """Make a device below its bridges as the kernel lays them out, and its entry on the bus."""
    folder = root.joinpath("sys/devices", *way)
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{node}\n")
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / way[-1]).symlink_to(os.path.relpath(folder, bus))
    return way[-1]


def test_what_data_passes_between_two_pci_devices(tmp_path):
    switch = ("pci0000:3a", "0000:3a:00.0", "0000:3b:00.0")
    first = add_way(tmp_path, *switch, "0000:3c:00.0", "0000:3d:00.0")
    same_switch = add_way(tmp_path, *switch, "0000:3c:10.0", "0000:3e:00.0")
    deeper = add_way(tmp_path, *switch, "0000:3c:18.0", "0000:40:00.0", "0000:41:00.0")
    same_bridge = add_way(tmp_path, "pci0000:3a", "0000:3a:02.0", "0000:60:00.0")
    same_node = add_way(tmp_path, "pci0000:80", "0000:80:00.0", "0000:81:00.0")
    far = add_way(tmp_path, "pci0000:c0", "0000:c0:00.0", "0000:c1:00.0", node=1)
    found = {
        name: pci_connection(first, other, root=tmp_path)
        for name, other in {
            "PIX": same_switch,
            "PXB": deeper,
            "PHB": same_bridge,
            "NODE": same_node,
            "SYS": far,
            "": "0000:ff:00.0",
        }.items()
    }
    assert found == {name: name for name in found}
    assert pci_connection(deeper, first, root=tmp_path) == "PXB"


def test_the_processors_of_a_numa_node(tmp_path):
    write(tmp_path, "sys/devices/system/node/node1/cpulist", "16-31,48-63\n")
    assert numa_cpus(1, root=tmp_path) == "16-31,48-63"
    assert numa_cpus(0, root=tmp_path) == ""

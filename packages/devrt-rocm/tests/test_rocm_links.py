"""Links between AMD's GPUs, from sysfs as the kernel lays it out."""

from types import SimpleNamespace

import pytest

from devrt.hardware import DeviceLink
from devrt_rocm._kfd import xgmi_links

NODES = "sys/class/kfd/kfd/topology/nodes"


def add_node(root, number, *, location=0, simds=0, links=()):
    """Make a node's folder; ``links`` are pairs of a type and the node that it leads to."""
    folder = root / NODES / str(number)
    folder.mkdir(parents=True)
    text = f"cpu_cores_count 0\nsimd_count {simds}\nlocation_id {location}\ndomain 0\n"
    (folder / "properties").write_text(text)
    for index, (kind, to) in enumerate(links):
        link = folder / "io_links" / str(index)
        link.mkdir(parents=True)
        text = f"type {kind}\nversion_major 0\nnode_from {number}\nnode_to {to}\nweight 15\n"
        (link / "properties").write_text(text)


@pytest.fixture
def devices(tmp_path):
    """Return four devices, of which the first two are linked, with a node for the processor."""
    add_node(tmp_path, 0, links=[(2, 1), (2, 2), (2, 3), (2, 4)])
    add_node(tmp_path, 1, location=0x0300, simds=440, links=[(2, 0), (11, 2)])
    add_node(tmp_path, 2, location=0x2700, simds=440, links=[(2, 0), (11, 1)])
    add_node(tmp_path, 3, location=0x4308, simds=440, links=[(2, 0)])
    add_node(tmp_path, 4, location=0xC300, simds=440, links=[(2, 0), (2, 3)])
    addresses = ("0000:03:00.0", "0000:27:00.0", "0000:43:01.0", "0000:c3:00.0")
    return [
        SimpleNamespace(id=id, attributes={"pci_bus_id": address})
        for id, address in enumerate(addresses)
    ]


def test_xgmi_is_found_and_pci_is_left_to_the_bus(tmp_path, devices):
    assert xgmi_links(devices, tmp_path) == [DeviceLink(0, 1, "XGMI")]


def test_devices_that_the_kernel_does_not_show_have_no_links(tmp_path, devices):
    unknown = SimpleNamespace(id=9, attributes={})
    assert xgmi_links([devices[2], unknown], tmp_path) == []
    assert xgmi_links(devices, tmp_path / "elsewhere") == []

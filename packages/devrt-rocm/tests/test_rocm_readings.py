"""What AMD's GPUs do now, from sysfs as the kernel lays it out."""

from types import SimpleNamespace

import pytest

from devrt.hardware import DeviceProcess, DeviceReading
from devrt_rocm._amdgpu import machine, readings
from support import write

FIRST = "0000:03:00.0"
SECOND = "0000:27:00.0"


def add_card(root, number, address, **files):
    """Make a card's folder as the kernel does: a link to the device on the bus."""
    bus = f"sys/devices/pci0000:00/{address}"
    for name, text in ({"vendor": "0x1002", "device": "0x740c"} | files).items():
        write(root, f"{bus}/{name.replace('__', '/')}", f"{text}\n")
    card = root / f"sys/class/drm/card{number}"
    card.mkdir(parents=True)
    (card / "device").symlink_to(root / bus)


def add_node(root, number, gpu_id, location):
    folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
    write(root, f"{folder}/gpu_id", f"{gpu_id}\n")
    write(root, f"{folder}/properties", f"simd_count 440\nlocation_id {location}\ndomain 0\n")


@pytest.fixture
def root(tmp_path):
    """Return a machine with two GPUs, a card of another vendor, and a connector."""
    add_card(
        tmp_path,
        1,
        SECOND,
        mem_info_vram_total=str(64 << 30),
        mem_info_vram_used=str(1 << 20),
        gpu_busy_percent="0",
        hwmon__hwmon7__temp1_input="not a number",
        hwmon__hwmon7__power1_input="31500000",
    )
    add_card(
        tmp_path,
        0,
        FIRST,
        mem_info_vram_total=str(64 << 30),
        mem_info_vram_used=str(3 << 30),
        gpu_busy_percent="93",
        product_name="AMD Instinct MI250X",
        hwmon__hwmon4__temp1_input="41500",
        hwmon__hwmon4__power1_average="301000000",
    )
    add_card(tmp_path, 2, "0000:43:00.0", vendor="0x1a03", mem_info_vram_total="4096")
    add_card(tmp_path, 3, "0000:44:00.0")  # of AMD's, and no memory of its own
    (tmp_path / "sys/class/drm/card0-DP-1").mkdir()
    write(tmp_path, "sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n")  # a processor
    add_node(tmp_path, 1, 9091, 0x0300)
    add_node(tmp_path, 2, 3041, 0x2700)
    for pid, size in ((4242, 2 << 30), (17, 0)):
        write(tmp_path, f"sys/class/kfd/kfd/proc/{pid}/vram_9091", f"{size}\n")
    write(tmp_path, "sys/class/kfd/kfd/proc/55/vram_3041", "4096\n")
    return tmp_path


def test_the_machine_is_as_the_kernel_shows_it(root):
    assert machine(root) == [
        DeviceReading(
            0,
            memory_used=3 << 30,
            memory_total=64 << 30,
            utilization=93,
            temperature=41,
            power=301.0,
            processes=(DeviceProcess(4242, 2 << 30),),
            kind="AMD Instinct MI250X",
            pci_bus_id=FIRST,
        ),
        DeviceReading(
            1,
            memory_used=1 << 20,
            memory_total=64 << 30,
            utilization=0,
            power=31.5,
            processes=(DeviceProcess(55, 4096),),
            kind="AMD GPU 0x740c",
            pci_bus_id=SECOND,
        ),
    ]


def test_devices_of_a_client_are_found_by_their_addresses(root):
    devices = [
        SimpleNamespace(id=4, attributes={"pci_bus_id": SECOND}),
        SimpleNamespace(id=5, attributes={}),
        SimpleNamespace(id=6, attributes={"pci_bus_id": FIRST}),
    ]
    found = readings(devices, root)
    assert [(each.device, each.pci_bus_id) for each in found] == [(4, SECOND), (6, FIRST)]


def test_a_device_that_answers_nothing_is_shown_all_the_same(root):
    folder = root / f"sys/devices/pci0000:00/{FIRST}"
    for name in ("mem_info_vram_used", "gpu_busy_percent", "product_name"):
        (folder / name).unlink()
    first = machine(root)[0]
    assert (first.memory_used, first.utilization, first.kind) == (None, None, "AMD GPU 0x740c")


def test_a_machine_without_the_driver_has_no_devices(tmp_path):
    assert machine(tmp_path) == []

"""Hardware that nothing uses while the host's processor does the work."""

import re
import warnings

import pytest

from devrt.errors import DevrtWarning, DiscoveryWarning
from support import write

SEEN = {
    "a device node": ("dev/nvidia0", "", "cuda", "NVIDIA GPU is on this machine (/dev/nvidia0)"),
    "a compute node": ("dev/kfd", "", "rocm", "AMD GPU is on this machine (/dev/kfd)"),
}


@pytest.mark.parametrize("what", SEEN)
def test_hardware_that_no_backend_serves(plugins, reported, machine, what):
    name, text, platform, words = SEEN[what]
    plugins.add("cpu")
    write(machine, name, text)
    with plugins.runtime() as runtime:
        (message,) = reported(runtime)
    assert message.startswith(f"{words}, and only the host's processor is used: ")
    assert re.search(rf"pip install .*/devrt-{platform}\S* \(in devrt's checkout\)", message)
    assert "DEVRT_PLATFORMS=cpu" in message


def put_on_bus(machine, vendor, kind, model):
    bus = "sys/bus/pci/devices/0000:3b:00.0"
    for file, number in (("vendor", vendor), ("class", kind), ("device", model)):
        write(machine, f"{bus}/{file}", f"{number:#x}\n")


def test_hardware_on_the_bus(plugins, reported, machine):
    plugins.add("cpu")
    put_on_bus(machine, 0x10DE, 0x030200, 0x2330)
    write(machine, "dev/nvidia0")
    with plugins.runtime() as runtime:
        (message,) = reported(runtime)
    assert "(PCI 0000:3b:00.0 (10de:2330), /dev/nvidia0)" in message


def test_hardware_on_the_bus_with_a_node_that_others_have_too(plugins, reported, machine):
    plugins.add("cpu")
    write(machine, "dev/vfio/0")
    with plugins.runtime() as runtime:
        assert reported(runtime) == []
    put_on_bus(machine, 0x1AE0, 0x120000, 0x006F)
    with plugins.runtime() as runtime:
        (message,) = reported(runtime)
    assert message.startswith("Google TPU is on this machine")


def test_what_a_container_sees_of_its_host_is_no_hardware(plugins, reported, machine):
    plugins.add("cpu")
    put_on_bus(machine, 0x10DE, 0x030200, 0x2330)
    write(machine, "proc/driver/nvidia/version", "NVRM version: 1")
    with plugins.runtime() as runtime:
        assert reported(runtime) == []


@pytest.mark.parametrize(
    ("node", "variable"),
    [
        ("dev/nvidia0", "CUDA_VISIBLE_DEVICES"),
        ("dev/kfd", "HIP_VISIBLE_DEVICES"),
        ("dev/kfd", "ROCR_VISIBLE_DEVICES"),
    ],
)
def test_hardware_that_the_user_hid_is_not_missed(plugins, reported, machine, node, variable):
    plugins.add("cpu")
    write(machine, node)
    for value in ("", "-1"):
        with plugins.runtime(**{variable: value}) as runtime:
            assert reported(runtime) == []
    with plugins.runtime(**{variable: "0"}) as runtime:
        assert len(reported(runtime)) == 1


def test_hardware_that_its_backend_cannot_use_is_reported_with_the_reason(
    plugins, reported, machine
):
    plugins.add("cpu")
    plugins.add("cuda", probe="return Unavailable('the driver is too old', 'Renew it.')")
    write(machine, "dev/nvidia0")
    with plugins.runtime() as runtime:
        (message,) = reported(runtime)
    assert "plugin fake-cuda 1.0 for platform 'cuda': the driver is too old. Renew it." in message


def test_a_backend_that_fails_is_reported_once(plugins, reported, machine):
    plugins.add("cpu")
    plugins.add("cuda", "import no_such_module")
    write(machine, "dev/nvidia0")
    with plugins.runtime() as runtime:
        (message,) = reported(runtime)
    assert "no_such_module" in message


@pytest.mark.parametrize("quietly", [True, False])
def test_a_client_that_fails_is_reported_once(plugins, machine, quietly):
    plugins.add("cpu")
    plugins.add("cuda", make="raise OSError('busy')", priority=9, fail_quietly=quietly)
    write(machine, "dev/nvidia0")
    with plugins.runtime() as runtime, pytest.warns(DevrtWarning) as caught:
        assert runtime.get_backend().platform == "cpu"
    (warning,) = caught
    assert (warning.category is DiscoveryWarning) == quietly
    assert "OSError: busy" in str(warning.message)


MEANT = [
    {"DEVRT_PLATFORMS": "cpu"},
    {"JAX_PLATFORMS": "cpu"},
    {"DEVRT_PLATFORM_NAME": "cpu"},
    {"DEVRT_PREFER_PLATFORMS": "cpu"},
    {"DEVRT_FORBID_PLATFORMS": "cuda"},
]


@pytest.mark.parametrize("environ", MEANT)
@pytest.mark.parametrize("is_installed", [True, False])
def test_who_says_what_to_use_is_not_queried_about_hardware(
    plugins, reported, machine, environ, is_installed
):
    plugins.add("cpu")
    if is_installed:
        plugins.add("cuda", probe="return Unavailable('too old', '')", priority=9)
    write(machine, "dev/nvidia0")
    with plugins.runtime(**environ) as runtime:
        assert reported(runtime) == []


def test_hardware_is_of_no_concern_to_who_names_a_platform(plugins, machine):
    plugins.add("cpu")
    write(machine, "dev/nvidia0")
    with plugins.runtime() as runtime, warnings.catch_warnings():
        warnings.simplefilter("error")
        runtime.get_backend("cpu")


@pytest.mark.parametrize("priority", [1, 9])
def test_hardware_that_is_used_or_can_be_is_no_fault(plugins, reported, machine, priority):
    plugins.add("cpu", priority=5)
    plugins.add("cuda", priority=priority)
    write(machine, "dev/nvidia0")
    with plugins.runtime() as runtime:
        assert reported(runtime) == []


MANIFEST = """
schema = 1
[[backend]]
platform = "zap"
[[backend.requires]]
{hint}
reason = "no Zap card was found"
remedy = "Buy one."
[[backend.requires]]
library = ["libzap.so.1"]
reason = "the Zap driver is not installed"
remedy = "Install it."
"""


@pytest.mark.parametrize(
    ("hint", "is_hardware"),
    [
        ('path = ["/dev/zap*"]', True),
        ("pci_vendor = 0x1234", True),
        ('path = ["/opt/zap"]', False),
    ],
)
def test_hardware_of_which_a_plugin_brings_the_hint(
    plugins, reported, machine, write_distribution, hint, is_hardware
):
    plugins.add("cpu")
    folder = plugins.path / "zap_pkg"
    folder.mkdir()
    write(folder, "__init__.py", "raise AssertionError")
    write(folder, "devrt.toml", MANIFEST.format(hint=hint))
    write_distribution(plugins.path, "fake-zap", "[devrt_plugins]\nzap = zap_pkg\n")
    with plugins.runtime() as runtime:
        assert reported(runtime) == [], "there is no such card"
    write(machine, "dev/zap0")
    write(machine, "opt/zap")
    write(machine, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x1234\n")
    with plugins.runtime() as runtime:
        messages = reported(runtime)
    assert len(messages) == is_hardware
    if is_hardware:
        assert messages[0].startswith("hardware of platform 'zap' is on this machine, and only")

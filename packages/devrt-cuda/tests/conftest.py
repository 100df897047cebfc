"""What the tests on simulated devices share."""

import importlib.util
from pathlib import Path

import pytest

import devrt
from devrt.native.gpu_simulation import simulator_library
from gpu_library import Driver, simulated_platform
from gpu_vendors import VENDORS
from support import shared_library


@pytest.fixture(scope="module", params=VENDORS, ids=lambda vendor: vendor.platform)
def vendor(request):
    """Return each vendor whose package is installed."""
    pytest.importorskip(f"devrt_{request.param.platform}")
    return request.param


@pytest.fixture(scope="session", autouse=True)
def machines():
    """Have the process simulate as many devices as any test takes: its first client decides."""
    for vendor in VENDORS:
        package = importlib.util.find_spec(f"devrt_{vendor.platform}")
        for folder in package.submodule_search_locations if package else ():
            path = Path(folder, f"libdevrt_{vendor.platform}_simulator.so")
            if path.exists():
                simulator_library(str(path), vendor.platform, 4)


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """Return the file of kernels that simulated devices launch: an object of the host."""
    source = Path(__file__).with_name("launched_kernels.c")
    made = tmp_path_factory.mktemp("kernels") / "kernels.so"
    return shared_library(made, source, f"-I{Path(devrt.__file__).parent / 'native' / 'src'}")


@pytest.fixture(scope="module")
def devices():
    """Return two simulated devices; modules with others have a fixture of their own."""
    with simulated_platform() as found:
        yield found


@pytest.fixture
def module(vendor, devices, image):
    """Return the kernels of `image`, loaded on the devices of the module's vendor."""
    return devices[0].client.compile(image.read_bytes(), format=vendor.image)


@pytest.fixture
def driver(devices):
    """Return the simulated driver; what it reports, and the test does not read, fails the test."""
    found = Driver(devices[0].platform)
    found.reports()
    found.has_reported = False
    yield found
    assert found.has_reported or found.reports() == []


@pytest.fixture
def faults(monkeypatch):
    """Return a function that has the fake plugin do what only a broken client lets happen."""
    monkeypatch.setenv("FAKE_GPU_FAULTS", "")
    return lambda *names: monkeypatch.setenv("FAKE_GPU_FAULTS", " ".join(names))

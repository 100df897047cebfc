"""What the tests on simulated devices share; each module has the fixture ``devices``."""

import pytest

from gpu_library import Driver


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

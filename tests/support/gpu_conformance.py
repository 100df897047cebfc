"""The conformance kit on a vendor's platform: the machine's devices, and simulated ones."""

import pytest

from devrt.testing.conformance import Status, conform

# In each run of the tests what takes seconds; all of it with `nox -s simulator`.
LEVELS = (
    "load",
    "transfer",
    "distributed",
    pytest.param("execute", marks=pytest.mark.engine),
    *(pytest.param(name, marks=pytest.mark.stress) for name in ("memory", "shard")),
)


def check_load(platform):
    """Hold the backend to the contract, as far as this machine's devices show it."""
    report = conform(f"{platform}@devrt-{platform}", "load")
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    passed = {result.id for result in report.results if result.status is Status.PASSED}
    assert {"load.import_is_light", "load.manifest_and_record_agree"} <= passed


def check_level(monkeypatch, platform, level):
    """Hold two simulated devices to the contract's cases of a level."""
    monkeypatch.setenv(f"DEVRT_{platform.upper()}_MOCK", "2")
    monkeypatch.delenv("TEST_LEAK_WARNINGS", raising=False)  # users do not set it, and forks differ
    report = conform(f"{platform}@devrt-{platform}", level)
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    assert any(result.status is Status.PASSED for result in report.results)

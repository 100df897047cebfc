"""The conformance kit on a vendor's platform: the machine's devices, and simulated ones."""

import pytest

from devrt.testing.conformance import Status, conform

# Level memory, which takes longest and is about the client that both vendors share, is run in each
# run of the tests on one; `nox -s simulator` has all levels on both.
LEVELS = (
    *("load", "transfer", "shard", "distributed"),
    pytest.param("execute", marks=pytest.mark.engine),
)
SMALL = str(128 << 20)  # bytes of a device: a case fills it, which takes 7 s of the usual GiB


def check_load(platform):
    """Hold the backend to the contract, as far as this machine's devices show it."""
    report = conform(f"{platform}@devrt-{platform}", "load")
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    passed = {result.id for result in report.results if result.status is Status.PASSED}
    assert {"load.import_is_light", "load.manifest_and_record_agree"} <= passed


def check_level(monkeypatch, platform, level):
    """Hold two simulated devices to the contract's cases of a level."""
    monkeypatch.setenv(f"DEVRT_{platform.upper()}_MOCK", "2")
    if level == "memory":
        monkeypatch.setenv("DEVRT_GPU_SIMULATOR", f"memory={SMALL}")
    monkeypatch.delenv("TEST_LEAK_WARNINGS", raising=False)  # users do not set it, and forks differ
    report = conform(f"{platform}@devrt-{platform}", level)
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    assert any(result.status is Status.PASSED for result in report.results)

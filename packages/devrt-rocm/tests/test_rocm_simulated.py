"""The ROCm backend on simulated devices, which need no hardware."""

import pytest

from devrt.testing.conformance import Status, conform


@pytest.mark.parametrize("level", ["load", "memory", "transfer", "shard"])
def test_every_case_passes(monkeypatch, level):
    monkeypatch.setenv("DEVRT_ROCM_MOCK", "2")
    monkeypatch.setenv("DEVRT_CONFORM_LATENCY", "1e9")  # a simulation's says nothing of a GPU
    monkeypatch.delenv("TEST_LEAK_WARNINGS", raising=False)  # users do not set it, and forks differ
    report = conform("rocm@devrt-rocm", level)
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    assert any(result.status is Status.PASSED for result in report.results)

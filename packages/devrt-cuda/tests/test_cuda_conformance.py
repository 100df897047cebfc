"""The CUDA backend does what the contract says, as far as this machine's devices show it."""

from devrt.testing.conformance import Status, conform


def test_every_case_passes():
    report = conform("cuda@devrt-cuda", "load")
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    passed = {result.id for result in report.results if result.status is Status.PASSED}
    assert {"load.import_is_light", "load.manifest_and_record_agree"} <= passed

"""The ROCm backend does what the contract says, as far as this machine's devices show it."""

from gpu_conformance import check_load


def test_every_case_passes():
    check_load("rocm")

"""Random work of which a device is lost: each seed is a process of its own (random_losses.py)."""

from pathlib import Path

import pytest

from support import run_python, xla_cpu_library

pytestmark = pytest.mark.engine

SCRIPT = Path(__file__).with_name("random_losses.py")
STEPS = 60


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.stress) for seed in range(2, 100))]
)
def test_random_work_has_right_values_or_the_error_of_a_loss(seed):
    xla_cpu_library()
    ran = run_python(
        *("-W", "ignore"),
        *(SCRIPT, str(seed), str(STEPS)),
        timeout=60,
        DEVRT_CUDA_MOCK="3",
        DEVRT_GPU_SIMULATOR=f"seed={seed} delay={seed % 3 * 100}",
    )
    assert ran.stdout.strip() == ""

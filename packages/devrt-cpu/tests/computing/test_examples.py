"""The programs of ``examples/`` run, print what ran where, and agree with one device."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine
FOLDER = Path(__file__).parents[4] / "examples"

LINES = {
    "data_parallel": ("rows 448 to 511 on cpu:7", "One device alone: losses"),
    "tensor_parallel": ("(16, 32) on each device", "Gradient of up: PartitionSpec(None, 'model')"),
    "transformer_block": ("cpu:4  cpu:5  cpu:6  cpu:7", "The output (4, 8, 32) lies as"),
    "chunked_inference": ("rows 1536 to 2047 of a chunk on cpu:3", "10300 are those of all rows"),
}


def test_every_program_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(LINES)


@pytest.mark.parametrize("name", LINES)
def test_a_program_agrees_with_one_device_and_prints_what_ran_where(name):
    command = [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in LINES[name]:
        assert line in done.stdout

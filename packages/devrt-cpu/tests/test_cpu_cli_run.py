"""`devrt run` and `devrt inspect` on exported programs, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")

PROGRAMS = Path(__file__).parent / "programs"


def devrt(*arguments):
    command = [sys.executable, "-W", "error", "-m", "devrt", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(
    ("name", "devices"),
    [("mlp.mlir", None), ("mlp.mlirbc", 1), ("gspmd_mlp.mlir", 4), ("gspmd_mlp.mlirbc", None)],
)
def test_a_program_is_run_on_a_file(tmp_path, name, devices):
    path = PROGRAMS / name
    out = tmp_path / "out.npz"
    count = ["--devices", devices] if devices else []
    run = devrt("run", path, "--inputs", path.with_suffix(".npz"), "--outputs", out, *count)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("out0 float32[8,")
    expected = np.load(path.with_suffix(".npz"))["out0"]
    np.testing.assert_allclose(np.load(out)["out0"], expected, rtol=1e-4, atol=1e-5)


def test_a_wrong_number_of_inputs_is_told():
    run = devrt("run", PROGRAMS / "mlp.mlir")
    assert run.returncode == 1
    assert "takes 7 arguments, and there is no --inputs" in run.stderr


def test_a_program_is_described():
    run = devrt("inspect", PROGRAMS / "gspmd_mlp.mlir", "--devices", 4)
    assert (run.returncode, run.stderr) == (0, "")
    report = json.loads(run.stdout)
    assert report["devices"] == 4
    assert report["parameters"][0] == "float32[8,16] in 2x1 parts"
    assert report["communicates"] is True


def test_another_number_of_devices_than_the_program_s_is_refused():
    run = devrt("inspect", PROGRAMS / "gspmd_mlp.mlirbc", "--devices", 8)
    assert run.returncode == 1
    assert "gspmd_mlp.mlirbc is for 4 devices, not 8: leave --devices away." in run.stderr


def test_a_compiler_s_error_names_the_file(tmp_path):
    path = tmp_path / "wrong.mlir"
    path.write_text("func.func @main() {\n  stablehlo.nonsense\n}")
    run = devrt("inspect", path)
    assert run.returncode == 1
    assert f"{path}:2:3: error: " in run.stderr


def test_results_that_cannot_be_written_name_the_file(tmp_path):
    path = tmp_path / "nowhere" / "out.npz"
    inputs = PROGRAMS / "mlp.npz"
    run = devrt("run", PROGRAMS / "mlp.mlir", "--inputs", inputs, "--outputs", path)
    assert run.returncode == 1
    assert f"the results cannot be written to {str(path)!r}: No such file" in run.stderr

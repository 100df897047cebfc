"""`devrt run` and `devrt inspect` on exported programs, in processes of their own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")

PROGRAMS = Path(__file__).parents[1] / "programs"


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


def test_a_wrong_number_of_inputs_is_reported():
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
    run = devrt("run", path)
    assert run.returncode == 1
    assert f"{path}:2:3: error: " in run.stderr


def test_results_that_cannot_be_written_name_the_file(tmp_path):
    path = tmp_path / "nowhere" / "out.npz"
    inputs = PROGRAMS / "mlp.npz"
    run = devrt("run", PROGRAMS / "mlp.mlir", "--inputs", inputs, "--outputs", path)
    assert run.returncode == 1
    assert f"{str(path)!r} cannot be written: No such file" in run.stderr


ADD = """func.func @main(%a: tensor<4xf32>, %b: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0, %b : tensor<4xf32>, tensor<4xi32> }"""
FLOATS, INTS = np.ones(4, np.float32), np.ones(4, np.int32)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with a program of two arguments and the arguments."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "add.mlir").write_text(ADD)
    np.savez(tmp_path / "in.npz", in0=FLOATS, in1=INTS)
    return tmp_path


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"in0": FLOATS, "in2": INTS}, "without a gap, and it has in0, in2"),
        ({"in0": FLOATS, "in1": INTS, "weights": INTS}, "without a gap"),
        ({"in0": np.array([None] * 4), "in1": INTS}, "no .npz file of numbers"),
        ({"in0": FLOATS.view(np.uint32), "in1": INTS}, r"is uint32\[4\] and must be float32"),
        ({"in0": FLOATS.astype(float), "in1": INTS}, r"is float64\[4\] and must be float32"),
        ({"in0": np.array(["a"] * 4), "in1": INTS}, "cannot be held by a device"),
        ({"in0": FLOATS[:3], "in1": INTS}, r"is float32\[3\] and must be"),
        ({}, "takes 2 arguments, and bad.npz has 0"),
    ],
)
def test_arguments_that_do_not_fit_are_reported(here, arrays, message):
    np.savez("bad.npz", **arrays)
    refused(message, "run", "add.mlir", "--inputs", "bad.npz", "--outputs", "out.npz")
    assert sorted(path.name for path in here.iterdir()) == ["add.mlir", "bad.npz", "in.npz"]


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_files_that_are_no_arrays_are_reported(here, content):
    Path("bad.npz").write_bytes(content)
    refused("'bad.npz' cannot be read: it is no .npz", "run", "add.mlir", "--inputs", "bad.npz")
    np.save("one.npy", FLOATS)
    refused("'one.npy' cannot be read: it holds one", "run", "add.mlir", "--inputs", "one.npy")


def test_outputs_that_cannot_be_written_are_reported_before_anything_runs(here):
    arguments = ["run", "add.mlir", "--inputs", "in.npz", "--outputs"]
    refused("'none/out.npz' cannot be written: No such file", *arguments, "none/out.npz")
    assert devrt(*arguments, "/dev/full").returncode == 1
    run = devrt(*arguments, "plain")
    assert (run.returncode, run.stderr) == (0, "")
    assert np.load("plain")["out0"].tolist() == [2, 2, 2, 2]
    assert sorted(path.name for path in here.iterdir()) == ["add.mlir", "in.npz", "plain"]


def test_who_takes_a_program_is_reported(here):
    run = devrt("inspect", "add.mlir")
    assert (run.returncode, run.stderr) == (0, "")
    report = json.loads(run.stdout)
    assert report["ops"] == ["stablehlo.add"]
    backends = {row["distribution"]: row for row in report["backends"]}
    assert backends["devrt-cpu"]["takes"] is True
    assert report["platform"] == "cpu"
    for row in report["backends"]:
        assert row["takes"] or row["reason"]
    Path("call.mlir").write_text(ADD.replace("stablehlo.add %a, %a :", "stablehlo.custom_call @f"
                                             "(%a) : (tensor<4xf32>) ->"))  # fmt: skip
    run = devrt("inspect", "call.mlir")
    assert (run.returncode, run.stderr) == (1, "")
    (row,) = [row for row in json.loads(run.stdout)["backends"] if row["platform"] == "cpu"][:1]
    assert row["takes"] is False
    assert "custom call 'f'" in row["reason"]


def refused(message, *arguments):
    run = devrt(*arguments)
    assert run.returncode == 1
    assert run.stdout == ""
    assert re.search(message, run.stderr), run.stderr
    assert "Traceback" not in run.stderr


def test_a_platform_without_the_option_of_virtual_devices_runs_a_sharded_program(monkeypatch):
    pytest.importorskip("devrt_tpu", reason="needs a loader of PJRT libraries")
    monkeypatch.setenv("DEVRT_PLATFORMS", "xla_cpu_pjrt")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")  # what a plugin logs is its own
    path = PROGRAMS / "gspmd_mlp.mlirbc"
    run = devrt("run", path, "--inputs", path.with_suffix(".npz"))
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "out0 float32[8,16]\n"

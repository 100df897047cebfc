"""`devrt run` and `devrt inspect` on exported programs: what they do in processes of their own."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from devrt.cli import main
from support import run_python

pytestmark = pytest.mark.engine

PROGRAMS = Path(__file__).parents[1] / "programs"


def devrt(*arguments):
    return run_python("-W", "error", "-m", "devrt", *arguments, status=None)


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
    assert "takes 7 arguments, and there is no --inputs; --random makes some" in run.stderr


def test_a_program_is_described():
    run = devrt("inspect", PROGRAMS / "gspmd_mlp.mlir", "--devices", 4, "--json")
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
        ({"in0": np.array(["a"] * 4), "in1": INTS}, r"is <U1\[4\] and must be float32"),
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
    run = devrt("inspect", "add.mlir", "--json")
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
    run = devrt("inspect", "call.mlir", "--json")
    assert (run.returncode, run.stderr) == (1, "")
    (row,) = [row for row in json.loads(run.stdout)["backends"] if row["platform"] == "cpu"][:1]
    assert row["takes"] is False
    assert "custom call 'f'" in row["reason"]


def refused(message, *arguments):
    """Run a command that is refused: here, as nothing of it is about the process."""
    run = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert run.exit_code == 1
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
    assert run.stdout.startswith("out0 float32[8,16]\n[[")


def test_results_and_times_are_printed(here):
    run = devrt("run", "add.mlir", "--inputs", "in.npz")
    assert (run.returncode, run.stderr) == (0, "")
    *results, times = run.stdout.splitlines()
    assert results == ["out0 float32[4]", "[2. 2. 2. 2.]", "out1 int32[4]", "[1 1 1 1]"]
    assert re.fullmatch(r"ready in [\d.]+ m?s, ran in [\d.e+]+ [mu]?s on cpu:0", times)


def test_made_up_arguments_are_the_same_for_the_same_seed(here):
    runs = [
        devrt("run", "add.mlir", "--random", "--seed", seed, "--outputs", f"{number}.npz")
        for number, seed in enumerate([3, 3, 4])
    ]
    assert [(run.returncode, run.stdout) for run in runs] == [
        (0, "out0 float32[4]\nout1 int32[4]\n")
    ] * 3
    first, same, other = (np.load(f"{number}.npz") for number in range(3))
    assert first["out0"].tolist() == same["out0"].tolist() != other["out0"].tolist()
    assert 0 <= first["out0"].min() <= first["out0"].max() < 2
    assert set(first["out1"].tolist()) <= set(range(10))
    run = devrt("run", "add.mlir", "--random", "--inputs", "in.npz")
    assert run.returncode == 2
    assert "give either --inputs or --random" in run.stderr


def test_it_is_run_as_often_as_requested_donated_arguments_too(here):
    text = ADD.replace("%a: tensor<4xf32>", "%a: tensor<4xf32> {jax.buffer_donor = true}", 1)
    Path("donates.mlir").write_text(text)
    run = devrt("run", "donates.mlir", "--random", "--repeat", 5, "--outputs", "out.npz")
    assert (run.returncode, run.stderr) == (0, "")
    assert re.search(r"\nthen 4 times: median [\d.]+ [mu]?s, fastest [\d.]+ [mu]?s$", run.stdout)


def test_what_compile_wrote_is_run(here):
    run = devrt("compile", "add.mlir", "-o", "add.exe")
    assert (run.returncode, run.stderr) == (0, "")
    assert re.match(r"add.exe: [\d.]+ KiB for 1 x cpu \(cpu\)\n", run.stdout)
    run = devrt("run", "add.exe", "--inputs", "in.npz", "--outputs", "out.npz")
    assert (run.returncode, run.stderr) == (0, "")
    assert np.load("out.npz")["out0"].tolist() == [2, 2, 2, 2]


def test_what_compile_wrote_for_four_devices_is_run_on_four(here):
    path = PROGRAMS / "gspmd_mlp.mlirbc"
    run = devrt("compile", path, "-o", "four.exe", "--option", "num_partitions=4", "--json")
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["devices"] == 4
    inputs = ("--inputs", path.with_suffix(".npz"), "--outputs", "out.npz")
    run = devrt("run", "four.exe", *inputs, "--devices", 4)
    assert (run.returncode, run.stderr) == (0, "")
    expected = np.load(path.with_suffix(".npz"))["out0"]
    np.testing.assert_allclose(np.load("out.npz")["out0"], expected, rtol=1e-4, atol=1e-5)


def test_a_file_that_is_neither_program_nor_executable_is_refused(here):
    Path("noise.bin").write_bytes(bytes(range(128, 256)))
    refused("'noise.bin' is no program.*and no executable that runs on cpu: ", "run", "noise.bin")


def test_an_executable_that_cannot_be_written_is_not_compiled_first(here):
    Path("wrong.mlir").write_text("func.func @main() { nonsense }")
    refused("'none/x' cannot be written", "compile", "wrong.mlir", "-o", "none/x")
    assert not Path("none").exists()


def test_another_platform_is_named_by_an_option(here):
    refused("no installed backend serves platform 'nope'", "run", "add.mlir", "--platform", "nope")


def test_a_program_is_described_for_people(here):
    run = devrt("inspect", "add.mlir")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(
        "add.mlir: main, compiled for 1 device of cpu\n"
        "  in0   float32[4]\n  in1   int32[4]\n  out0  float32[4]\n  out1  int32[4]\n"
    )
    assert re.search(r"^cpu@devrt-cpu +yes +it compiles$", run.stdout, re.M)


def test_what_jax_serialised_is_run_and_described(tmp_path):
    path = PROGRAMS / "exports" / "donating-0.10.2.jax"
    inputs, out = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(inputs, in0=np.ones(4, np.float32), in1=np.full(4, 2, np.float32))
    run = devrt("run", path, "--inputs", inputs, "--outputs", out)
    assert (run.returncode, run.stderr) == (0, "")
    np.testing.assert_array_equal(np.load(out)["out0"], [3] * 4)
    assert json.loads(devrt("inspect", path, "--json").stdout)["outputs"] == ["float32[4]"]


def test_a_symbolic_export_says_which_argument_it_is():
    run = devrt("run", PROGRAMS / "exports" / "symbolic-0.10.2.jax", "--random")
    assert run.returncode == 1
    assert "argument 1 of the symbolic shape (b, 4)" in run.stderr


@pytest.mark.parametrize(
    "arguments", [["run", "--random"], ["compile", "-o", "out.bin"], ["inspect"]]
)
@pytest.mark.usefixtures("here")
def test_an_export_for_another_platform_is_refused(arguments):
    command, *options = arguments
    run = devrt(command, PROGRAMS / "exports" / "for_tpu-0.10.2.jax", *options)
    assert "was exported for tpu, and this client is of the platform cpu" in _words(run)
    assert "--platform tpu" in _words(run)
    assert command == "inspect" or run.returncode == 1


def _words(run):
    return " ".join((run.stdout + run.stderr).split())


def test_explain_draws_where_each_shard_lies(tmp_path):
    program = tmp_path / "program.mlir"
    program.write_text(DIVIDED)
    done = devrt("run", program, "--random", "--explain")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("in0: float32[8,4] in parts of [2,2]\n┌───────┬───────┐\n")
    assert "\nin1: float32[] on cpu:0,1,2,3,4,5,6,7\nout0: float32[8,4] in parts" in done.stdout


DIVIDED = """
module @divided attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(
    %arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %arg1: tensor<f32>
  ) -> tensor<8x4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
"""

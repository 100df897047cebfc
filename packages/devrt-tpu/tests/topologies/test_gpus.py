"""GPUs that are described, and programs compiled for them where there is none."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError
from devrt_pjrt.traits import gpu_tools
from devrt_pjrt.traits.gpu_topology import GPUS, expand, target_config

PROGRAMS = Path(__file__).parents[1] / "programs"


def field(text, name):
    return float(re.search(rf"\b{name}: ([0-9.]+)", text).group(1))


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_has_figures_that_can_be(name):
    text = target_config(name)
    assert text.count("{") == text.count("}")
    assert field(text, "threads_per_warp") == 32
    assert 10 < field(text, "core_count") < 200
    assert field(text, "threads_per_core_limit") % field(text, "threads_per_warp") == 0
    assert 10 << 30 < field(text, "device_memory_size") < 300 << 30
    shared = field(text, "shared_memory_per_block_optin")
    assert field(text, "shared_memory_per_block") <= shared
    assert shared <= field(text, "shared_memory_per_core")
    # Two operations for each lane and cycle: between 8 (a T4) and 100 (an L40S) teraflops.
    lanes = field(text, "core_count") * field(text, "fpus_per_core")
    assert 8e3 < 2 * lanes * field(text, "clock_rate_ghz") < 1e5
    expand(name, {})


@pytest.mark.parametrize(
    ("name", "shape"),
    [("h100", "1x1x1"), ("h100:8", "1x1x8"), ("h100:2x8", "1x2x8"), ("a100_80:4x2x8", "4x2x8")],
)
def test_a_name_stands_for_a_shape(name, shape):
    options = expand(name, {})
    assert options["topology"] == shape
    assert options["target_config"] == target_config(name.partition(":")[0])


def test_options_go_before_the_name():
    options = expand("h100:8", {"topology": "1x1x2"})
    assert options["topology"] == "1x1x2"


@pytest.mark.parametrize(
    "name",
    ["h100:0x1x1", "h100:1x1x1x1", "h100:", "h100:x", "h100:-1x1x1", "h100:1000000x1x1", "H100",
     "q9", "q9:1x1x1", "h100:1x100x10000", "h100:99999999999999999999"],
)  # fmt: skip
def test_a_name_that_the_library_does_not_survive_is_refused(name):
    with pytest.raises(InvalidArgumentError, match="GPU"):
        expand(name, {})


@pytest.mark.parametrize("shape", ["", "1x1", "0x1x1", "-1x1x1", "axb", "1x1x99999", "1x1x1 "])
def test_a_shape_that_the_library_does_not_survive_is_refused(shape):
    with pytest.raises(InvalidArgumentError, match="PARTITIONSxHOSTSxDEVICES"):
        expand("", {"topology": shape, "target_config": target_config("h100")})


@pytest.mark.parametrize("missing", ["threads_per_warp", "core_count", "fpus_per_core"])
@pytest.mark.parametrize("value", ["", "{}: 0"])
def test_a_configuration_that_the_compiler_divides_by_is_refused(missing, value):
    text = re.sub(rf"{missing}: [0-9]+", value.format(missing), target_config("t4"))
    with pytest.raises(InvalidArgumentError, match=missing):
        expand("", {"topology": "1x1x1", "target_config": text})


def test_without_a_name_a_configuration_is_needed():
    with pytest.raises(InvalidArgumentError, match="GPUs with figures: v100"):
        expand("", {"topology": "1x1x1"})


@given(st.text(max_size=40))
def test_any_name_is_expanded_or_refused(name):
    with contextlib.suppress(InvalidArgumentError):
        expand(name, {})


def test_the_compilers_tools_are_found_in_wheels(tmp_path):
    assert gpu_tools.compiler_flags([str(tmp_path)]) == {}
    for kit in ("cu12", "cu13"):
        folder = tmp_path / "nvidia" / kit
        (folder / "nvvm" / "libdevice").mkdir(parents=True)
        (folder / "bin").mkdir()
        ptxas = folder / "bin" / "ptxas"
        ptxas.write_text("")
        assert gpu_tools.compiler_flags([str(tmp_path)]).get("x", "") == ""
        ptxas.chmod(0o755)
        assert gpu_tools.compiler_flags([str(tmp_path)]) == {"xla_gpu_cuda_data_dir": str(folder)}


def test_what_is_missing_is_named():
    reported = gpu_tools.explain(
        DevrtError("compile failed: libdevice not found at x", code=13, a=1)
    )
    assert isinstance(reported, UnimplementedError)
    assert "pip install nvidia-cuda-nvcc nvidia-nvvm" in reported.message
    assert reported.a == 1
    other = DevrtError("another")
    assert gpu_tools.explain(other) is other


def devrt(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "devrt", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ,
        check=False,
    )


@pytest.mark.parametrize(("name", "kind"), [("h100:1x1x1", "H100 80GB"), ("l4", "NVIDIA L4")])
def test_a_program_is_compiled_for_a_gpu_that_is_not_here(cuda, tmp_path, name, kind):
    output = tmp_path / "mlp.exe"
    program = str(PROGRAMS / "mlp.mlir")
    done = devrt("compile", program, "--topology", name, "-o", str(output), "--json")
    if "pip install nvidia-cuda-nvcc nvidia-nvvm" in done.stderr:
        pytest.skip("no toolkit for the GPU's compiler is installed")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert kind in report["device_kind"]
    assert report["bytes"] == output.stat().st_size > 1000
    assert report["memory"]["argument_size_in_bytes"] > 0
    assert report["memory"]["peak_memory_in_bytes"] > 0


def test_a_topology_of_gpus_that_cannot_be(cuda, tmp_path):
    output = str(tmp_path / "none.exe")
    done = devrt("compile", str(PROGRAMS / "mlp.mlir"), "--topology", "h100:0x1", "-o", output)
    assert done.returncode == 1
    assert "PARTITIONSxHOSTSxDEVICES" in done.stderr


def test_a_clients_options_reach_the_plugin_under_its_names(cuda):
    code = f"""
from devrt.errors import DevrtError
import devrt_pjrt as pjrt
library = pjrt.library_for("cuda", {cuda!r})
for given in ({{"allowed_devices": {{0}}, "num_nodes": 1, "node_id": 0}}, {{"nobody_knows": 1}}):
    try: pjrt.make_client(library, "cuda", given)
    except DevrtError as error: print("nexpected option" in error.message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "False\nTrue\n", done.stderr

"""Programs compiled for GPUs where there is none."""

import json
from pathlib import Path

import pytest

from support import python, run_python

PROGRAMS = Path(__file__).parents[1] / "programs"


def devrt(*arguments):
    return run_python("-m", "devrt", *arguments, status=None)


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
from devrt_cuda.traits import CUDA
library = pjrt.library_for("cuda", {cuda!r}, traits=[CUDA])
for given in ({{"allowed_devices": {{0}}, "num_nodes": 1, "node_id": 0}}, {{"nobody_knows": 1}}):
    try: pjrt.make_client(library, "cuda", given)
    except DevrtError as error: print("nexpected option" in error.message)
"""
    assert python(code, options=()).stdout == "False\nTrue\n"

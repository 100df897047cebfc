"""The tables of the page on GPUs about simulated devices, how many and which: every row is run."""

import json
import re
from pathlib import Path

import pytest

from gpu_jobs import run_job
from support import python

pytest.importorskip("devrt_cuda")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "users" / "gpus.md"


def rows_below(head):
    """Return the cells of a table of the page, by the beginning of its head."""
    _, found, after = PAGE.read_text(encoding="utf-8").partition(f"\n{head}")
    assert found, head
    rows = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


CLIENTS = rows_below("| `options` | variables |")
MODELS = rows_below("| `model` | platform |")
JOBS = rows_below("| `DEVRT_CUDA_MOCK` | devices of each process |")

CLIENT = """
import json
from devrt.errors import DevrtError, InvalidArgumentError
from devrt.runtime import default_runtime
try:
    client = default_runtime().make_client("cuda", OPTIONS)
    devices = client.local_devices()
    is_own = "(simulated)" not in devices[0].device_kind
    found = [len(devices), client.device_count()]
    print(json.dumps(["the machine's"] * 2 if is_own else list(map(str, found))))
except InvalidArgumentError as error:
    print(json.dumps(["refused"] * 2))
except DevrtError:  # the machine has none
    print(json.dumps(["the machine's"] * 2))
"""


@pytest.mark.parametrize(("options", "variables", "local", "everywhere"), CLIENTS)
def test_a_client_has_as_many_simulated_devices_as_the_page_says(
    options, variables, local, everywhere
):
    environ = dict(pair.split("=") for pair in variables.split())
    code = CLIENT.replace("OPTIONS", options)
    ran = python(code, options=("-W", "ignore"), clean=("DEVRT_", "JAX_"), **environ)
    assert json.loads(ran.stdout) == [local, everywhere]


JOB = """
found = [len(client.local_devices()), len(devices)]
show(*map(str, found), ", ".join(str(device.partition_index) for device in devices))
store.wait_at_barrier("end", 60_000)
"""


@pytest.mark.parametrize(("mock", "local", "everywhere", "partitions"), JOBS)
def test_a_job_has_as_many_simulated_devices_as_the_page_says(mock, local, everywhere, partitions):
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    if local == "refused":
        with pytest.raises(AssertionError, match="num_nodes is 2, and the simulated devices are"):
            run_job(JOB, DEVRT_CUDA_MOCK=mock)
        return
    printed = run_job(JOB, DEVRT_CUDA_MOCK=mock)
    assert printed == [[[local, everywhere, partitions]]] * 2


MODEL = """
from devrt.runtime import default_runtime
def facts(platform):
    device = default_runtime().make_client(platform, {"mock": True}).local_devices()[0]
    print(device.device_kind, device.architecture, device.core_count, sep="|")
"""


@pytest.mark.parametrize(("model", "platform", "kind", "architecture", "cores"), MODELS)
def test_a_model_is_what_the_page_says(model, platform, kind, architecture, cores):
    pytest.importorskip(f"devrt_{platform}")
    code = f"{MODEL}facts({platform!r})"
    given = {"DEVRT_GPU_SIMULATOR": f"model={model}"}
    ran = python(code, options=("-W", "ignore"), clean=("DEVRT_", "JAX_"), **given)
    assert ran.stdout.strip().split("|") == [kind, architecture, cores]


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_the_page_has_every_model_in_its_order(platform):
    source = ROOT / f"packages/devrt-{platform}/native/simulated_devices.cpp"
    keys = re.findall(r'\.key = "(\w+)"', source.read_text(encoding="utf-8"))
    assert [row[0] for row in MODELS if row[1] == platform] == keys

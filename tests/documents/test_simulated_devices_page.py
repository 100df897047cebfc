"""The tables of the page on GPUs that say how many devices are simulated: every row is run."""

import json
from pathlib import Path

import pytest

from gpu_jobs import run_job
from support import python

pytest.importorskip("devrt_cuda")

PAGE = Path(__file__).parents[2] / "docs" / "users" / "gpus.md"


def rows_below(head):
    """Return the cells of a table of the page, by the beginning of its head."""
    _, found, after = PAGE.read_text(encoding="utf-8").partition(f"\n{head}")
    assert found, head
    rows = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


CLIENTS = rows_below("| `options` | variables |")
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

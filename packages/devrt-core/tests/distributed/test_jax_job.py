"""A program of JAX over four processes that meet at devrt's coordination service."""

import json
import subprocess
import textwrap
from contextlib import ExitStack

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from jaxlib_processes import python_with_jaxlib

SIZE = 4
# What jax.distributed.initialize does, but for the service that its process 0 starts.
SCRIPT = """
    import json, sys
    import jax
    import numpy as np
    from jax._src import distributed
    from jaxlib import _jax
    address, number, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    client = _jax.get_distributed_runtime_client(address, number, init_timeout=120)
    client.connect()
    state = distributed.global_state
    state.client, state.process_id, state.num_processes = client, number, size
    state.coordinator_address = address
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
    value = np.full((jax.local_device_count(), 3), number + 1.0, np.float32)
    found = total(value).addressable_shards[0].data
    print(json.dumps([jax.device_count(), np.asarray(found).ravel().tolist()]), flush=True)
    client.shutdown()
"""


def test_a_sum_over_four_processes_of_jax():
    python = python_with_jaxlib()
    if python is None or subprocess.run([python, "-c", "import jax"], check=False).returncode:
        pytest.skip("jax is not installed, and JAXLIB_PYTHON names no Python that has it")
    script = textwrap.dedent(SCRIPT)
    with (
        xla_client.get_distributed_runtime_service("localhost:0", SIZE) as service,
        ExitStack() as stack,
    ):
        processes = []
        for number in range(SIZE):
            command = [python, "-c", script, service.address, str(number), str(SIZE)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = stack.enter_context(subprocess.Popen(command, text=True, **pipes))
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            printed, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
            count, total = json.loads(printed.splitlines()[-1])  # Gloo prints, too
            assert count >= SIZE
            assert total == [total[0]] * 3
            assert total[0] == sum(range(1, SIZE + 1)) * (count / SIZE)
        assert {row["state"] for row in service.status()["processes"]} == {"left"}

"""JAX's own programs over processes that meet at devrt's coordination service."""

import importlib.util
import os
import subprocess
import sys

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client

COUNT = 4
PSUM = """
import sys
import jax
import numpy as np
from jax._src import distributed
from jax._src.lib import _jax
address, me, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
state = distributed.global_state  # jax.distributed.initialize would start a service of its own
state.client = _jax.get_distributed_runtime_client(address, me, init_timeout=60)
state.client.connect()
state.process_id, state.num_processes = me, count
jax.config.update("jax_cpu_collectives_implementation", "gloo")
P = jax.sharding.PartitionSpec
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
rows = jax.sharding.NamedSharding(mesh, P("i"))
x = jax.make_array_from_process_local_data(rows, np.full((1, 3), me + 1, np.int32))
total = jax.shard_map(lambda v: jax.lax.psum(v, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
print(np.asarray(jax.jit(total)(x)).tolist())
state.client.shutdown()
"""


@pytest.fixture
def python():
    """Return a Python that has jax."""
    named = os.environ.get("JAXLIB_PYTHON")
    if named is None and importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed, and JAXLIB_PYTHON names no Python that has it")
    return named or sys.executable


def test_a_program_of_jax_sums_over_processes_on_this_service(python):
    service = xla_client.get_distributed_runtime_service("localhost:0", COUNT)
    try:
        children = [
            subprocess.Popen(
                [python, "-c", PSUM, service.address, str(number), str(COUNT)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(COUNT)
        ]
        done = [child.communicate(timeout=120) for child in children]
    finally:
        service.shutdown()
    for child, (printed, errors) in zip(children, done, strict=True):
        assert child.returncode == 0, errors
        assert printed.splitlines()[-1] == "[[10, 10, 10]]"

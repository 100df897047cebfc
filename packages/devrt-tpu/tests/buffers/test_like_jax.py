"""Memory and cost of a compiled program are what JAX says of it with the same plugin."""

import importlib.util
import json

import pytest

from support import python

COMPARE = """
import dataclasses, json, os, sys
import jax, jax.numpy as jnp, numpy as np
from devrt.runtime import make_pjrt_topology
import devrt_pjrt as pjrt

def softmax(w, x): return jax.nn.softmax(jnp.tanh(x @ w) @ w.T, axis=-1).sum(0)
def sort(w, x): return jnp.sort(w, axis=0)[:4] + x[:4, :1]
def step(w, x): return w - 0.1 * jax.grad(lambda w: (jnp.maximum(x @ w, 0) ** 2).mean())(w)

if sys.argv[1] == "tpu":
    from jax.experimental import topologies
    device = topologies.get_topology_desc("v5e:2x2", platform="tpu").devices[0]
    compile = make_pjrt_topology("tpu", "v5e:2x2").compile
else:
    device = jax.devices("plugin")[0]
    library = pjrt.library_for("mine", sys.argv[1])
    compile = pjrt.make_client(library, "mine", {"cpu_device_count": 1}).compile
where = jax.sharding.SingleDeviceSharding(device)
shapes = [jax.ShapeDtypeStruct(s, np.float32, sharding=where) for s in ((256, 512), (128, 256))]
for function in (softmax, sort, step):
    lowered = jax.jit(function).lower(*shapes)
    theirs, ours = lowered.compile(), compile(lowered.as_text())
    memory = dataclasses.asdict(ours.memory_analysis())
    output = theirs.memory_analysis()
    names = [name for name in memory if hasattr(output, name)]
    costs = theirs.cost_analysis()
    costs = costs[0] if isinstance(costs, list) else costs
    print(json.dumps([
        function.__name__,
        {n: memory[n] for n in names}, {n: getattr(output, n) for n in names},
        dict(sorted(ours.cost_analysis().items())), dict(sorted(costs.items())),
    ]))
"""


def compare(where, cost_rel, **env):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    done = python(COMPARE, where, options=(), timeout=500, **env)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(rows) == 3
    for _, memory, their_memory, cost, their_cost in rows:
        # JAX's other options move what the program holds at once by a few bytes.
        peak = memory.pop("peak_memory_in_bytes", 0)
        assert abs(peak - their_memory.pop("peak_memory_in_bytes", 0)) <= 64
        assert len(memory) >= 9
        assert memory == their_memory
        assert cost["flops"] > 0
        assert cost.keys() & {"flops", "bytes accessed"} == {"flops", "bytes accessed"}
        for name in ("flops", "transcendentals", "bytes accessed"):
            assert cost.get(name, 0) == pytest.approx(their_cost.get(name, 0), rel=cost_rel)


def test_figures_for_a_tpu_are_those_of_jax(libtpu):
    compare("tpu", 0, TPU_SKIP_MDS_QUERY="1", JAX_PLATFORMS="cpu")


def test_figures_for_the_cpu_are_those_of_jax(xla_cpu_library):
    compare(
        xla_cpu_library,
        0.02,  # JAX sends all flags as its own version has them, and the plugin's are others
        PJRT_NAMES_AND_LIBRARY_PATHS=f"plugin:{xla_cpu_library}",
        JAX_PLATFORMS="plugin",
    )

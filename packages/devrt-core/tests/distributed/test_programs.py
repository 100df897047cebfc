"""Programs on the devices of several processes: the same results as those of one process."""

import importlib.util
import json
import signal
import subprocess

import pytest

from devrt.distributed import collectives

pytest.importorskip("devrt_cpu")
pytest.importorskip("devrt_cpu._library").describe(None)

SETUP = """
import functools
from devrt import lax, numpy as jnp
from devrt.experimental import multihost_utils as together
from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = devrt.devices()
line = Mesh(np.array(devices), ("i",))
def put(x, mesh, *spec):
    return devrt.make_array_from_callback(x.shape, NamedSharding(mesh, P(*spec)), lambda i: x[i])
def whole(tree): return together.process_allgather(tree, tiled=True)
"""

PROGRAMS = (
    SETUP
    + """
grid = Mesh(np.array(devices).reshape(2, 2), ("r", "c"))
turned = Mesh(np.array(devices)[[2, 0, 3, 1]], ("i",))
n = np.arange(64, dtype=np.int32).reshape(8, 8) * 7 % 23
def mapped(f, x, mesh=line, takes=P("i"), gives=P("i"), **how):
    a = put(x, mesh, *takes)
    return whole(devrt.shard_map(f, mesh, in_specs=takes, out_specs=gives, **how)(a))

found = {
    "psum": mapped(lambda x: lax.psum(x, "i"), n, gives=P()),
    "pmax": mapped(lambda x: lax.pmax(x, "i"), n, gives=P()),
    "pmin": mapped(lambda x: lax.pmin(x, "i"), n, gives=P()),
    "bool": mapped(lambda x: lax.psum(x > 9, "i"), n, gives=P()),
    "gather": mapped(lambda x: lax.all_gather(x, "i", axis=1), n),
    "tiled": mapped(lambda x: lax.all_gather(x, "i", axis=1, tiled=True), n),
    "scatter": mapped(lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True), n),
    "to_all": mapped(lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True), n),
    "ring": mapped(lambda x: lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)]), n),
    "some": mapped(lambda x: lax.ppermute(x, "i", [(0, 3), (1, 2)]), n),
    "index": mapped(lambda x: x * 10 + lax.axis_index("i"), n),
    "turned": mapped(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]), n, mesh=turned),
    "groups": mapped(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 3], [1, 2]]), n),
    "rows": mapped(lambda x: lax.psum(x, "r"), n, grid, P("r", "c"), P(None, "c")),
    "columns": mapped(lambda x: lax.all_gather(x, "c", axis=1, tiled=True), n, grid,
                      P("r", "c"), P("r"), check_vma=False),
    "both": mapped(lambda x: lax.psum(x, ("c", "r")), n, grid, P("r", "c"), P()),
    "position": mapped(lambda x: x + lax.axis_index(("c", "r")), n, grid, P("r", "c"), P("r", "c")),
}

def looped(x):
    def body(k, carry):
        return lax.cond(k % 2 == 0, lambda v: lax.psum(v, "i") % 1000 + x,
                        lambda v: lax.ppermute(v, "i", [(3, 0), (0, 1)]), carry)
    steps = lax.fori_loop(0, 5, body, x)
    total, rows = lax.scan(lambda c, y: (c + lax.psum(y, "i"), c), steps[0], steps)
    return steps + total, rows
found["loop"] = mapped(looped, n, gives=(P("i"), P("i")))

inner = devrt.jit(lambda v: lax.psum(v * 2, "i") % 1000 + 1)
def beside(x):
    total, ring = lax.psum(x, "i"), lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)])
    return {
        "sum": total + 1, "mean": lax.pmean(x, "i"), "again": lax.psum(total % 7, "i") - ring,
        "gather": lax.all_gather(x, "i", axis=1) * 2, "ring": -ring,
        "scatter": lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True) - 3,
        "to_all": lax.all_to_all(x, "i", 1, 0, tiled=True) + x.reshape(8, 2),
        "inner": inner(x) - inner(inner(x + 1)), "most": lax.pmax(x, "i") * lax.pmin(x, "i"),
        "many": sum(lax.psum(x + k, "i") * k for k in range(20)),
    }
found["beside"] = mapped(beside, n, gives=P("i"))

@devrt.jit
def around(a, b):
    inner = devrt.shard_map(lambda x: lax.psum(x, "i"), line, in_specs=P("i"), out_specs=P())
    total = b.sum(keepdims=True)
    return {"sum": inner(a * 2 + 1), "local": a + b, "const": jnp.arange(8), "b": total}
a, b = put(n, line, "i"), put(n % 5, line)
found["jit"] = whole(around(a, b))
found["eager"] = whole({"x": a * 3 + b - (-a), "y": (b @ b).sum(0), "z": a.T})
cut = devrt.jit(lambda x: x % 3, out_shardings=NamedSharding(line, P("i")))(b)
found["cut"] = whole(cut)

count = len(devrt.local_devices())
each = devrt.pmap(lambda x, k: lax.psum(x, "i") + x * lax.axis_index("i") + k, axis_name="i",
                  in_axes=(0, None))
mine = n.reshape(4, 2, 8)[me * count : (me + 1) * count]
result = each(each(mine, 1), 2)
assert result.is_fully_addressable and result.shape == (count, 2, 8), result
found["pmap"] = whole(result)

shape = devrt.ShapeDtypeStruct((2, 8), np.int32)
found["callback"] = mapped(
    lambda x: lax.psum(devrt.pure_callback(lambda v: v * 2 + 1, shape, x), "i"), n, gives=P())

# Programs of this process's devices alone wait for each other as well, in between.
here = Mesh(np.array(devrt.local_devices()), ("i",))
step = lambda x: lax.psum(x, "i") % 97 + x
local, over = [devrt.jit(devrt.shard_map(step, mesh, in_specs=P("i"), out_specs=P("i")),
                         donate_argnums=0) for mesh in (here, line)]
b, c = put(np.zeros(4, np.int32), here, "i"), put(np.arange(8, dtype=np.int32), line, "i")
for _ in range(30):
    b, c = local(b), over(c)
found["between"] = whole(c)
show(found=devrt.tree.map(lambda x: np.asarray(x).tolist(), found))

x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
y = np.arange(8, dtype=np.float32)
def loss(w, x, y):
    return lax.pmean(((x @ w - y) ** 2).mean(), "i")
def global_loss(w, x, y):
    return devrt.shard_map(loss, line, in_specs=(P(), P("i"), P("i")), out_specs=P())(w, x, y)
value, gradient = devrt.jit(devrt.value_and_grad(global_loss))(
    put(np.ones(4, np.float32), line), put(x, line, "i"), put(y, line, "i"))
error = x @ np.ones(4) - y
np.testing.assert_allclose(value, (error**2).mean(), rtol=1e-5)
np.testing.assert_allclose(gradient, 2 * x.T @ error / 8, rtol=1e-4)
half = mapped(lambda v: lax.psum(v, "i"), x.astype(jnp.bfloat16), gives=P())
np.testing.assert_allclose(half.astype(np.float32), x.reshape(4, 2, 4).sum(0), rtol=2e-2, atol=1e-2)
"""
)


def on(platform, devices):
    """Return what gives a process so many devices, simulated ones where not the CPU's."""
    if platform == "cpu":
        return {"DEVRT_NUM_CPU_DEVICES": str(devices)}
    pytest.importorskip(f"devrt_{platform}")
    chosen = {"DEVRT_PLATFORMS": platform, f"DEVRT_{platform.upper()}_MOCK": str(devices)}
    return {**chosen, "PYTHONWARNINGS": "ignore"}  # the platform is experimental


_FOUND = []


@pytest.fixture
def expected(launch):
    """Return what one process finds on devices of the CPU, which is run once."""
    if not _FOUND:
        (lines,), done = launch(1, PROGRAMS, **on("cpu", 4))
        assert (done.returncode, done.stderr) == (0, "")
        _FOUND.append(json.loads(lines[0])["found"])
    return _FOUND[0]


@pytest.mark.parametrize(
    ("platform", "counts"), [("cpu", (2, 4)), ("cuda", (2,)), ("rocm", (1, 2))]
)
def test_programs_over_processes_are_those_of_one_process(launch, expected, platform, counts):
    for count in counts:
        printed, done = launch(count, PROGRAMS, **on(platform, 4 // count))
        assert (done.returncode, done.stderr) == (0, "")
        for lines in printed:
            assert json.loads(lines[0])["found"] == expected


def test_programs_over_mpi_are_those_of_one_process(launch_mpi, expected):
    """The launcher's processes are the job's, and its engine is the one that is chosen."""
    ends = """
from devrt.distributed import collectives
used = [each.engine for each in distributed.global_state.communicators]
show(engine=collectives.engines()[0], used=used)
distributed.shutdown()
"""
    shown, done = launch_mpi(4, PROGRAMS + ends, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    for lines in shown:
        assert json.loads(lines[0])["found"] == expected
        engines = json.loads(lines[1])
        assert engines["engine"] == "mpi"
        assert set(engines["used"]) == {"mpi"}


def test_programs_over_mpi_need_its_launcher(launch):
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py")
    text = """
from devrt import lax
from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(devrt.devices()), ("i",))
total = devrt.jit(devrt.shard_map(lambda x: lax.psum(x, "i"), mesh, in_specs=P("i"), out_specs=P()))
x = devrt.make_array_from_process_local_data(NamedSharding(mesh, P("i")), np.ones(1))
show(found=refused(lambda: np.asarray(total(x))))
"""
    printed, done = launch(
        2, text, DEVRT_CPU_COLLECTIVES_IMPLEMENTATION="mpi", DEVRT_NUM_CPU_DEVICES="1"
    )
    assert (done.returncode, done.stderr) == (0, "")
    for lines in printed:
        found = json.loads(lines[0])["found"]
        assert found.startswith("InvalidArgumentError: collectives through MPI are for 2 processes")


LOST = (
    SETUP
    + """
import os, signal
total = devrt.jit(devrt.shard_map(lambda x: lax.psum(x, "i"), line, in_specs=P("i"), out_specs=P()))
x = put(np.arange(1, 4, dtype=np.int32), line, "i")
assert np.asarray(total(x)).tolist() == [6]
together.sync_global_devices("before")
if me == 1:
    os.kill(os.getpid(), signal.SIGKILL)
def lost(call):
    try: np.asarray(call())
    except Exception as error: return [type(error).__name__, list(getattr(error, "processes", []))]
show(first=lost(lambda: total(x)), again=lost(lambda: total(total(x) + x)))
"""
)


@pytest.mark.parametrize(
    ("engine", "platform"), [("gloo", "cpu"), ("store", "cpu"), ("gloo", "cuda"), ("gloo", "rocm")]
)
def test_a_process_that_dies_in_a_program_is_named_to_the_others(engine, platform, launch_apart):
    if engine not in collectives.engines():
        pytest.skip("devrt-cpu was built without Gloo")
    environ = on(platform, 1)
    printed, codes = launch_apart(3, LOST, DEVRT_CPU_COLLECTIVES_IMPLEMENTATION=engine, **environ)
    assert codes[1] == -signal.SIGKILL
    for me in (0, 2):
        seen = json.loads(printed[me][0])
        assert seen == {"first": ["PeerLostError", [1]], "again": ["PeerLostError", [1]]}


def test_mpi_s_launcher_ends_the_job_where_a_process_dies(launch_mpi):
    shown, done = launch_mpi(3, LOST, DEVRT_NUM_CPU_DEVICES="1")
    assert done.returncode != 0
    assert shown == [[], [], []]


def test_a_process_that_dies_is_named_where_mpi_s_launcher_ends_none(launch_mpi):
    version = subprocess.run([launch_mpi.launcher, "--version"], capture_output=True, text=True)
    if "HYDRA" not in version.stdout:
        pytest.skip("needs MPICH's launcher")
    # At its end MPI would wait for the process that is gone.
    ends = "\nsys.stdout.flush()\nos._exit(0)\n"
    # In sessions of their own: the launcher kills groups of processes at times all the same.
    apart = ("-disable-auto-cleanup",), ("setsid", "--wait")
    shown, _ = launch_mpi(3, LOST + ends, *apart, DEVRT_NUM_CPU_DEVICES="1")
    for me in (0, 2):
        seen = json.loads(shown[me][0])
        assert seen == {"first": ["PeerLostError", [1]], "again": ["PeerLostError", [1]]}


OWN = (
    SETUP
    + """
from devrt import xla_client
total = lambda mesh: devrt.shard_map(
    lambda x: lax.psum(x, "i"), mesh, in_specs=P("i"), out_specs=P())
x = np.arange(2, dtype=np.int32)
with devrt.config.override(jax_cpu_collectives_implementation="none"):
    show(none=refused(lambda: total(line)(put(x, line, "i"))))
with devrt.config.override(cpu_collectives_implementation="nobody's"):
    show(unknown=refused(lambda: np.asarray(total(line)(put(x, line, "i")))))
make = xla_client.make_gloo_tcp_collectives
show(
    both=refused(lambda: make(client, "localhost", "lo")),
    nobody=refused(make),
    interface=refused(lambda: make(client, interface="lo9")),
)
def reduced(**collectives):
    own = xla_client.make_cpu_client(
        distributed_client=client, node_id=me, num_nodes=2, num_devices=1, **collectives)
    mesh = Mesh(np.array(own.devices()), ("i",))
    return np.asarray(total(mesh)(put(x + 5, mesh, "i"))).tolist()
show(given=reduced(collectives=make(client, interface="lo")), of_job=reduced())
"""
)


def test_collectives_are_given_to_a_client_or_named_by_the_configuration(launch):
    if "gloo" not in collectives.engines():
        pytest.skip("needs devrt-cpu built with Gloo")
    printed, done = launch(2, OWN, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    for lines in printed:
        none, unknown, refused, given = map(json.loads, lines)
        assert "UnimplementedError: programs on the devices of several" in none["none"]
        assert "cpu_collectives_implementation to 'gloo'" in none["none"]
        assert 'there is no engine "nobody\'s"' in unknown["unknown"]
        assert "not both" in refused["both"]
        assert "needs distributed_client" in refused["nobody"]
        assert "'lo9' has no IPv4 address" in refused["interface"]
        assert given == {"given": [11], "of_job": [11]}

"""Programs over processes whose compiler knows the devices of all: what is compiled, and what runs.

The compiler is the fake plugin, which finds the other processes through the job's keys as XLA's
does. The processes are real ones, and so is their job.
"""

import os
import shutil
import subprocess
import sys

import devrt_cuda._ext
import pytest

from fake_gpu import build
from gpu_jobs import run_job

pytestmark = pytest.mark.engine
pytest.importorskip("grpc", reason="needs the extra 'distributed'")
pytest.importorskip("devrt_cpu._library").describe(None)

TOTAL = """
import numpy as np
import devrt
from devrt import lax
from devrt.sharding import NamedSharding, PartitionSpec as P
def total(x): return lax.psum(x, "i")
def total_of_rows(x): return lax.psum(x, "i")
def over(devices):
    mesh = devrt.make_mesh((4,), ("i",), devices=devices)
    summed = devrt.shard_map(total, mesh, in_specs=P("i"), out_specs=P())
    summed.__name__ = "total"
    return NamedSharding(mesh, P("i")), devrt.jit(summed)
"""

MODULES = (
    TOTAL
    + """
import sys
rows, whole = over(devrt.devices("cpu"))
x = devrt.device_put(np.zeros(8, np.float32), rows)
each = devrt.pmap(total_of_rows, axis_name="i")
for lowered in (whole.lower(x), each.lower(np.zeros((4, 2), np.float32))):
    name = lowered.as_text().split("@")[1].split()[0]
    code = lowered.compile().runtime_executable().optimized_program()[1]
    open(f"{sys.argv[1]}/{name}.hlo", "wb").write(code)
"""
)

SETUP = (
    TOTAL
    + """
import ctypes
from devrt.compiling.options import CompileOptions
from devrt.native.engines import engine_of
from devrt.programs import load_program
from devrt.records import ClientContext
from devrt_cuda._platform import PLATFORM

def assigned():
    "Return the devices that the last program was compiled for, as the plugin numbers them."
    size = ctypes.c_size_t()
    function = ctypes.CDLL(os.environ["DEVRT_CUDA_ENGINE"]).fake_gpu_compile_options
    function.restype = ctypes.c_void_p
    options = ctypes.string_at(function(ctypes.byref(size)), size.value)
    return CompileOptions.deserialize(options).assignment().ids

def error(function):
    try:
        return [repr(function())]
    except DevrtError as raised:
        data = {k: v for k, v in raised.data.items() if k in ("missing_nodes", "process", "parent")}
        return [type(raised).__name__, data, str(raised)]

def own(**options):
    job = {"distributed_client": store, "node_id": me, "num_nodes": 2}
    return PLATFORM.make_client(ClientContext(options={**job, "cuda_mock": "2", **options}))
def first_program(client):
    _, whole = over(client.devices())
    return client.compile_and_load(
        whole.lower(devrt.ShapeDtypeStruct((8,), np.float32)).as_text(), client.devices())
def numbers(made):
    return engine_of(made).numbers(made, engine_of(made).library(made))

def end():
    store.wait_at_barrier("end", 60_000)
    client.close()
"""
)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """Return the environment in which the built plugin compiles for simulated devices."""
    library, kernels = build(tmp_path_factory.mktemp("built"))
    modules = tmp_path_factory.mktemp("modules")
    environ = {**os.environ, "DEVRT_NUM_CPU_DEVICES": "4", "DEVRT_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", MODULES, modules], env=environ, check=True, timeout=120)
    folder = os.path.dirname(devrt_cuda._ext.__file__)
    return {
        "DEVRT_CUDA_ENGINE": str(library),
        "FAKE_GPU_DRIVER": os.path.join(folder, "libdevrt_cuda_simulator.so"),
        "FAKE_GPU_KERNELS": str(kernels),
        "FAKE_GPU_MODULES": str(modules),
    }


def run(plugin, body, **how):
    return run_job(SETUP + body, **plugin, **how)


PROGRAMS = """
if me == 1:
    os.environ["FAKE_GPU_FAULTS"] = "reversed"  # its plugin lists its devices the other way round
show(client.capabilities.programs_across_processes, client.capabilities.calls_on_host)
rows, whole = over(devices)
given = np.arange(8, dtype=np.float32)
x = devrt.make_array_from_process_local_data(rows, given[4 * me : 4 * me + 4])
result = whole(x)
show(np.asarray(result).tolist(), np.asarray(whole(x)).tolist())
show(assigned(), numbers(client))
made = whole.lower(x).compile().runtime_executable()
local = [device.id for device in made.local_devices()]
show(made.num_partitions, local, len(result.sharding.device_set))
each = devrt.pmap(total_of_rows, axis_name="i")
show(np.asarray(each(given.reshape(4, 2)[2 * me : 2 * me + 2])).tolist())
loaded = load_program(whole.lower(x).as_text(), devices=devices)
show(np.asarray(loaded(x)).tolist())
engine = engine_of(client)
def is_cached(*ids):
    options = CompileOptions(num_partitions=len(ids), device_assignment=[ids])
    return engine._cache(client, engine.library(client), options) is not None
show(engine.machine(client)[0], is_cached(0, 1, 3, 2), is_cached(*[2 * me, 2 * me + 1]))
from gpu_library import Driver
assert (found := Driver().reports()) == [], found
end()
"""


def test_one_program_is_compiled_for_the_devices_of_all_processes(plugin):
    for me, lines in enumerate(run(plugin, PROGRAMS)):
        can, sums, numbers, made, mapped, loaded, kept = lines
        assert can == [True, False]
        assert sums == [[12, 16], [12, 16]]
        assert numbers[0] in ([[0, 1, 3, 2]], [[0], [1], [3], [2]])
        assert numbers[1] == {"0": 0, "1": 1, "2": 3, "3": 2}
        assert made[0] == 4
        assert sorted(made[1]) == [2 * me, 2 * me + 1]
        assert made[2] == 4
        assert mapped == [[[12, 16], [12, 16]]]
        assert loaded == [[[12, 16]]]
        assert kept == [f"process {me}", False, True]


CLIENTS = """
import threading
made = [own(), own()]
threads = [threading.Thread(target=first_program, args=(each,)) for each in made[:: 1 - 2 * me]]
for thread in threads: thread.start()
for thread in threads: thread.join()
show(*map(numbers, made))
for each in made: each.close()
end()
"""


def test_several_clients_of_one_job_find_their_own_peers_in_any_order(plugin):
    expected = {str(number): number for number in range(4)}
    assert run(plugin, CLIENTS) == [[[expected, expected]]] * 2


FAULTS = """
late = own(get_local_topology_timeout_minutes=1 / 60, get_global_topology_timeout_minutes=1 / 60)
if me == 0:
    show(error(lambda: first_program(late)))
store.wait_at_barrier("late", 60_000)

os.environ["FAKE_GPU_TIMEOUT"] = "1000"
for fault, where in (("silent", 1), ("more", 0)):
    made = own()
    os.environ["FAKE_GPU_FAULTS"] = fault if me == where else ""
    show(error(lambda: first_program(made)))
    store.wait_at_barrier(fault, 60_000)
os.environ["FAKE_GPU_FAULTS"] = ""

other = own()
if me == 1:
    os.environ["DEVRT_CUDA_ENGINE"] = os.environ["OTHER"]
show(error(lambda: first_program(other)))
store.wait_at_barrier("other", 60_000)
child = os.fork()
if child == 0:
    show(error(lambda: first_program(client)))
    os._exit(0)
os.waitpid(child, 0)
end()
"""


def test_what_the_processes_do_not_have_alike_is_named(plugin, tmp_path):
    other = tmp_path / "other.so"
    shutil.copy(plugin["DEVRT_CUDA_ENGINE"], other)
    first, second = run(plugin, FAULTS, OTHER=str(other), GRPC_ENABLE_FORK_SUPPORT="0")
    (late,) = first.pop(0)
    assert late[:2] == ["DeadlineExceededError", {"missing_nodes": [1]}]
    assert "compile_and_load waited 1 s, and node 1 did not publish" in late[2]
    (silent, more, different, forked), (waited, _, refused, _) = (
        [line[0] for line in lines] for lines in (first, second)
    )
    assert silent[0] == waited[0] == "DeadlineExceededError"
    assert "fake/local/1" in silent[2]
    assert "fake/all" in waited[2]
    assert more[:2] == ["DistributedError", {"process": 1}]
    assert "process 1 has 2 devices, which are numbers [2, 3] of its plugin's" in more[2]
    assert "knows numbers [2, 3, 4] of that process" in more[2]
    for found in (different, refused):
        assert found[:2] == ["DistributedError", {"process": 1}]
        assert "node 1 has version" in found[2]
    assert forked[0] == "ForkedError"


LOST = """
rows, whole = over(devices)
x = devrt.make_array_from_process_local_data(rows, np.ones(4, np.float32))
show(outcome(lambda: [whole(x)]))
if me == 1:
    os.kill(os.getpid(), signal.SIGKILL)
show(outcome(lambda: [whole(x)]))
os._exit(0)  # the job has lost a process, and does not end in order
"""


def test_a_process_that_dies_in_a_program_is_named(plugin):
    ((before,), (lost,)) = run(plugin, LOST, first_only=True)[0]
    assert before == [4.0]
    assert lost[:2] == ["PeerLostError", [1]]


WITHOUT = (
    TOTAL
    + """
import warnings
from devrt.errors import UnimplementedError
warnings.simplefilter("ignore")
devices = devrt.devices("cuda")
assert not devices[0].client.capabilities.programs_across_processes
rows, whole = over(devices)
x = devrt.make_array_from_callback((8,), rows, lambda index: np.zeros(2, np.float32))
try:
    whole(x)
except UnimplementedError as error:
    print(error)
"""
)


def test_without_a_job_the_refusal_says_what_to_do(plugin):
    environ = {**os.environ, **plugin, "DEVRT_CUDA_MOCK": "2x2"}
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Call devrt.distributed.initialize() in every process" in done.stdout

"""GPUs of several processes, simulated ones: one list of devices in all of them."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import importlib.metadata
import json
import warnings
import devrt
from devrt import distributed, xla_client
from devrt.errors import DevrtError
warnings.simplefilter("ignore", devrt.errors.DevrtWarning)  # the platforms are experimental
distributed.initialize(initialization_timeout=60)
job = distributed.global_state
me = job.process_id

def described(client):
    return [[d.id, d.process_index, d.local_hardware_id, d.device_kind] for d in client.devices()]

def made(platform, **options):
    try:
        return described(xla_client.make_gpu_client(
            distributed_client=job.client, node_id=me, num_nodes=2, platform_name=platform,
            mock=True, **options))
    except DevrtError as error:
        return f"{type(error).__name__} {error.process}: {error}"

whole = described(devrt.get_backend("cuda"))
some = made("cuda", mock_gpu_topology="3", allowed_devices={me + 1})
if me:
    importlib.metadata.version = lambda package: "0.0.9"
other = made("cuda")
print(json.dumps([whole, some, other]), flush=True)
job.client.wait_at_barrier("seen", 60_000)
distributed.shutdown()
"""


PLACES = """
import json
import pathlib
import warnings
import devrt
from devrt import distributed
from devrt.errors import DevrtError
from devrt.native import nodes
from devrt.runtime import default_runtime
warnings.simplefilter("ignore", devrt.errors.DevrtWarning)  # the platforms are experimental
distributed.initialize(initialization_timeout=60, slice_index=4)
me = distributed.global_state.process_id

def places(**given):
    store = distributed.global_state.client
    job = {"distributed_client": store, "node_id": me, "num_nodes": 2}
    try:
        client = default_runtime().make_client("cuda", job | given)
    except DevrtError as error:
        return str(error)
    return of(client)

def of(client):
    return [[*d.coords, d.slice_index, d.partition_index] for d in client.devices()]

seen = [of(devrt.get_backend("cuda")), places()]
if me:
    pathlib.Path("boot_id").write_text("another host")
    nodes._BOOT_ID = "boot_id"
seen.append(places())
seen.append(places(partition_index=1 - me))
seen.append(places(slice_index=0 if me else None))
seen.append(places(mock_gpu_topology="2x1x1"))
print(json.dumps(seen), flush=True)
distributed.global_state.client.wait_at_barrier("seen", 60_000)
distributed.shutdown()
"""


def _launched(script, tmp_path):
    """Return what the two processes of a script print."""
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    path = tmp_path / "script.py"
    path.write_text(script)
    command = [sys.executable, "-m", "devrt", "launch", "-n", "2", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line.partition("] ")[2]) for line in sorted(done.stdout.splitlines())]


def test_processes_see_each_others_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("DEVRT_CUDA_MOCK", "3")
    seen = _launched(SCRIPT, tmp_path)
    assert len(seen) == 2
    for whole, some, other in seen:
        assert [row[:3] for row in whole] == [[n, n // 3, n % 3] for n in range(6)]
        assert len({row[3] for row in whole}) == 1
        assert "simulated" in whole[0][3]
        assert [row[:3] for row in some] == [[0, 0, 1], [1, 1, 2]]
        assert other.startswith("DistributedError 1: make_cuda_client could not exchange")
        assert "node 1 has version '0.0.9', and node 0" in other


def test_processes_know_which_partition_each_device_is_in(tmp_path, monkeypatch):
    """One host is one, unless the processes, or simulated slices, say which they are in."""
    monkeypatch.setenv("DEVRT_CUDA_MOCK", "1")
    seen = _launched(PLACES, tmp_path)
    assert len(seen) == 2
    for given_to_job, one_host, two_hosts, given, contradicting, slices in seen:
        assert given_to_job == [[4, 0, 0, 4, 4], [4, 1, 0, 4, 4]]
        assert one_host == [[0, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
        assert two_hosts == [[0, 0, 0, 0, 0], [1, 0, 0, 1, 1]]
        assert given == [[1, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
        assert "make_cuda_client could not exchange the topology" in contradicting
        assert "node 1 was given a partition_index, and node 0 none. Give every" in contradicting
        assert slices == [[0, 0, 0, 0, 0], [1, 0, 0, 1, 1]]

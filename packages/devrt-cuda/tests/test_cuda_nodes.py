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


@pytest.fixture
def seen(tmp_path, monkeypatch):
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    monkeypatch.setenv("DEVRT_CUDA_MOCK", "3")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "devrt", "launch", "-n", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line.partition("] ")[2]) for line in sorted(done.stdout.splitlines())]


def test_processes_see_each_others_gpus(seen):
    assert len(seen) == 2
    for whole, some, other in seen:
        assert [row[:3] for row in whole] == [[n, n // 3, n % 3] for n in range(6)]
        assert len({row[3] for row in whole}) == 1
        assert "simulated" in whole[0][3]
        assert [row[:3] for row in some] == [[0, 0, 1], [1, 1, 2]]
        assert other.startswith("DistributedError 1: make_cuda_client could not exchange")
        assert "node 1 has version '0.0.9', and node 0" in other

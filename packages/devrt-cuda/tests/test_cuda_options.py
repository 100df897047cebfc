"""What each option and variable that jaxlib knows does to a client, on simulated devices."""

import json
import os
import subprocess
import sys

import pytest

HEAD = """
import json, warnings
import numpy as np
import devrt
from devrt import xla_client
from devrt.errors import DevrtError
from devrt.runtime import default_runtime
from devrt.xla_client import GpuAllocatorConfig

warnings.simplefilter("ignore")
MIB = 1 << 20

def client(**options):
    given = {"mock": True, "mock_gpu_topology": "1"} | options
    return default_runtime().make_client("cuda", given)

def put(on, size=MIB):
    device = on.local_devices()[0]
    return on.buffer_from_pyval(np.zeros(size, np.uint8), device)

def stats(on):
    return on.local_devices()[0].memory_stats()

def held(on):
    "What an allocator takes of the device for a MiB."
    buffer = put(on)
    return stats(on)["bytes_limit"] - stats(on)["largest_free_block_bytes"]

def shape(on):
    local = on.local_devices()
    return [on.device_count(), len(local), on.process_index(), [d.id for d in local],
            [d.local_hardware_id for d in local]]

def gpu(**options):
    return shape(xla_client.make_gpu_client(platform_name="cuda", **options))

def error(make):
    try:
        make()
    except DevrtError as raised:
        return type(raised).__name__
    return None
"""

MOCK = {"DEVRT_CUDA_MOCK": "4"}
LIMIT = 1 << 30  # of a simulated device's memory
MIB = 1 << 20
ARENA = 8 << 20
BFC = 64 << 20

# A name: what is set, what is evaluated, what that gives.
CASES = {
    "preallocate": (
        {},
        '[c := client(allocator="bfc", preallocate=True, memory_fraction=0.5),'
        'error(lambda: put(client(allocator="bfc"), 600 * MIB).block_until_ready())][1]',
        "OutOfMemoryError",
    ),
    "XLA_PYTHON_CLIENT_PREALLOCATE": (
        {"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_CLIENT_MEM_FRACTION": ".6",
         "XLA_PYTHON_CLIENT_ALLOCATOR": "bfc"},
        "[c := client(), error(lambda: client())][1]",
        "BackendInitializationError",
    ),
    "mock": ({}, "gpu(mock=True)", [1, 1, 0, [0], [0]]),
    "mock_gpu_topology": (
        {},
        'gpu(mock=True, mock_gpu_topology="2x2")',
        [4, 2, 0, [0, 1], [0, 1]],
    ),
    "node_id": (
        {},
        'gpu(mock=True, mock_gpu_topology="2x2", node_id=1)',
        [4, 2, 1, [2, 3], [0, 1]],
    ),
    "num_nodes": (
        {},
        'gpu(mock=True, mock_gpu_topology="2", node_id=2, num_nodes=3)',
        [6, 2, 2, [4, 5], [0, 1]],
    ),
    "allowed_devices": (MOCK, "gpu(allowed_devices={3, 1})", [2, 2, 0, [0, 1], [1, 3]]),
    "platform_name": ({}, 'error(lambda: xla_client.make_gpu_client(platform_name="gpus"))',
        "UnknownPlatformError"),
    "mock_num_gpus": ({}, "shape(client(mock_gpu_topology=None, mock_num_gpus=3))[0]", 3),
    "use_mock_gpu_client": (
        {},
        'shape(client(mock=None, mock_gpu_topology=None, use_mock_gpu_client=True))[0]',
        1,
    ),
    "use_mock_gpu_client configured": (
        {},
        '[devrt.config.update("jax_use_mock_gpu_client", True),'
        'devrt.config.update("jax_mock_num_gpus", 3), len(devrt.devices("cuda"))][2]',
        3,
    ),
    "JAX_USE_MOCK_GPU_CLIENT": (
        {"JAX_USE_MOCK_GPU_CLIENT": "1", "JAX_MOCK_NUM_GPUS": "2"},
        '[len(devrt.devices(p)) for p in ("cuda", "gpu")]',
        [2, 2],
    ),
    "JAX_USE_MOCK_GPU_CLIENT not": (
        {"JAX_USE_MOCK_GPU_CLIENT": "0", "JAX_MOCK_NUM_GPUS": "2"},
        'error(lambda: devrt.devices("cuda"))',
        "BackendUnavailableError",
    ),
    "jax_cuda_visible_devices": (
        MOCK,
        '[devrt.config.update("jax_cuda_visible_devices", "2,0"), gpu()][1]',
        [2, 2, 0, [0, 1], [0, 2]],
    ),
    "JAX_CUDA_VISIBLE_DEVICES": (
        MOCK | {"JAX_CUDA_VISIBLE_DEVICES": "1"},
        "gpu()",
        [1, 1, 0, [0], [1]],
    ),
    "memory_fraction": ({}, 'stats(client(memory_fraction=0.25))["bytes_limit"]', LIMIT // 4),
    "XLA_CLIENT_MEM_FRACTION": (
        {"XLA_CLIENT_MEM_FRACTION": ".5"},
        'stats(client())["bytes_limit"]',
        LIMIT // 2,
    ),
    "XLA_PYTHON_CLIENT_MEM_FRACTION": (
        {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".125"},
        'stats(client())["bytes_limit"]',
        LIMIT // 8,
    ),
    "a call before the variable": (
        {"XLA_CLIENT_MEM_FRACTION": ".5"},
        'stats(client(memory_fraction=0.25))["bytes_limit"]',
        LIMIT // 4,
    ),
    "allocator platform": ({}, 'held(client(allocator="platform"))', MIB),
    "allocator bfc": ({}, 'held(client(allocator="bfc"))', BFC),
    "allocator default": ({}, "held(client())", ARENA),
    "XLA_PYTHON_CLIENT_ALLOCATOR": (
        {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
        "held(client())",
        MIB,
    ),
    "an allocator that is unknown": (
        {"XLA_PYTHON_CLIENT_ALLOCATOR": "malloc"},
        "error(client)",
        "ConfigError",
    ),
    "GpuAllocatorConfig": (
        {},
        "[held(c := client(allocator=GpuAllocatorConfig(GpuAllocatorConfig.Kind.BFC, 0.5))),"
        'stats(c)["bytes_limit"]]',
        [BFC, LIMIT // 2],
    ),
    "GpuAllocatorConfig that preallocates as jaxlib's default does": (
        {},
        'stats(client(allocator=GpuAllocatorConfig(preallocate=True)))["bytes_reserved"]'
        " >= LIMIT * 3 // 4".replace("LIMIT", str(LIMIT)),
        True,
    ),
    "a configured number with mock": (
        {"DEVRT_CUDA_MOCK": "3"},
        "shape(client(mock_gpu_topology=None))[0]",
        3,
    ),
    "no simulated devices": (
        {"DEVRT_CUDA_MOCK": "3"},
        "error(lambda: client(mock=False, mock_gpu_topology=None))",
        "BackendInitializationError",
    ),
    "cuda_mock": ({}, 'shape(default_runtime().make_client("cuda", {"cuda_mock": "2x4"}))[0]', 8),
    "no preallocation unless requested": (
        {},
        '[client(allocator="bfc"), error(lambda: put(client(allocator="bfc"), 600 * MIB))][1]',
        None,
    ),
    "get_topology_for_devices": (
        {},
        "[xla_client.get_topology_for_devices(client().devices()).platform]",
        ["cuda"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_option_does_what_it_says(case):
    environ, expression, expected = CASES[case]
    program = f"{HEAD}\nprint(json.dumps({expression}))"
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("XLA_", "JAX_", "DEVRT_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean | environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected

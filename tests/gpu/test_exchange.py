"""Memory that is shared with other libraries on a GPU, with their streams in the handshake."""

import numpy as np
import pytest

import devrt
from gpu_machine import COUNT, ROUNDS, library


def put(device, value=1.0):
    return devrt.device_put(np.full(COUNT, value, np.float32), device)


def test_torch_reads_behind_what_fills_an_array(device):
    torch = library("torch")
    for value in range(ROUNDS):
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = torch.from_dlpack(put(device, value).copy())
            assert (tensor * 2).sum().item() == 2 * value * COUNT


def test_devrt_reads_behind_what_torch_does(device):
    torch = library("torch")
    for value in range(ROUNDS):
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = torch.full((2048, 2048), float(value), device="cuda")
            for _ in range(10):
                tensor = tensor + 1
            shared = devrt.dlpack.from_dlpack(tensor)
            assert shared.unsafe_buffer_pointer() == tensor.data_ptr()
            assert (np.asarray(shared.copy()) == value + 10).all()


def test_memory_is_shared_with_cupy_both_ways(device):
    cupy = library("cupy")
    x = put(device, 3)
    shown = cupy.asarray(x)  # by the interface
    assert shown.data.ptr == x.unsafe_buffer_pointer()
    assert float(shown.sum()) == 3 * COUNT
    with cupy.cuda.Stream(non_blocking=True):
        made = cupy.arange(COUNT, dtype=cupy.float32) * 2
        copied = devrt.device_put(made, device)
    assert np.array_equal(np.asarray(copied), np.arange(COUNT, dtype=np.float32) * 2)
    shared = devrt.dlpack.from_dlpack(made[: COUNT // 2])
    assert shared.unsafe_buffer_pointer() == made.data.ptr


def test_memory_is_shared_with_jax_both_ways(device, monkeypatch):
    # Else it takes three quarters of the device, of which others keep some.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = library("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("jax has no GPU here")
    x = put(device, 3)
    assert float(jax.dlpack.from_dlpack(x).sum()) == 3 * COUNT
    made = jax.numpy.arange(COUNT, dtype="float32") * 2
    assert np.array_equal(np.asarray(devrt.dlpack.from_dlpack(made)), np.asarray(made))

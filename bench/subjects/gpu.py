"""A GPU: copies at the link's speed, allocations, launches, programs and a training step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Sweep, Timed, fresh, repeated
from bench.subjects._cuda_driver import Driver
from bench.subjects._data import MIB, source

__all__ = [
    "SPECS", "cudacore_cases", "cupy_cases", "devrt_cases", "driver_cases", "jax_cases",
    "rmm_cases", "torch_cases",
]  # fmt: skip

_SIZES = (16 << 10, MIB, 16 * MIB, 256 * MIB)
_ALLOCATED = (32, MIB, 64 * MIB)
SMALL = "put of 8 floats, waited for"
CALL = "jit: x + x on 8 floats, not waited for"
CALL_WAITED = "jit: x + x on 8 floats, waited for"
STEP = "training step of three layers of 1024 on 256 rows, waited for"
KERNEL = 'extern "C" __global__ void touch(unsigned char* out) {}'


def _named(what: str, nbytes: int) -> str:
    return f"{what}, {nbytes} bytes"


PUT_PINNED, FETCH_PINNED = "put of page-locked memory, waited for", "fetch to page-locked memory"
PUT, FETCH = "put of pageable memory, waited for", "fetch to pageable memory"
LAUNCH = "launch of an empty kernel with a new array, not waited for"


def _swept(what: str, peers: tuple[str, ...], sizes: tuple[int, ...] = _SIZES) -> list[Spec]:
    return [Spec(_named(what, n), peers, platform="gpu", sweep=Sweep(what, "B", n)) for n in sizes]


SPECS = [
    Spec(SMALL, ("jaxgpu", "torch", "cupy"), platform="gpu"),
    *_swept(PUT_PINNED, ("driver", "torch")),
    *_swept(FETCH_PINNED, ("driver", "torch")),
    *_swept(PUT, ("jaxgpu", "torch", "cupy")),
    *_swept(FETCH, ("jaxgpu", "torch", "cupy")),
    *_swept(LAUNCH, ("driver", "cudacore", "cupy", "rmm", "devrtbfc"), _ALLOCATED),
    Spec(CALL, ("jaxgpu",), platform="gpu"),
    Spec(CALL_WAITED, ("jaxgpu",), platform="gpu"),
    Spec(STEP, ("jaxgpu", "devrtbfc"), platform="gpu"),
]


def _by_size(what: str, make: Callable[[int], Timed], sizes: tuple[int, ...] = _SIZES) -> Any:
    return {_named(what, n): partial(make, n) for n in sizes}


def _called(call: Callable[[], object]) -> Timed:
    return repeated(lambda _: call(), None)


def _programs(api: Any) -> dict[str, Factory]:
    """Return the cases that devrt and JAX write alike."""
    device = api.devices()[0]
    values = source(32)

    def put(nbytes: int) -> Timed:
        return repeated(lambda x: api.device_put(x, device).block_until_ready(), source(nbytes))

    def fetch(nbytes: int) -> Timed:
        # An array keeps what was fetched, so each is fetched once.
        value = source(nbytes)
        return fresh(np.asarray, lambda: api.device_put(value, device).block_until_ready(), nbytes)

    def call(*, waits: bool) -> Timed:
        double, x = api.jit(lambda x: x + x), api.device_put(values, device)
        double(x).block_until_ready()
        return repeated((lambda a: double(a).block_until_ready()) if waits else double, x)

    return {
        SMALL: partial(put, 32),
        CALL: partial(call, waits=False),
        CALL_WAITED: partial(call, waits=True),
        STEP: partial(_training_step, api),
        **_by_size(PUT, put),
        **_by_size(FETCH, fetch),
    }


def _training_step(api: Any) -> Timed:
    numpy = import_module(f"{api.__name__}.numpy")
    random = np.random.default_rng(0)
    layers = [
        api.device_put(random.standard_normal((1024, 1024), np.float32) / 32) for _ in range(3)
    ]
    x = api.device_put(random.standard_normal((256, 1024), np.float32))

    def loss(layers: list[Any], x: Any) -> Any:
        for layer in layers:
            x = numpy.tanh(x @ layer)
        return (x * x).sum()

    @api.jit
    def step(layers: list[Any], x: Any) -> Any:
        found = api.grad(loss)(layers, x)
        return [layer - 1e-3 * gradient for layer, gradient in zip(layers, found, strict=True)]

    return _called(lambda: api.block_until_ready(step(layers, x)))


def jax_cases() -> dict[str, Factory]:
    """Return JAX's side."""
    return _programs(import_module("jax"))


def devrt_cases() -> dict[str, Factory]:
    """Return devrt's side, with devrt's own client."""
    import devrt

    device = devrt.devices()[0]
    client = device.client

    def moved(given: str, wanted: str, nbytes: int) -> Timed:
        x = client.buffer_from_pyval(source(nbytes), device.memory(given)).block_until_ready()
        to = device.memory(wanted)
        return repeated(lambda x: x.copy_to_memory(to).block_until_ready(), x)

    def launched(nbytes: int) -> Timed:
        kernel = client.compile(KERNEL, format="cuda")["touch"]
        out = devrt.ShapeDtypeStruct((nbytes,), np.uint8)
        return _called(lambda: kernel(out, grid=1, block=1))

    return {
        **_programs(devrt),
        **_by_size(PUT_PINNED, partial(moved, "pinned_host", "device")),
        **_by_size(FETCH_PINNED, partial(moved, "device", "pinned_host")),
        **_by_size(LAUNCH, launched, _ALLOCATED),
    }


def driver_cases() -> dict[str, Factory]:
    """Return what the driver takes for the same, without a library around it."""
    driver = Driver()
    return {
        **_by_size(PUT_PINNED, lambda n: _called(driver.put(n))),
        **_by_size(FETCH_PINNED, lambda n: _called(driver.fetch(n))),
        **_by_size(LAUNCH, lambda n: _called(driver.launch(n)), _ALLOCATED),
    }


def torch_cases() -> dict[str, Factory]:
    """Return PyTorch's side."""
    torch = import_module("torch")
    wait = torch.cuda.synchronize

    def put(nbytes: int, *, pins: bool = False) -> Timed:
        host = torch.from_numpy(source(nbytes))
        host = host.pin_memory() if pins else host
        return _called(lambda: (host.to("cuda", non_blocking=pins), wait()))

    def fetch(nbytes: int) -> Timed:
        x = torch.from_numpy(source(nbytes)).to("cuda")
        return _called(x.cpu)

    def fetch_pinned(nbytes: int) -> Timed:
        x = torch.from_numpy(source(nbytes)).to("cuda")
        into = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        return _called(lambda: (into.copy_(x, non_blocking=True), wait()))

    return {
        SMALL: partial(put, 32),
        **_by_size(PUT, put),
        **_by_size(FETCH, fetch),
        **_by_size(PUT_PINNED, partial(put, pins=True)),
        **_by_size(FETCH_PINNED, fetch_pinned),
    }


def cupy_cases() -> dict[str, Factory]:
    """Return CuPy's side."""
    cupy = import_module("cupy")
    wait = cupy.cuda.get_current_stream().synchronize

    def put(nbytes: int) -> Timed:
        return repeated(lambda x: (cupy.asarray(x), wait()), source(nbytes))

    def fetch(nbytes: int) -> Timed:
        return _called(cupy.asarray(source(nbytes)).get)

    return {
        SMALL: partial(put, 32),
        **_by_size(PUT, put),
        **_by_size(FETCH, fetch),
        **_by_size(LAUNCH, partial(_launched_by_cupy, cupy), _ALLOCATED),
    }


def _launched_by_cupy(cupy: Any, nbytes: int) -> Timed:
    kernel = cupy.RawKernel(KERNEL, "touch")

    def launch() -> Any:
        out = cupy.empty(nbytes, np.uint8)
        kernel((1,), (1,), (out,))
        return out

    return _called(launch)


def rmm_cases() -> dict[str, Factory]:
    """Return CuPy's side with RMM's arena."""
    cupy, rmm = import_module("cupy"), import_module("rmm")
    rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource()))
    cupy.cuda.set_allocator(import_module("rmm.allocators.cupy").rmm_cupy_allocator)
    return _by_size(LAUNCH, partial(_launched_by_cupy, cupy), _ALLOCATED)


def cudacore_cases() -> dict[str, Factory]:
    """Return cuda.core's side."""
    core = import_module("cuda.core")
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    options = core.ProgramOptions(arch=f"sm_{device.arch}")
    image = core.Program(KERNEL, code_type="c++", options=options).compile("cubin")
    kernel, config = image.get_kernel("touch"), core.LaunchConfig(grid=1, block=1)

    def launched(nbytes: int) -> Timed:
        def launch() -> Any:
            out = device.allocate(nbytes, stream=stream)
            core.launch(stream, config, kernel, out)
            return out

        return _called(launch)

    return _by_size(LAUNCH, launched, _ALLOCATED)

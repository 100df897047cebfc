"""A GPU: copies at the link's speed, allocations, launches, programs and a training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import repeat
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Sweep, Timed, fresh, repeated
from bench.subjects._cuda_driver import Driver, stand_in_image
from bench.subjects._data import MIB, source

__all__ = [
    "SPECS", "cudacore_cases", "cupy_cases", "devrt_cases", "driver_cases", "jax_cases",
    "rmm_cases", "torch_cases",
]  # fmt: skip

_SIZES = (16 << 10, MIB, 16 * MIB, 256 * MIB)
_SMALL = (32, 64 << 10)  # of the arena in front of the driver's pool
_LARGE = (2 * MIB, 32 * MIB)  # of the pool
_AT_ONCE = 8
SMALL = "put of 8 floats, waited for"
CALL = "jit: x + x on 8 floats, not waited for"
CALL_WAITED = "jit: x + x on 8 floats, waited for"
STEP = "training step of three layers of 1024 on 256 rows, waited for"
KERNEL = 'extern "C" __global__ void touch(unsigned char* out) {}'
_KERNELS = (
    KERNEL
    + """
extern "C" __global__ void touch_all(void* a, void* b, void* c, void* d,
                                     void* e, void* f, void* g, void* h) {}
"""
)


def _named(what: str, nbytes: int) -> str:
    return f"{what}, {nbytes} bytes"


PUT_PINNED, FETCH_PINNED = "put of page-locked memory, waited for", "fetch to page-locked memory"
PUT, FETCH = "put of pageable memory, waited for", "fetch to pageable memory"
ALLOCATE = "allocate and free, not waited for"
LAUNCH = "launch of an empty kernel on an array, not waited for"

_PAGEABLE = (("jaxgpu", 1.0), ("torch", 1.0))
_OF_THE_LINK = (("driver", 1 / 0.95),)
_AT_MOST_JAX = (("jaxgpu", 1.0),)
_ALLOCATORS = ("driver", "cupy", "rmm", "devrtbfc")


def _swept(
    what: str,
    peers: tuple[str, ...],
    sizes: tuple[int, ...] = _SIZES,
    bars: tuple[tuple[str, float], ...] = (),
    barred_from: int = 0,
) -> list[Spec]:
    return [
        Spec(_named(what, n), peers, platform="gpu", sweep=Sweep(what, "B", n),
             bars=bars if n >= barred_from else ())
        for n in sizes
    ]  # fmt: skip


SPECS = [
    Spec(SMALL, ("jaxgpu", "torch", "cupy"), platform="gpu"),
    *_swept(PUT_PINNED, ("driver", "torch"), bars=_OF_THE_LINK, barred_from=16 * MIB),
    *_swept(FETCH_PINNED, ("driver", "torch"), bars=_OF_THE_LINK, barred_from=16 * MIB),
    *_swept(PUT, ("jaxgpu", "torch", "cupy"), bars=_PAGEABLE, barred_from=256 * MIB),
    *_swept(FETCH, ("jaxgpu", "torch", "cupy"), bars=_PAGEABLE, barred_from=256 * MIB),
    *_swept(ALLOCATE, _ALLOCATORS, _SMALL, bars=(("cupy", 1.0), ("rmm", 1.0))),
    *_swept(ALLOCATE, _ALLOCATORS, _LARGE, bars=(("driver", 1.1),)),
    Spec(LAUNCH, ("driver", "cudacore", "cupy"), platform="gpu", bars=(("cudacore", 1.0),)),
    Spec(CALL, ("jaxgpu",), platform="gpu", bars=_AT_MOST_JAX),
    Spec(CALL_WAITED, ("jaxgpu",), platform="gpu", bars=_AT_MOST_JAX),
    # Past its bar the arena is to be the default.
    Spec(STEP, ("jaxgpu", "devrtbfc"), platform="gpu", bars=(("devrtbfc", 1.05),)),
]


@dataclass(frozen=True, kw_only=True)
class _Surplus(Timed):
    """What one of several things costs that one call does and another does not.

    devrt has no call that only takes memory: a launch makes arrays, and a launch of arrays
    without elements does all but take their memory.
    """

    without: Timed

    def seconds(self, loops: int) -> float:
        return (super().seconds(loops) - self.without.seconds(loops)) / _AT_ONCE


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

    def kernel(name: str) -> Any:
        if image := stand_in_image():
            return client.compile(image, format="cubin")[name]
        return client.compile(_KERNELS, format="cuda")[name]

    def allocated(nbytes: int) -> Timed:
        launch = kernel("touch_all")
        some, none = ([devrt.ShapeDtypeStruct((n,), np.uint8)] * _AT_ONCE for n in (nbytes, 0))
        return _Surplus(
            lambda outs: launch(*outs, grid=1, block=1),
            lambda loops: repeat(some, loops),
            max_loops=2000,
            note=f"devrt: {_AT_ONCE} arrays that a launch makes, less as many without elements",
            without=repeated(lambda outs: launch(*outs, grid=1, block=1), none),
        )

    def launched() -> Timed:
        launch, x = kernel("touch"), devrt.device_put(source(32), device)
        return repeated(lambda x: launch(x, grid=1, block=1), x.block_until_ready())

    return {
        **_programs(devrt),
        **_by_size(PUT_PINNED, partial(moved, "pinned_host", "device")),
        **_by_size(FETCH_PINNED, partial(moved, "device", "pinned_host")),
        **_by_size(ALLOCATE, allocated, _SMALL + _LARGE),
        LAUNCH: launched,
    }


def driver_cases() -> dict[str, Factory]:
    """Return what the driver takes for the same, without a library around it."""
    driver = Driver()
    return {
        **_by_size(PUT_PINNED, lambda n: _called(driver.put(n))),
        **_by_size(FETCH_PINNED, lambda n: _called(driver.fetch(n))),
        **_by_size(ALLOCATE, lambda n: _called(driver.allocate(n)), _SMALL + _LARGE),
        LAUNCH: lambda: _called(driver.launch()),
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

    def launched() -> Timed:
        kernel, out = cupy.RawKernel(KERNEL, "touch"), cupy.empty(32, np.uint8)
        return _called(lambda: kernel((1,), (1,), (out,)))

    return {
        SMALL: partial(put, 32),
        **_by_size(PUT, put),
        **_by_size(FETCH, fetch),
        **_by_size(ALLOCATE, partial(repeated, cupy.cuda.alloc), _SMALL + _LARGE),
        LAUNCH: launched,
    }


def rmm_cases() -> dict[str, Factory]:
    """Return the side of RMM's arena."""
    rmm = import_module("rmm")
    # Without a size it takes half of what the other sides have left.
    arena = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 30)
    rmm.mr.set_current_device_resource(arena)
    return _by_size(ALLOCATE, lambda n: _called(lambda: rmm.DeviceBuffer(size=n)), _SMALL + _LARGE)


def cudacore_cases() -> dict[str, Factory]:
    """Return cuda.core's side."""
    core = import_module("cuda.core")
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    options = core.ProgramOptions(arch=f"sm_{device.arch}")
    image = core.Program(KERNEL, code_type="c++", options=options).compile("cubin")
    kernel, config = image.get_kernel("touch"), core.LaunchConfig(grid=1, block=1)

    out = device.allocate(32, stream=stream)
    return {LAUNCH: lambda: _called(lambda: core.launch(stream, config, kernel, out))}

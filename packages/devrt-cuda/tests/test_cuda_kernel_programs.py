"""Kernels of one's own in programs on both vendors' simulated devices, without a fake plugin.

Programs run on the processor there, by XLA's compiler for it, and kernels with them.
"""

import numpy as np
import pytest

import devrt
from gpu_library import Gated, simulated_platform
from gpu_vendors import VENDORS
from support import python, xla_cpu_library

pytestmark = pytest.mark.engine

COUNT = 1 << 12
OUT = devrt.ShapeDtypeStruct((COUNT,), np.int32)
SIZES = {"grid": COUNT >> 10, "block": 1 << 10}
UNIT = 0x01010101  # what the other library's stream writes


@pytest.fixture(scope="module")
def devices(vendor):
    xla_cpu_library()
    environ = {"DEVRT_ENABLE_COMPILATION_CACHE": "false"}
    with simulated_platform(vendor.platform, **environ) as found:
        yield found


def put(number, device):
    return devrt.device_put(np.full(COUNT, number, np.int32), device)


def test_a_traced_function_calls_a_kernel_on_each_device(driver, devices, module):
    @devrt.jit
    def traced(x, y):
        (z,) = module["add"](x * 2, y, OUT, np.int32(3), **SIZES)
        (shape,) = module["shape"](devrt.ShapeDtypeStruct((7,), np.uint32), grid=(1, 1, 1), block=5)
        return z + 1, shape

    for number, device in enumerate(devices):
        z, shape = traced(put(number, device), put(5, device))
        assert z.device is device
        assert (np.asarray(z) == 2 * number + 9).all()
        assert np.asarray(shape).tolist() == [1, 1, 1, 5, 1, 1, 0]


def test_a_donated_argument_of_a_kernel_gives_its_memory(driver, devices, module):
    x, y = put(2, devices[1]).block_until_ready(), put(3, devices[1])
    address = x.unsafe_buffer_pointer()

    def added(x, y):
        return module["add"](x, y, OUT, np.int32(1), **SIZES)[0]

    z = devrt.jit(added, donate_argnums=0)(x, y).block_until_ready()
    assert x.is_deleted()
    assert z.unsafe_buffer_pointer() == address
    assert (np.asarray(z) == 6).all()


def test_a_program_that_calls_a_kernel_waits_for_its_arguments(driver, devices, module):
    units = Gated(driver, COUNT)
    x = devrt.device_put(units, may_alias=True)
    added = devrt.jit(lambda x: module["add"](x, x, OUT, np.int32(1), **SIZES)[0])
    y = added(added(x))
    assert not y.is_ready()
    units.gate.set()
    assert (np.asarray(y) == 4 * UNIT + 3).all()


def test_devices_that_compute_together_each_call_their_own_kernel(driver, devices, module):
    mesh = devrt.make_mesh((2,), ("x",), devices=devices)
    sharding = devrt.NamedSharding(mesh, devrt.P("x"))

    def added(x):
        (z,) = module["add"](x, x, OUT, np.int32(1), **SIZES)
        return devrt.lax.psum(z, "x")

    total = devrt.shard_map(added, mesh=mesh, in_specs=devrt.P("x"), out_specs=devrt.P())
    x = devrt.device_put(np.repeat(np.array([1, 10], np.int32), COUNT), sharding)
    assert (np.asarray(devrt.jit(total)(x)) == 24).all()


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_a_launch_is_the_program_s(vendor, driver, devices, image, count):
    # Of another module than the others: programs find a kernel by what it is compiled from.
    other = image.read_bytes() + b"other"
    module = devices[0].client.compile(other, devices[1:], format=vendor.image)
    added = lambda x: module["add"](x, x, OUT, np.int32(1), **SIZES)[0]  # noqa: E731
    mesh = devrt.make_mesh((count,), ("x",), devices=devices[:count])
    by_shard = devrt.shard_map(added, mesh=mesh, in_specs=devrt.P("x"), out_specs=devrt.P("x"))
    sharding = devrt.NamedSharding(mesh, devrt.P("x"))
    x = devrt.device_put(np.ones(count * COUNT, np.int32), sharding)
    with pytest.raises(devrt.errors.DevrtError, match="not loaded on the device"):
        devrt.jit(by_shard)(x).block_until_ready()


BEYOND = """
import sys
import devrt
import numpy as np

device = devrt.devices()[0]
with open(sys.argv[1], "rb") as file:
    add = device.client.compile(file.read(), format=sys.argv[2])["add"]
out = devrt.ShapeDtypeStruct((1024,), np.int32)
x = devrt.device_put(np.ones(1024, np.int32), device)
beyond = devrt.jit(lambda x: add(x, x, out, np.int32(1), grid=4, block=1024)[0])
try:
    beyond(x).block_until_ready()
except devrt.errors.DevrtError as error:
    print(error)
"""


def environ_of(*platforms):
    mocks = {f"DEVRT_{platform.upper()}_MOCK": "2" for platform in platforms}
    return mocks | {"DEVRT_PLATFORMS": ",".join(platforms)}


def test_a_kernel_that_reads_beyond_the_call_s_arrays_loses_its_device(vendor, image):
    options = ("-W", "ignore")
    environ = environ_of(vendor.platform)
    ran = python(BEYOND, image, vendor.image, options=options, **environ)
    assert "illegal_address" in ran.stdout


BOTH = """
import pathlib, sys
import devrt
import numpy as np

array = "tensor<1024xi32>"
program = (
    "func.func @main(%a: {0}) -> {0} {{"
    "%b = stablehlo.custom_call @{1}(%a, %a) {{api_version = 4 : i32, backend_config = {2}}}"
    " : ({0}, {0}) -> {0} return %b : {0} }}"
)
out = devrt.ShapeDtypeStruct((1024,), np.int32)
image, folder, *formats = sys.argv[1:]
for platform, form in zip(("cuda", "rocm"), formats):
    device = devrt.devices(platform)[1]
    client = device.client
    add = client.compile(pathlib.Path(image).read_bytes(), format=form)["add"]
    x = devrt.device_put(np.full(1024, 2, np.int32), device)
    call = add.custom_call(x, x, out, np.int32(3), grid=1, block=1024)
    kept = pathlib.Path(folder, platform)
    if kept.exists():
        loaded = client.deserialize_executable(kept.read_bytes())
    else:
        text = program.format(array, call.target, call.backend_config)
        loaded = client.compile_and_load(text, [device])
        kept.write_bytes(loaded.serialize())
    (y,) = loaded.execute([x._buffers[0]])
    print(platform, set(np.asarray(y).tolist()))
"""


def test_one_process_calls_kernels_of_both_vendors_and_loads_such_programs(image, tmp_path):
    for each in VENDORS:
        pytest.importorskip(f"devrt_{each.platform}")
    arguments = [image, tmp_path, *(each.image for each in VENDORS)]
    environ = environ_of("cuda", "rocm")
    for _ in range(2):  # compiled, then loaded
        ran = python(BOTH, *arguments, options=("-W", "ignore"), **environ)
        assert ran.stdout == "cuda {7}\nrocm {7}\n"

"""Kernels of one's own on both vendors' simulated devices, whose images are the host's objects.

Gates hold streams back until the host opens them, so a launch that waited for work behind one would
not return; the simulator reports accesses that nothing orders, whatever the timing.
"""

from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt.compiling.cache import ExecutableCache
from devrt.errors import (
    BackendUnavailableError,
    DeletedError,
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
)
from devrt_cuda.kernels import NVRTC
from gpu_library import Gated, simulated_platform
from support import python

COUNT = 1 << 19  # int32: more than the arena in front of the driver's pool takes
OUT = devrt.ShapeDtypeStruct((COUNT,), np.int32)
SIZES = {"grid": COUNT >> 10, "block": 1 << 10}
ONE = np.int32(1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def devices(vendor, kept):
    with simulated_platform(vendor.platform, DEVRT_COMPILATION_CACHE_DIR=kept) as found:
        yield found


WRONG_SIZES = [
    {"grid": True},
    {"grid": b"\x01"},
    {"block": (1, np.True_)},
    {"shared_bytes": True},
]


@pytest.mark.parametrize("given", WRONG_SIZES, ids=str)
def test_truth_values_and_bytes_are_no_sizes(devices, module, given):
    x = put(1, devices[0])
    with pytest.raises(InvalidTypeError, match=next(iter(given))):
        module["add"](x, x, OUT, ONE, **(SIZES | given))


def put(number, device):
    return devrt.device_put(np.full(COUNT, number, np.int32), device)


def test_a_launch_begins_behind_the_puts_of_its_arrays(driver, devices, module):
    for number, device in enumerate(devices):
        (z,) = module["add"](put(number, device), put(2, device), OUT, np.int32(3), **SIZES)
        assert z.device is device
        assert z.shape == OUT.shape
        assert z.dtype == OUT.dtype
        assert (np.asarray(z) == number + 5).all()


def test_launches_and_copies_follow_one_another(driver, devices, module):
    add, x = module["add"], put(1, devices[0])
    (y,) = add(x, x, OUT, ONE, **SIZES)
    there = devrt.device_put(y, devices[1])
    (z,) = add(there, there, OUT, ONE, **SIZES)
    assert z.device is devices[1]
    assert (np.asarray(z) == 7).all()


def test_the_host_waits_for_nothing(driver, devices, module):
    add, y, nines = module["add"], put(2, devices[0]), np.full(COUNT, 9, np.int32)
    foreign = Gated(driver, COUNT)
    x = devrt.device_put(foreign, may_alias=True)
    (z,) = add(x, y, OUT, ONE, **SIZES)
    (last,) = add(z, y, OUT, ONE, **SIZES)
    for array in (y, z):  # the memory stays until the launches have ended
        array.delete()
    again = [devrt.device_put(nines, devices[0]) for _ in range(2)]
    del add, module
    assert not last.is_ready()
    foreign.gate.set()
    assert (np.asarray(last) == 0x01010101 + 6).all()
    assert all((np.asarray(each) == 9).all() for each in again)


def test_a_kernel_gets_the_sizes_that_were_given(driver, devices, module):
    out = devrt.ShapeDtypeStruct((7,), np.uint32)
    how = {"grid": (1, 1, 1), "block": (4, 2), "shared_bytes": 64}
    (first,) = module["shape"](out, **how)
    (other,) = module["shape"](out, **how, device=devices[1])
    assert first.device is devices[0]
    assert other.device is devices[1]
    assert list(np.asarray(first)) == list(np.asarray(other)) == [1, 1, 1, 4, 2, 1, 64]


def test_a_launch_takes_two_calls_of_the_driver(vendor, driver, devices, module):
    driver.use_first_device()
    add, x = module["add"], put(1, devices[0]).block_until_ready()
    before = [add(x, x, OUT, ONE, **SIZES)[0].block_until_ready() for _ in range(2)]
    names = "cuLaunchKernel", "cuEventRecord"
    small = devrt.ShapeDtypeStruct((7,), np.uint32)  # from the arena in front of the pool
    shape = module["shape"]
    for _ in range(3):  # events are used again
        shape(small, grid=1, block=1)[0].block_until_ready()
    counts, total = [driver.calls(name) for name in names], driver.calls_here()
    (made,) = shape(small, grid=1, block=1)
    total = driver.calls_here() - total
    counts = [driver.calls(name) - count for name, count in zip(names, counts, strict=True)]
    assert counts == [1, 1]
    assert total <= 2
    assert made.block_until_ready().is_ready()
    assert len(before) == 2


def test_a_module_is_unloaded_with_its_last_kernel(vendor, driver, devices, image):
    modules = driver.modules
    before = modules()
    module = devices[0].client.compile(image.read_bytes(), devices[:1], format=vendor.image)
    assert modules() == before + 1
    kernel, x = module["add"], put(1, devices[0])
    del module
    (z,) = kernel(x, x, OUT, ONE, **SIZES)
    assert modules() == before + 1
    z.block_until_ready()
    del kernel
    assert modules() == before


BAD_SIZES = {
    "no block": ({"grid": 0}, "grid must have sizes from 1"),
    "four": ({"grid": (1, 1, 1, 1)}, "one to three sizes"),
    "words": ({"grid": "many"}, "grid must hold integers"),
    "fraction": ({"grid": 1.5}, "grid must hold integers .*not a value of type float"),
    "wide": ({"grid": 1 << 64}, "grid must hold integers of at most 64 bits[.]"),
    "set": ({"grid": {1, 2}}, "grid must be an int or a sequence of ints, not {{"),
    "dict": ({"block": {1: 2}}, "block must be an int or a sequence of ints, not {{1: 2}}"),
    "grid.y": ({"grid": (1, 70000)}, "grid.y is 70000.*at most 65535"),
    "block.x": ({"block": 2048}, "block.x is 2048.*at most 1024"),
    "threads": ({"block": (512, 4)}, "threads of a block is 2048.*at most 1024"),
    "shared": ({"shared_bytes": 1 << 20}, "shared_bytes is 1048576.*at most {}"),
    "negative": ({"shared_bytes": -1}, "shared_bytes is -1"),
}


@pytest.mark.parametrize("case", BAD_SIZES)
def test_a_launch_out_of_range_is_refused_before_the_driver(vendor, driver, devices, module, case):
    changes, words = BAD_SIZES[case]
    words = words.format(vendor.shared_bytes)
    kernel, x = module["add"], put(1, devices[0])
    launches = driver.calls("cuLaunchKernel")
    with pytest.raises(InvalidArgumentError, match=words) as refused:
        kernel(x, x, OUT, ONE, **SIZES | changes)
    assert refused.value.data["operation"] == "launch"
    assert driver.calls("cuLaunchKernel") == launches


@pytest.mark.parametrize("case", ["words", "fraction", "set", "dict"])
def test_sizes_of_another_type_are_a_type_error(devices, module, case):
    x = put(1, devices[0])
    with pytest.raises(InvalidTypeError):
        module["add"](x, x, OUT, ONE, **SIZES | BAD_SIZES[case][0])


def of_elsewhere(devices):
    return {
        "number": ([3], InvalidTypeError, r"argument 3 is of type int.*numpy\.int32"),
        "wide": ([np.int64(3)], InvalidArgumentError, "argument 3 has 8 bytes, .* parameter 4"),
        "bytes": ([np.bytes_(b"1234")], InvalidTypeError, "argument 3 is of type bytes_"),
        "date": ([np.datetime64(1, "s")], InvalidTypeError, "argument 3 is of type datetime64"),
        "void": ([np.void(b"1234")], InvalidTypeError, "argument 3 is of type void"),
        "host array": ([np.ones(3)], InvalidTypeError, "argument 3 is of type ndarray"),
        "few": ([], InvalidArgumentError, "takes 4 parameters, and 3 are given"),
        "many": ([ONE, ONE], InvalidArgumentError, "takes 4 parameters, and 5 are given"),
    }


@pytest.mark.parametrize(
    "case", ["number", "wide", "bytes", "date", "void", "host array", "few", "many"]
)
def test_numbers_have_the_type_of_the_parameter(vendor, driver, devices, module, case):
    if not vendor.has_sizes and case in {"wide", "few", "many"}:
        pytest.skip("HIP does not tell what parameters a kernel has")
    last, kind, words = of_elsewhere(devices)[case]
    x = put(1, devices[0])
    with pytest.raises(kind, match=words) as refused:
        module["add"](x, x, OUT, *last, **SIZES)
    assert refused.value.data["operation"] == "launch"


def test_arrays_of_elsewhere_are_refused(vendor, driver, devices, module, image):
    add, x = module["add"], put(1, devices[0])
    first, other = (f"{vendor.platform}:{number}" for number in range(2))
    with pytest.raises(
        InvalidArgumentError, match=f"argument 1 lies in device of {other}"
    ) as refused:
        add(x, put(1, devices[1]), OUT, ONE, **SIZES)
    assert refused.value.data["device"] == first
    with pytest.raises(InvalidArgumentError, match=f"argument 1 lies in pinned_host of {first}"):
        add(x, devrt.device_put(x, devices[0].memory("pinned_host")), OUT, ONE, **SIZES)
    for arrays in ((x, put(1, devrt.devices("cpu")[0])), (put(1, devrt.devices("cpu")[0]), x)):
        with pytest.raises(
            InvalidArgumentError, match=rf"loaded on {first}, {other}, not on CpuDevice"
        ):
            add(*arrays, OUT, ONE, **SIZES)
    alone = devices[0].client.compile(image.read_bytes(), devices[:1], format=vendor.image)
    with pytest.raises(InvalidArgumentError, match=rf"loaded on {first}, not on \w+Device"):
        alone["shape"](devrt.ShapeDtypeStruct((7,), np.uint32), grid=1, block=1, device=devices[1])


def test_an_array_that_was_deleted_is_refused(driver, devices, module):
    x, y = put(1, devices[0]), put(1, devices[0])
    y.delete()
    with pytest.raises(DeletedError, match="launch failed"):
        module["add"](x, y, OUT, ONE, **SIZES)


def test_a_name_that_the_module_lacks_is_refused(vendor, driver, module):
    with pytest.raises(DevrtError, match=r"no kernel 'subtract'.*extern \"C\"") as refused:
        module["subtract"]
    assert refused.value.data["device"] == f"{vendor.platform}:0"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda image: image[: len(image) // 2], "the image is damaged"),
        (lambda image: image[:20], "the image is damaged"),
        (lambda image: b"", "the image is empty"),
        (lambda image: b"nothing", "{0.invalid}"),
        # For NVIDIA's devices, which these are not.
        (
            lambda image: image[:18] + (190).to_bytes(2, "little") + image[20:],
            r"(?i:no_?binary_?for_?gpu).*has nothing for this device: .*\(simulated\)"
            "{0.architecture}",
        ),
    ],
)
def test_an_image_that_the_device_cannot_load_is_refused(
    vendor, driver, devices, image, change, words
):
    with pytest.raises(InvalidArgumentError, match=words.format(vendor)) as refused:
        devices[0].client.compile(change(image.read_bytes()), format=vendor.image)
    assert refused.value.data["operation"] == "compile"


def test_a_format_of_others_and_devices_of_others_are_refused(vendor, driver, devices, image):
    client = devices[0].client
    with pytest.raises(
        InvalidArgumentError, match=f"no kernels as 'metal'; it takes {vendor.formats}"
    ):
        client.compile("source", format="metal")
    with pytest.raises(InvalidArgumentError, match="loaded on devices of this client"):
        client.compile(image.read_bytes(), devrt.devices("cpu"), format=vendor.image)
    for more in ({"options": ["-G"]}, {"name_expressions": ["add"]}):
        with pytest.raises(InvalidArgumentError, match="are for source code"):
            client.compile(image.read_bytes(), format=vendor.image, **more)


def test_the_attributes_of_a_kernel_and_the_block_that_suits_it(vendor, driver, devices, module):
    found = module["add"].attributes
    assert (found.max_threads_per_block, found.num_regs, found.shared_size_bytes) == (1024, 32, 0)
    block, grid = module["add"].suggest_block(4096)
    assert (block, grid * block % 1024) == (1024, 0)
    assert grid >= devices[0].attributes["core_count"]
    with pytest.raises(InvalidArgumentError, match="shared_bytes is -1"):
        module["add"].suggest_block(-1)


def test_without_a_format_a_program_is_compiled(driver, devices):
    # The compiler's error, or the one that there is none: either is that of programs.
    with pytest.raises(DevrtError, match=r"main|need XLA") as refused:
        devices[0].client.compile("module {}")
    assert refused.value.data["operation"] == "compile_and_load"


def test_source_goes_through_the_compiler_and_its_cache_to_the_driver(
    vendor, driver, devices, kept
):
    if vendor.platform != "cuda":
        pytest.skip("hipRTC may be in the driver's library, which is simulated in this process")
    try:
        NVRTC.version()
    except BackendUnavailableError:
        pytest.skip("NVRTC is not installed (nvidia-cuda-nvrtc)")
    client = devices[0].client
    source = 'extern "C" __global__ void f(float* x) { x[threadIdx.x] = 1; }'
    with pytest.raises(InvalidArgumentError, match=r"kernels\.cuda\(1\): error.*missing"):
        client.compile(source.replace("= 1", "= missing"), format="cuda")
    for _ in range(2):
        # The simulated devices take no image for real ones, which this one is.
        with pytest.raises(InvalidArgumentError, match="has nothing for this device"):
            client.compile(source, format="cuda", options=["--use_fast_math"])
    (entry,) = ExecutableCache(kept).entries()
    assert b"\x7fELF" in Path(kept, entry.path).read_bytes()


FAULT = """
import sys
import numpy as np
import devrt

first, other = devrt.devices()
module = first.client.compile(open(sys.argv[1], "rb").read(), format=sys.argv[2])
x = devrt.device_put(np.ones(1 << 19, np.int32), first)
out = devrt.ShapeDtypeStruct(x.shape, x.dtype)
(z,) = module["add"](x, x, out, np.int32(1), grid=520, block=1024)  # beyond its arrays
for _ in range(2):
    try:
        z.block_until_ready()
    except devrt.errors.DevrtError as error:
        print(error.data["device"], type(error).__name__)
    z = module["shape"](devrt.ShapeDtypeStruct((7,), np.uint32), grid=1, block=1, device=other)[0]
print(np.asarray(z)[3], flush=True)
import os
os._exit(0)  # a device that is lost ends in no order
"""


def alone(code, vendor, image, count):
    """Run a program that has only a vendor's devices."""
    environ = {f"DEVRT_{vendor.platform.upper()}_MOCK": count, "DEVRT_PLATFORMS": vendor.platform}
    return python(code, image, vendor.image, options=("-W", "ignore"), **environ)


def test_a_kernel_that_fails_loses_its_device_and_no_other(vendor, image):
    ran = alone(FAULT, vendor, image, "2")
    lost, number = ran.stdout.split("\n")[:2]
    assert lost.startswith(f"{vendor.platform}:0 ")
    assert number == "1"


def test_a_forked_child_and_a_closed_client_launch_nothing(vendor, image):
    code = """
    import os, sys
    import numpy as np, devrt

    device = devrt.devices()[0]
    module = device.client.compile(open(sys.argv[1], "rb").read(), format=sys.argv[2])
    kernel, out = module["shape"], devrt.ShapeDtypeStruct((7,), np.uint32)
    uses = (lambda: module["add"], lambda: kernel(out, grid=1, block=1))

    def refused():
        for use in uses:
            try:
                use()
            except devrt.errors.DevrtError as error:
                print(type(error).__name__, flush=True)

    child = os.fork()
    if child == 0:
        refused()
        os._exit(0)
    os.waitpid(child, 0)
    device.client.close()
    refused()
    del module, kernel, uses
    """
    ran = alone(code, vendor, image, "1")
    assert ran.stdout.split() == ["ForkedError"] * 2 + ["ClosedError"] * 2
    assert not ran.stderr

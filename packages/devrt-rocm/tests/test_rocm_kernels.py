"""hipRTC compiles HIP C++ for real, for devices that are not there."""

import pytest

from devrt import hardware
from devrt_rocm.kernels import FORMATS, HIPRTC
from support import python

SOURCE = """extern "C" __global__ void add(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 1;
}"""

COMPILE = """
import sys
from pathlib import Path
from devrt.compiling.cache import ExecutableCache
from devrt.errors import InvalidArgumentError
from devrt_rocm.kernels import HIPRTC

folder, source = sys.argv[1:]
cache = ExecutableCache(Path(folder))
images = [HIPRTC.compile(source, "gfx90a", cache=cache) for _ in range(2)]
print(images[0] == images[1], b"gfx90a" in images[0], len(cache.entries()))
try:
    HIPRTC.compile(source.replace("+ 1", "+ missing"), "gfx90a")
except InvalidArgumentError as error:
    print(error)
"""

UNKNOWN = """
from devrt.errors import InvalidArgumentError
from devrt_rocm.kernels import HIPRTC
try:
    HIPRTC.compile("int n;", "gfx9999")
except InvalidArgumentError as error:
    print("refused", error)
"""


@pytest.fixture(scope="module")
def compiler():
    library = HIPRTC.library
    if hardware.find_shared_library(*library.names, folders=library.system_folders) is None:
        pytest.skip("hipRTC is not installed (ROCm's hip-runtime-amd, or Debian's libamdhip64-5)")


def test_a_source_becomes_a_code_object_and_one_that_is_wrong_is_refused(compiler, tmp_path):
    # In a child: Debian's is the driver's library too, which the simulator stands in for here.
    made, *refusal = python(COMPILE, tmp_path, SOURCE).stdout.splitlines()
    assert made == "True True 1"
    assert any(":3:17: error" in line and "missing" in line for line in refusal)


def test_an_architecture_that_the_compiler_does_not_know_is_an_error(compiler):
    assert python(UNKNOWN).stdout.startswith("refused compile failed")


def test_the_formats_are_those_of_the_platform():
    assert (FORMATS.compiler.format, *FORMATS.images) == ("hip", "hsaco")

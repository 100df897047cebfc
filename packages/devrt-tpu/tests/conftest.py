"""What the tests of the PJRT loader share: a plugin made for them, and real ones."""

import textwrap
from pathlib import Path

import pytest

import support

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "devrt-core" / "src" / "devrt" / "native" / "include"

ADD = """
module @add {
  func.func public @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %a, %b : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""


@pytest.fixture(scope="session")
def include():
    """Return the folder of the SDK's headers."""
    return INCLUDE


@pytest.fixture(scope="session")
def compiler():
    """Return the C compiler's command."""
    return support.c_compiler()


@pytest.fixture(scope="session")
def fake(tmp_path_factory, include):
    """Return the path of the plugin that fails on request, built once."""
    library = tmp_path_factory.mktemp("fake") / "fake_pjrt.so"
    source = HERE / "fake" / "plugin.c"
    return str(support.shared_library(library, source, "-pthread", f"-I{include}"))


@pytest.fixture
def child(fake):
    """Return a function that runs Python in a child, with the fake plugin's switches set."""

    def run(code, timeout=60, status=0, **switches):
        code = f"FAKE = {fake!r}\n" + PRELUDE + textwrap.dedent(code)
        return support.python(code, status=status, timeout=timeout, **switches)

    return run


PRELUDE = """
import numpy as np
from devrt import errors
import devrt_pjrt as pjrt
from devrt_pjrt._native import ffi
def library(name="fake"):
    return pjrt.library_for(name, FAKE)
def client(**options):
    return pjrt.make_client(library(), "fake", options)
def counts():
    import ctypes
    found = (ctypes.c_int * 5)()
    ctypes.CDLL(FAKE).fake_counts(found)
    return list(found)
def raised(function, *args, **named):
    try:
        function(*args, **named)
    except errors.DevrtError as error:
        return error
    raise SystemExit("nothing was raised")
"""


@pytest.fixture(scope="session")
def xla_cpu_library(cpu_library):
    """Return the path of XLA's CPU plugin."""
    return support.xla_cpu_library()


@pytest.fixture(scope="session")
def xla_cpu():
    """Return a client of XLA's CPU plugin with eight devices."""
    with support.make_client("loader", 8) as client:
        yield client


@pytest.fixture(scope="session")
def add_text():
    """Return the text of a sum of two vectors of eight floats."""
    return ADD


@pytest.fixture(scope="session")
def add(xla_cpu):
    """Return that program, compiled."""
    return xla_cpu.compile_and_load(ADD)


@pytest.fixture
def libtpu():
    """Return the path of the library for TPUs."""
    found = support.module_file("libtpu", "libtpu.so")
    return found or pytest.skip("libtpu is not installed")


@pytest.fixture
def cuda():
    """Return the path of XLA's plugin for GPUs."""
    found = support.module_file("jax_plugins.xla_cuda13", "xla_cuda_plugin.so")
    return found or pytest.skip("jax-cuda13-pjrt is not installed")


BESIDE_A_CLIENT = """
import gc, os, random, sys, threading
import numpy as np
from devrt.errors import DevrtError
from devrt.layout import Layout
import devrt_pjrt as pjrt
ADD = os.environ["PROGRAM"]
client = pjrt.make_client(
    pjrt.library_for("tested", os.environ["LIBRARY"]), "tested", {"cpu_device_count": 4})
X = np.arange(8, dtype=np.float32)
def resident():
    with open("/proc/self/statm") as file: return int(file.read().split()[1]) * 4096
"""


@pytest.fixture
def in_child(xla_cpu_library, add_text):
    """Return a function that runs code beside a client in a child, and returns its last line."""

    def run(code, timeout=300):
        options, code = ("-X", "faulthandler"), BESIDE_A_CLIENT + textwrap.dedent(code)
        environ = {"LIBRARY": xla_cpu_library, "PROGRAM": add_text}
        done = support.python(code, options=options, timeout=timeout, **environ)
        return done.stdout.strip().splitlines()[-1]

    return run

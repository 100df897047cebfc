"""What the tests of the PJRT loader share: a plugin made for them, and real ones."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not found:
        pytest.skip("no C compiler (cc)")
    return found


@pytest.fixture(scope="session")
def fake(tmp_path_factory, compiler, include):
    """Return the path of the plugin that fails on request, built once."""
    library = tmp_path_factory.mktemp("fake") / "fake_pjrt.so"
    source = HERE / "fake" / "plugin.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-pthread", f"-I{include}", str(source), "-o", str(library)],
        check=True,
    )
    return str(library)


@pytest.fixture
def child(fake):
    """Return a function that runs Python in a child, with the fake plugin's switches set."""

    def run(code, timeout=60, **switches):
        prelude = f"FAKE = {fake!r}\n" + textwrap.dedent(PRELUDE)
        env = {**os.environ, **{key: str(value) for key, value in switches.items()}}
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", prelude + textwrap.dedent(code)],
            capture_output=True,
            text=True,
            env=env,
            timeout=timeout,
            check=False,
        )

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


def module_file(module, name):
    """Return a file of an installed package, or None."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        if Path(folder, name).is_file():
            return str(Path(folder, name))
    return None


@pytest.fixture(scope="session")
def xla_cpu_library():
    """Return the path of XLA's CPU plugin."""
    found = module_file("xla_plugins.xla_cpu_pjrt", "xla_cpu_pjrt.so")
    if found is None:
        pytest.skip("xla-cpu-pjrt is not installed")
    return found


@pytest.fixture(scope="session")
def xla_cpu(xla_cpu_library):
    """Return a client of XLA's CPU plugin with eight devices."""
    import devrt_pjrt

    library = devrt_pjrt.library_for("xla_cpu_tests", xla_cpu_library)
    with devrt_pjrt.make_client(library, "xla_cpu_tests", {"cpu_device_count": 8}) as client:
        yield client


@pytest.fixture(scope="session")
def add_text():
    """Return the text of a sum of two vectors of eight floats."""
    return ADD


@pytest.fixture(scope="session")
def add(xla_cpu):
    """Return that program, compiled."""
    return xla_cpu.compile_and_load(ADD)


@pytest.fixture(scope="session")
def find_file():
    """Return what finds a file of an installed package."""
    return module_file


@pytest.fixture
def libtpu(find_file):
    """Return the path of the library for TPUs."""
    found = find_file("libtpu", "libtpu.so")
    if found is None:
        pytest.skip("libtpu is not installed")
    return found


@pytest.fixture
def cuda(find_file):
    """Return the path of XLA's plugin for GPUs."""
    found = find_file("jax_plugins.xla_cuda13", "xla_cuda_plugin.so")
    if found is None:
        pytest.skip("jax-cuda13-pjrt is not installed")
    return found


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
"""


@pytest.fixture
def in_child(xla_cpu_library, add_text):
    """Return a function that runs code beside a client in a child, and returns its last line."""

    def run(code, timeout=300):
        env = {**os.environ, "LIBRARY": xla_cpu_library, "PROGRAM": add_text}
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", BESIDE_A_CLIENT + textwrap.dedent(code)],
            capture_output=True,
            text=True,
            env=env,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.strip().splitlines()[-1]

    return run

"""What all test folders share: eight virtual host devices, and a clean environment."""

import gc
import os
import signal
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from support import shared_library, xla_cpu_library

# The same examples in every run: a failure is the change's fault, not the dice's. The profile
# "fuzz" draws anew each time (pytest --hypothesis-profile=fuzz).
settings.register_profile(
    "devrt",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fuzz", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("devrt")

# Which compiler the tests of programs run on, of those for the CPU: a wheel's name or a path.
_engine = os.environ.get("TEST_CPU_ENGINE", "")

# Before anything asks for a device: the tests' meshes need eight of them, and a platform that the
# developer happens to have chosen must not change what is tested.
for _name in [name for name in os.environ if name.startswith(("DEVRT_", "JAX_"))]:
    del os.environ[_name]
os.environ["DEVRT_NUM_CPU_DEVICES"] = "8"
if _engine:
    os.environ["DEVRT_CPU_ENGINE"] = _engine
# Containers often tell Python to keep no compiled modules: then each worker would compile all tests
# again, and each of some two thousand children all that it imports of devrt.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# OpenBLAS's threads spin as they start, in each child that imports NumPy: a third of what it takes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What native modules keep at the end of a process is reported on its standard error.
os.environ["TEST_LEAK_WARNINGS"] = "1"
# Shells start what runs in their background with SIGINT ignored: the tests' children would be too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Neither the developer's configuration nor his verdicts on plugins belong in a test.
_folder = tempfile.TemporaryDirectory(prefix="devrt-tests-")
os.environ["XDG_CACHE_HOME"] = os.environ["XDG_CONFIG_HOME"] = _folder.name


@pytest.fixture(scope="session", autouse=True)
def _no_unused_hardware(tmp_path_factory):
    """Let no test fail because the machine has an accelerator that no backend uses."""
    from devrt.runtime import notices

    notices._ROOT = str(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="session")
def cpu():
    """Return the eight devices of the default runtime's CPU client."""
    import devrt

    pytest.importorskip("devrt_cpu")
    devices = devrt.devices("cpu")
    assert len(devices) == 8
    return devices


def pytest_runtest_setup(item):
    """Skip a test that compiles where no compiler for the CPU is installed."""
    if item.get_closest_marker("engine"):
        _library()


@pytest.fixture(scope="session")
def cpu_library():
    """Return the compiler for the CPU that the tests run on, as devrt-cpu knows it."""
    return _library()


@pytest.fixture(scope="session")
def cpu_quirks(cpu_library):
    """Return that compiler's quirks that refuse programs, by their subjects."""
    return {quirk.subject: quirk for quirk in cpu_library.quirks if quirk.subject}


def _library():
    path = xla_cpu_library()
    from devrt_cpu._library import choose

    return choose(path)


_CALL = """module @calls {{
  func.func @main(%a: tensor<{arg}>) -> ({results}) {{
    %0:{count} = stablehlo.custom_call @{name}(%a) {{
      api_version = 4 : i32, has_side_effect = true, backend_config = {{{attributes}}}
    }} : (tensor<{arg}>) -> ({results})
    return {values} : {results}
  }}
}}"""


@pytest.fixture(scope="session")
def call_program():
    """Return a function that writes a program with one custom call, of an array."""

    def program(name, arg="8xf32", results=("8xf32",), attributes=""):
        kinds = ", ".join(f"tensor<{result}>" for result in results)
        values = ", ".join(f"%0#{at}" for at in range(len(results)))
        return _CALL.format(
            name=name,
            arg=arg,
            results=kinds,
            count=len(results),
            values=values,
            attributes=attributes,
        )

    return program


_NATIVE = """
#include <stddef.h>
#include <stdint.h>
#include "devrt/pjrt/c_api/pjrt_c_api.h"
XLA_FFI_Error* thrice(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* at = frame->extension_start; at != 0; at = at->next) {
    if (at->type != XLA_FFI_Extension_Metadata) continue;
    ((XLA_FFI_Metadata_Extension*)at)->metadata->api_version = frame->api->api_version;
    return 0;
  }
  const XLA_FFI_Buffer* in = frame->args.args[0];
  const XLA_FFI_Buffer* out = frame->rets.rets[0];
  if (((float*)in->data)[0] < 0) {
    XLA_FFI_Error_Create_Args args = {sizeof args, 0, "it is negative",
                                      XLA_FFI_Error_Code_OUT_OF_RANGE};
    return frame->api->XLA_FFI_Error_Create(&args);
  }
  for (int i = 0; i < in->dims[0]; ++i) ((float*)out->data)[i] = 3 * ((float*)in->data)[i];
  return 0;
}
"""


@pytest.fixture(scope="session")
def thrice(tmp_path_factory):
    """Return a native handler that multiplies by three, and refuses what is negative."""
    import ctypes

    import devrt.native

    folder = tmp_path_factory.mktemp("thrice")
    include = f"-I{devrt.native.include_dir()}"
    return ctypes.CDLL(str(shared_library(folder / "thrice.so", _NATIVE, include))).thrice


def pytest_collection_finish(session):
    """Let collections of garbage pass over what pytest keeps of all tests.

    Else each `gc.collect` of a test takes a third of a second.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config):
    """Let what modules of tests hold be collected at the exit: it would be reported as leaked."""
    gc.unfreeze()

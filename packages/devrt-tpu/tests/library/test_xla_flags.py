"""Flags in ``XLA_FLAGS`` that XLA would end the process over, with any library of XLA."""

import json

import pytest

from support import run_python

MAKE = """
import sys
from devrt.errors import ConfigError
import devrt_pjrt as pjrt
try:
    pjrt.make_client(pjrt.library_for("flagged", sys.argv[1]), "flagged")
    print("made")
except ConfigError as error:
    print(error)
"""


def _run(*command, **environ):
    return run_python(*command, status=None, clean=("DEVRT_", "JAX_"), **environ)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--xla_nonsense=1", "Unknown flag in XLA_FLAGS: --xla_nonsense=1. Correct XLA_FLAGS"),
        ("--xla_cpu_enable_fast_math=maybe", "value maybe for flag xla_cpu_enable_fast_math"),
        ("--xla_cpu_enable_fast_math=false", "made"),
    ],
)
def test_a_flag_that_xla_refuses_is_an_error(xla_cpu_library, flags, message):
    done = _run("-c", MAKE, xla_cpu_library, XLA_FLAGS=flags)
    assert done.returncode == 0, done.stderr
    assert message in done.stdout


def test_the_doctor_names_the_variable_and_not_the_wheel(xla_cpu_library):
    environ = {
        "XLA_FLAGS": "--xla_nonsense=1",
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"flagged:{xla_cpu_library}",
    }
    done = _run("-m", "devrt", "doctor", "--json", "--platform", "flagged", **environ)
    (finding,) = [f for f in json.loads(done.stdout)["findings"] if f["code"] == "env-malformed"]
    assert "XLA_FLAGS: --xla_nonsense=1" in finding["message"]
    assert finding["remedy"].startswith("Correct XLA_FLAGS")
    assert "pip" not in finding["command"]

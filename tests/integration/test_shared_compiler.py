"""Calls of programs where two kinds of clients of a process have one compiler."""

import os
import subprocess
import sys

import numpy as np
import pytest

from devrt import errors
from support import make_client, xla_cpu_library

pytestmark = pytest.mark.engine

X = np.ones(8, np.float32)
SUPPORT = os.path.dirname(os.path.abspath(xla_cpu_library.__code__.co_filename))

RUN = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np, devrt
from support import make_client
SPEC = devrt.ShapeDtypeStruct((8,), np.float32)
def fails(v):
    raise ValueError("no good")
def run(client, function):
    mesh = devrt.sharding.Mesh(np.array(client.local_devices()), ("a",))
    whole = devrt.sharding.NamedSharding(mesh, devrt.sharding.PartitionSpec("a"))
    x = devrt.device_put(np.ones(8, np.float32), whole)
    return np.asarray(devrt.jit(lambda a: devrt.pure_callback(function, SPEC, a * 2).sum())(x))
for kind in sys.argv[1:]:
    client = make_client(kind, 2)
    print(run(client, lambda v: v + 1))
    try:
        run(client, fails)
    except devrt.errors.DevrtError as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("kinds", [("cpu", "loader"), ("loader", "cpu")], ids="-".join)
def test_each_answers_its_own_programs(kinds):
    pytest.importorskip("devrt_pjrt")
    xla_cpu_library()
    paths = os.pathsep.join(filter(None, [SUPPORT, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", RUN, *kinds],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["24.0", "InvalidArgumentError"] * 2


@pytest.fixture
def clients():
    with make_client("cpu") as cpu, make_client("loader") as loader:
        yield cpu, loader


def test_programs_call_what_another_client_has_registered(clients, call_program):
    def call(a):
        if a[0] < 0:
            raise ValueError("it is negative")
        return a * 2

    cpu, loader = clients
    cpu.register_custom_call("of_the_cpu", call)
    for client in (cpu, loader):  # the CPU's looks for what its own executions know
        executable = client.compile_and_load(call_program("of_the_cpu"))
        (made,) = executable.execute([client.buffer_from_pyval(X)])
        np.testing.assert_array_equal(made, X * 2)
        with pytest.raises(errors.DevrtError, match="it is negative"):
            np.asarray(executable.execute([client.buffer_from_pyval(-X)])[0])


def test_a_name_has_one_function(clients):
    cpu, loader = clients
    cpu.register_custom_call("of_both", np.copy)
    loader.register_custom_call("of_both", np.copy)
    with pytest.raises(errors.PluginError, match=r"the cpu platform already.*Use another name"):
        loader.register_custom_call("of_both", np.negative)

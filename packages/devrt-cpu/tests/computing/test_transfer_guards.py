"""Transfer guards and programs: what a call moves on the side is refused, as in JAX."""

import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt import Mesh, NamedSharding, P
from devrt.errors import InvalidArgumentError

pytestmark = pytest.mark.engine

HOST = np.ones(8, np.float32)


@pytest.fixture(scope="module")
def mesh(cpu):
    return Mesh(np.array(cpu), ("x",))


FROM_HOST = {
    "jit": lambda f, x, mesh: f(x, HOST),
    "jit, a number": lambda f, x, mesh: f(x, 1.0),
    "an operator": lambda f, x, mesh: x + HOST,
    "an operator, a number": lambda f, x, mesh: x + 1,
    "a function of numpy's": lambda f, x, mesh: jnp.add(x, HOST),
    "shard_map": lambda f, x, mesh: devrt.shard_map(
        lambda a: a, mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )(HOST),
    "pmap": lambda f, x, mesh: devrt.pmap(lambda a: a)(np.ones((len(mesh.devices), 2))),
}
BETWEEN = {
    "jit": lambda f, x, there: f(x, there),
    "an operator": lambda f, x, there: x + there,
    "in_shardings": lambda f, x, there: devrt.jit(lambda a: a, in_shardings=there.sharding)(x),
}


@pytest.mark.parametrize("what", FROM_HOST)
@pytest.mark.parametrize("times", [1, 2])
def test_values_of_the_host_are_refused(cpu, mesh, what, times):
    f = devrt.jit(lambda a, b: a + b)
    x = jnp.ones(8, jnp.float32)
    for _ in range(times - 1):
        FROM_HOST[what](f, x, mesh)
    for guard in (devrt.transfer_guard, devrt.transfer_guard_host_to_device):
        with guard("disallow"), pytest.raises(InvalidArgumentError, match="host-to-device"):
            FROM_HOST[what](f, x, mesh)
    with devrt.transfer_guard_device_to_device("disallow"):
        FROM_HOST[what](f, x, mesh)


@pytest.mark.parametrize("what", BETWEEN)
def test_arrays_that_move_to_another_device_are_refused(cpu, what):
    f = devrt.jit(lambda a, b: a + b)
    x, there = jnp.ones(8, jnp.float32), devrt.device_put(HOST, cpu[1])
    with devrt.transfer_guard("disallow"), pytest.raises(InvalidArgumentError, match="to-device"):
        BETWEEN[what](f, x, there)
    BETWEEN[what](f, x, there)


def test_a_loaded_program_s_values_are_refused(cpu):
    text = "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }"
    program = devrt.programs.load_program(text, devices=[cpu[0]])
    x = devrt.device_put(HOST, cpu[0])
    with devrt.transfer_guard("disallow"):
        program(x)
        with pytest.raises(InvalidArgumentError, match="calling 'main'"):
            program(HOST)


def test_what_moves_nothing_passes(mesh, cpu):
    f = devrt.jit(lambda a, b: a + b)
    x = devrt.device_put(HOST, NamedSharding(mesh, P("x")))
    f(x, x)
    with devrt.transfer_guard("disallow"):
        f(x, x)
        (x + x).sum()


def test_a_call_is_logged(caplog):
    x = jnp.ones(8, jnp.float32)
    with devrt.transfer_guard("log"):
        x + HOST
    (record,) = caplog.records
    assert "implicit host-to-device transfer by calling 'add'" in record.message

"""Programs on arrays of clients that the program itself made."""

import numpy as np
import pytest

pytest.importorskip("devrt_cpu")

import devrt
import devrt.numpy as jnp
from devrt import xla_client
from devrt.programs import load_program
from devrt.runtime import Runtime, default_runtime, set_default_runtime


@pytest.fixture
def own():
    """An array on the second device of a client that no runtime knows; no other client is made."""
    with Runtime() as runtime:
        former = set_default_runtime(runtime)
        client = xla_client.make_cpu_client(num_devices=2)
        yield devrt.device_put(np.arange(4.0), client.local_devices()[1])
        client.close()
        set_default_runtime(former)


def test_where_an_array_says_where_a_program_runs_no_default_client_is_made(own):
    f = devrt.jit(lambda a, b: a * b + jnp.arange(4.0))
    for _ in range(2):
        assert own.sum() == 6
        assert np.asarray(f(own, 2)).tolist() == [0, 3, 6, 9]
        assert np.asarray(own[1:3] + 1).tolist() == [2, 3]
        devrt.config.update("transfer_guard", "allow")  # the context changes
    compiled = f.lower(own, own).compile()
    assert compiled(own, own).devices() == own.devices()
    program = f.lower(own, own).as_text()
    load_program(program, client=own.sharding._device_assignment[0].client)
    assert default_runtime().live_clients() == {}
    other = devrt.device_put(np.arange(4.0), devrt.devices("cpu")[0])
    assert np.asarray(f(other, 2)).tolist() == [0, 3, 6, 9]
    assert f(other, 2).devices() == other.devices()
    assert f(own, 2).devices() == own.devices()

"""Transfer guards: which transfers each level lets pass, logs or refuses, and where it holds."""

import logging
import pickle

import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt.dlpack import from_dlpack
from devrt.errors import ConfigError, InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeClient
from support import python, together

pytest.importorskip("devrt_cpu")

DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")
GUARDS = {name: getattr(devrt, f"transfer_guard_{name}") for name in DIRECTIONS}


@pytest.fixture(scope="module")
def far():
    """Devices whose memory the host cannot see, so that reading transfers."""
    return AcmeClient(2).devices()


@pytest.fixture
def rows(far):
    return NamedSharding(Mesh(np.array(far, dtype=object), ("x",)), P("x"))


H2D, D2D, D2H = DIRECTIONS
OPERATIONS = {  # name: (direction, explicit, what to do with devices and a sharding over them)
    "device_put": (H2D, True, lambda d, s: devrt.device_put(np.ones(2), d[0])),
    "device_put of a scalar": (H2D, True, lambda d, s: devrt.device_put(1.0)),
    "device_put over a mesh": (H2D, True, lambda d, s: devrt.device_put(np.ones(2), s)),
    "device_put of a tree": (H2D, True, lambda d, s: devrt.device_put([1.0, np.ones(2)], d[0])),
    "device_put_sharded": (H2D, True, lambda d, s: devrt.device_put_sharded([1.0, 2.0], d)),
    "device_put_replicated": (H2D, True, lambda d, s: devrt.device_put_replicated(1.0, d)),
    "from_dlpack": (H2D, True, lambda d, s: from_dlpack(np.ones(2), d[0])),
    "from_dlpack over a mesh": (H2D, True, lambda d, s: jnp.from_dlpack(np.ones(2), device=s)),
    "process local data": (
        H2D, True, lambda d, s: devrt.make_array_from_process_local_data(s, np.ones(2))
    ),
    "callback": (
        H2D, False, lambda d, s: devrt.make_array_from_callback((2,), s, lambda i: np.ones(1))
    ),
    "numpy.array": (H2D, False, lambda d, s: jnp.array([1.0])),
    "numpy.asarray": (H2D, False, lambda d, s: jnp.asarray(np.ones(2), device=d[0])),
    "numpy.zeros": (H2D, False, lambda d, s: jnp.zeros(3)),
    "to another device": (D2D, True, lambda d, s: devrt.device_put(held(d[0]), d[1])),
    "to a mesh": (D2D, True, lambda d, s: devrt.device_put(held(d[0]), s)),
    "from_dlpack of an array": (D2D, True, lambda d, s: from_dlpack(held(d[0]), d[1])),
    "from_dlpack from the CPU": (
        D2D, True, lambda d, s: from_dlpack(held(devrt.devices("cpu")[0]), d[1])
    ),
    "from a mesh": (D2D, True, lambda d, s: devrt.device_put(held(s), d[0])),
    "device_get": (D2H, True, lambda d, s: devrt.device_get(held(d[0]))),
    "device_get of shards": (D2H, True, lambda d, s: devrt.device_get(held(s))),
    "device_get out": (D2H, True, lambda d, s: devrt.device_get(held(s), out=np.zeros(2))),
    "numpy.asarray of it": (D2H, False, lambda d, s: np.asarray(held(d[0]))),
    "shards as numpy": (D2H, False, lambda d, s: np.asarray(held(s))),
    "item": (D2H, False, lambda d, s: float(held(d[0], 1.0))),
    "repr": (D2H, False, lambda d, s: repr(held(d[0]))),
    "tolist": (D2H, False, lambda d, s: held(d[0]).tolist()),
    "pickle": (D2H, False, lambda d, s: pickle.dumps(held(d[0]))),
    "copy_to_host_async": (D2H, False, lambda d, s: held(d[0]).copy_to_host_async()),
}  # fmt: skip
NOT_TRANSFERS = {
    "to where it is": lambda d, s: devrt.device_put(held(d[0]), d[0]),
    "to its own sharding": lambda d, s: devrt.device_put(held(s), s),
    "without a target": lambda d, s: devrt.device_put(held(s)),
    "a second reading": lambda d, s: np.asarray(READ[0]),
    "a clone": lambda d, s: held(s).clone(),
    "a shard": lambda d, s: held(s).addressable_data(0),
    "from_dlpack": lambda d, s: from_dlpack(np.ones(16)),
    "from_dlpack to where it is": lambda d, s: from_dlpack(np.ones(16), ON_CPU[0].device),
    "from_dlpack of a copy": lambda d, s: from_dlpack(np.ones(16), copy=True),
    "from_dlpack of an array": lambda d, s: from_dlpack(held(d[0])),
    "what the host sees": lambda d, s: np.asarray(ON_CPU[0]),
    "waiting": lambda d, s: held(s).block_until_ready(),
}
READ, ON_CPU = [], []


def held(where, value=None):
    """An array that is there already; making it is not what is tested."""
    with devrt.transfer_guard("allow"):
        return devrt.device_put(np.ones(2) if value is None else value, where)


@pytest.mark.parametrize("level", ["allow", "log", "disallow", "log_explicit", "disallow_explicit"])
@pytest.mark.parametrize("guarded", DIRECTIONS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_level_on_every_operation(level, guarded, name, far, rows, caplog):
    direction, is_explicit, operate = OPERATIONS[name]
    acts = (
        direction == guarded
        and level != "allow"
        and (not is_explicit or level.endswith("explicit"))
    )
    with caplog.at_level(logging.WARNING, "devrt.transfers"), GUARDS[guarded](level):
        if acts and level.startswith("disallow"):
            with pytest.raises(InvalidArgumentError, match="transfer guard") as caught:
                operate(far, rows)
            assert caught.value.direction == direction
            assert f"transfer_guard_{direction}('allow')" in str(caught.value)
        else:
            operate(far, rows)
    logged = [r.message for r in caplog.records if r.name == "devrt.transfers"]
    assert bool(logged) == (acts and level.startswith("log"))
    word = "explicit" if is_explicit else "implicit"
    assert all(f"{word} {direction.replace('_', '-')} transfer" in line for line in logged)


@pytest.mark.parametrize("name", NOT_TRANSFERS)
def test_what_moves_nothing_is_never_refused(name, far, rows, cpu):
    READ[:] = [held(far[0])]
    ON_CPU[:] = [held(cpu[0])]
    np.asarray(READ[0])
    with devrt.transfer_guard("disallow_explicit"):
        NOT_TRANSFERS[name](far, rows)


def test_contexts_nest_and_the_innermost_holds(far):
    with devrt.transfer_guard("disallow_explicit"):
        with devrt.transfer_guard_host_to_device("allow"):
            x = devrt.device_put(1.0, far[0])
            with pytest.raises(InvalidArgumentError):
                devrt.device_get(x)
            with devrt.transfer_guard("disallow_explicit"), pytest.raises(InvalidArgumentError):
                devrt.device_put(1.0, far[0])
        with pytest.raises(InvalidArgumentError):
            devrt.device_put(1.0, far[0])
    devrt.device_put(1.0, far[0])


def test_the_option_for_all_sets_every_direction(far):
    config = devrt.config
    try:
        config.update("jax_transfer_guard", "disallow_explicit")
        with pytest.raises(InvalidArgumentError):
            devrt.device_put(1.0, far[0])
        config.update("jax_transfer_guard_host_to_device", "allow")
        x = devrt.device_put(1.0, far[0])
        with pytest.raises(InvalidArgumentError):
            devrt.device_get(x)
        with devrt.transfer_guard("allow"):
            devrt.device_get(x)
    finally:
        config.update("transfer_guard", None)
    devrt.device_get(devrt.device_put(1.0, far[0]))


def test_the_documents_spelling_of_a_level_is_taken(far, caplog):
    with devrt.config.override(jax_transfer_guard="log_explicit_device_put"):
        devrt.device_put(1.0, far[0])
    assert "explicit host-to-device transfer" in caplog.text


@pytest.mark.parametrize("guard", [devrt.transfer_guard, *GUARDS.values()])
def test_there_is_no_other_level(guard):
    with pytest.raises(ConfigError, match="disallow"), guard("forbid"):
        pass


def test_a_guard_holds_in_its_own_thread_only(far):
    outcome = []

    def put():
        outcome.append(devrt.device_put(1.0, far[0]))

    with devrt.transfer_guard("disallow_explicit"):
        together(lambda _: put(), [0])
    assert len(outcome) == 1


def test_the_future_of_a_copy_obeys_the_guard_where_it_was_requested(far):
    x = held(far[0])
    with devrt.transfer_guard("disallow_explicit"):
        future = devrt.copy_to_host_async(x)
    with pytest.raises(InvalidArgumentError, match="device_get"):
        future.result()


@pytest.mark.parametrize("prefix", ["DEVRT", "JAX"])
def test_the_environment_sets_guards_too(run_python, prefix):
    script = (
        "import devrt\n"
        "try:\n    devrt.device_put(1.0)\n"
        "except devrt.errors.InvalidArgumentError as e:\n    print(e.level)"
    )
    done = run_python("-c", script, **{f"{prefix}_TRANSFER_GUARD": "disallow_explicit"})
    assert done.stdout.strip() == "disallow_explicit", done.stderr


def test_programs_without_guards_never_import_the_check():
    script = (
        "import devrt, numpy as np\n"
        "from devrt._config.layers import Config\n"
        "np.asarray(devrt.device_put(np.ones(2), devrt.devices()[0]))\n"
        "assert not Config.guards_are_set\n"
    )
    python(script)

"""Arrays of keys go where arrays go: what moves is a key's two words together."""

import copy
import pickle

import numpy as np
import pytest

import devrt
from devrt import P, dtypes, lax, random, tree
from devrt import numpy as dnp
from devrt.errors import InvalidArgumentError, InvalidTypeError

pytestmark = pytest.mark.engine

SAME = {
    "reshape": lambda n, x: n.reshape(x, (2, 2)),
    "ravel": lambda n, x: n.ravel(n.reshape(x, (2, 2))),
    "transpose": lambda n, x: n.transpose(n.reshape(x, (1, 4))),
    "squeeze": lambda n, x: n.squeeze(x[:1]),
    "expand_dims": lambda n, x: n.expand_dims(x, 0),
    "broadcast_to": lambda n, x: n.broadcast_to(x, (3, 4)),
    "stack": lambda n, x: n.stack([x, x], axis=1),
    "concatenate": lambda n, x: n.concatenate([x, x[:1]]),
    "hstack": lambda n, x: n.hstack([x, x]),
    "tile": lambda n, x: n.tile(x, 2),
    "repeat": lambda n, x: n.repeat(x, 2),
    "flip": lambda n, x: n.flip(x),
    "roll": lambda n, x: n.roll(x, 1),
    "take": lambda n, x: n.take(x, np.array([2, 0])),
    "where": lambda n, x: n.where(np.array([True, False, True, False]), x, x[::-1]),
    "array": lambda n, x: n.array([x[0], x[3]]) if n is dnp else x[[0, 3]],
    "index": lambda n, x: x[1],
    "slice": lambda n, x: x[1:3],
    "new": lambda n, x: x[None, ..., 2:],
    "positions": lambda n, x: x[np.array([3, 3])],
    "mask": lambda n, x: x[np.array([True, False, False, True])],
    "of method": lambda n, x: x.reshape(2, 2).swapaxes(0, 1).flatten(),
}


@pytest.fixture(autouse=True)
def _keys(cpu):
    # Not when this file is imported: other tests close their clients.
    global KEYS, ONE
    KEYS, ONE = random.split(random.key(0), 4), random.key(7)


def bits(keys):
    """Return keys as NumPy's integers of 64 bits."""
    words = np.asarray(random.key_data(keys)).astype(np.uint64)
    return words[..., 0] << np.uint64(32) | words[..., 1]


@pytest.mark.parametrize("name", SAME)
def test_functions_that_move_elements_move_keys(name):
    wanted = SAME[name](np, bits(KEYS))
    here = SAME[name](dnp, KEYS)
    traced = devrt.jit(lambda keys: SAME[name](dnp, keys))(KEYS)
    for found in here, traced:
        assert isinstance(found, random.PRNGKeyArray)
        assert found.shape == wanted.shape
        np.testing.assert_array_equal(bits(found), wanted)


def test_divided_arrays_are_several_of_keys():
    parts = dnp.split(KEYS, 2)
    assert [part.shape for part in parts] == [(2,), (2,)]
    np.testing.assert_array_equal(bits(parts[1]), bits(KEYS)[2:])


def test_functions_of_lax_take_them():
    np.testing.assert_array_equal(bits(lax.select(np.array(True), ONE, KEYS[0])), bits(ONE))
    np.testing.assert_array_equal(bits(lax.dynamic_index_in_dim(KEYS, 2)), bits(KEYS)[2:3])
    np.testing.assert_array_equal(bits(lax.rev(KEYS, (0,))), bits(KEYS)[::-1])


def test_keys_are_compared_one_by_one():
    for found in KEYS[2] == KEYS, dnp.equal(KEYS, KEYS[2]), ~(KEYS[2] != KEYS):
        assert found.dtype == bool
        assert found.tolist() == [False, False, True, False]
    assert bool(random.key(7) == ONE)
    assert (ONE == None) is False  # noqa: E711  what is no array is another thing


def test_updates_take_keys():
    updated = KEYS.at[1].set(ONE)
    np.testing.assert_array_equal(bits(updated), [bits(KEYS)[0], bits(ONE), *bits(KEYS)[2:]])
    np.testing.assert_array_equal(bits(KEYS.at[np.array([3])].get()), bits(KEYS)[3:])
    with pytest.raises(InvalidTypeError, match="keys are set to keys"):
        KEYS.at[1].set(0)


def test_keys_are_arrays_to_isinstance_and_so_are_traced_values():
    assert isinstance(ONE, devrt.Array)
    seen = []
    devrt.jit(lambda *given: seen.extend(isinstance(x, devrt.Array) for x in given))(KEYS, 1.0)
    assert seen == [True, True]
    for other in (np.ones(3), 1.0, [ONE], None):
        assert not isinstance(other, devrt.Array)


def test_keys_are_leaves_of_trees_and_their_words_parameters():
    keys = {"a": KEYS, "b": [ONE]}
    assert [each.shape for each in tree.leaves(keys)] == [(4,), ()]
    drawn = tree.map(lambda key: random.uniform(key, (3,)), {"x": ONE})
    np.testing.assert_array_equal(drawn["x"], random.uniform(random.key(7), (3,)))
    assert tree.map(lambda key: key.shape, keys) == {"a": (4,), "b": [()]}
    parameters = devrt.jit(lambda k: k).lower(keys).as_text().partition("{\n")[2].partition(")")[0]
    assert "tensor<4x2xui32>" in parameters


def test_carries_and_results_of_loops_and_branches():
    def step(key, _):
        key, drawn = random.split(key)
        return key, random.uniform(drawn)

    carried, drawn = lax.scan(step, ONE, None, length=3)
    key, wanted = ONE, []
    for _ in range(3):
        key, each = step(key, None)
        wanted.append(float(each))
    np.testing.assert_array_equal(bits(carried), bits(key))
    np.testing.assert_array_equal(drawn, np.float32(wanted))
    folded = lax.fori_loop(0, 2, lambda i, key: random.fold_in(key, i), ONE)
    np.testing.assert_array_equal(bits(folded), bits(random.fold_in(random.fold_in(ONE, 0), 1)))
    chosen = lax.cond(True, lambda key: key, lambda key: random.fold_in(key, 1), ONE)
    np.testing.assert_array_equal(bits(chosen), bits(ONE))
    last = lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, random.fold_in(c[1], 3)), (1, ONE)
    )
    np.testing.assert_array_equal(bits(last[1]), bits(random.fold_in(ONE, 3)))


def test_each_device_draws_with_its_own_keys(cpu):
    mesh = devrt.make_mesh((4,), ("x",), devices=cpu[:4])
    draw = devrt.shard_map(
        lambda keys: random.uniform(keys[0], (1, 2)), mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    wanted = [np.asarray(random.uniform(key, (2,))) for key in KEYS]
    np.testing.assert_array_equal(draw(KEYS), wanted)
    put = devrt.device_put(KEYS, devrt.NamedSharding(mesh, P("x")))
    assert put.devices() == set(cpu[:4])
    np.testing.assert_array_equal(bits(put.addressable_data(1)), bits(KEYS)[1:2])
    np.testing.assert_array_equal(devrt.jit(draw)(put), wanted)


def test_the_dtype_is_one_of_keys():
    assert dtypes.issubdtype(ONE.dtype, dtypes.prng_key)
    assert dnp.issubdtype(ONE.dtype, dtypes.extended)
    assert not dnp.issubdtype(np.uint32, dtypes.prng_key)
    assert not dnp.issubdtype(ONE.dtype, np.floating)
    words = random.key_data(KEYS)
    np.testing.assert_array_equal(bits(random.wrap_key_data(words, dtype=ONE.dtype)), bits(KEYS))
    with pytest.raises(InvalidArgumentError, match="not both"):
        random.wrap_key_data(words, dtype=ONE.dtype, impl="threefry2x32")
    assert (KEYS.nbytes, KEYS.itemsize, KEYS.size) == (32, 8, 4)


def test_copies_have_the_same_keys():
    for made in KEYS.copy(), copy.copy(KEYS), copy.deepcopy(KEYS), pickle.loads(pickle.dumps(KEYS)):
        np.testing.assert_array_equal(bits(made), bits(KEYS))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: dnp.where(True, ONE, 1), "where of keys and of int"),
        (lambda: dnp.stack([ONE, dnp.ones(2)]), "stack of keys and of float32"),
        (lambda: dnp.add(ONE, 1), "keys, which are no numbers"),
        (lambda: dnp.ones(3) + ONE, "keys are no numbers"),
        (lambda: KEYS[0, 0], "indexed with 3"),
        (lambda: KEYS[[0, 1]], "is no index"),
        (lambda: hash(ONE), "unhashable"),
        (lambda: len(ONE), "len"),
        (lambda: iter(ONE), "one key"),
        (lambda: bool(ONE), "truth"),
    ],
)
def test_keys_are_no_numbers(call, says):
    with pytest.raises((TypeError, IndexError), match=says):
        call()

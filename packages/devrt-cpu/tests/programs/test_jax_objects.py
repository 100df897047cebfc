"""Objects of JAX as programs: exported, lowered and traced functions. Skipped without JAX."""

from __future__ import annotations

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs import load_program

jax = pytest.importorskip("jax")
export = pytest.importorskip("jax.export")
pytestmark = pytest.mark.engine

PARAMS = {"b": np.arange(8, dtype=np.float32), "unused": np.zeros(3, np.float32)}
X = np.arange(16, dtype=np.float32).reshape(2, 8)


@jax.jit
def model(params, x, *, scale):
    return {"y": (x + params["b"]) * scale, "total": (x.sum(), None)}


def exported():
    return export.export(model)(PARAMS, X, scale=np.float32(2))


def lowered():
    return model.lower(PARAMS, X, scale=np.float32(2))


def traced():
    return model.trace(PARAMS, X, scale=np.float32(2))


@pytest.mark.parametrize("make", [exported, lowered, traced])
def test_functions_of_jax_take_and_give_their_trees(make):
    program = load_program(make())
    made = program(PARAMS, X, scale=3)
    np.testing.assert_array_equal(made["y"], (X + PARAMS["b"]) * 3)
    assert made["total"][1] is None
    assert program.in_names == ("0['b']", "1", "scale")


@pytest.mark.parametrize("make", [exported, lowered])
def test_arrays_of_jax_are_arguments(make):
    program = load_program(make())
    made = program(jax.device_put(PARAMS), jax.numpy.asarray(X), scale=jax.numpy.float32(2))
    np.testing.assert_array_equal(made["y"], (X + PARAMS["b"]) * 2)
    gone = jax.numpy.asarray(X)
    gone.delete()
    with pytest.raises(InvalidArgumentError, match=r"argument 1 .* cannot be read, as jax"):
        program(PARAMS, gone, scale=2)


def test_constants_that_jax_hoisted_are_passed():
    many = np.arange(4096, dtype=np.float32)
    program = load_program(jax.jit(lambda x: x + many).lower(many))
    np.testing.assert_array_equal(program(many), many + many)


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


jax.tree_util.register_pytree_node(
    Pair, lambda p: ((p.first, p.second), None), lambda _, parts: Pair(*parts)
)


def test_classes_that_only_jax_knows_are_taken_and_given():
    program = load_program(jax.jit(lambda p: Pair(p.second, p.first + 1)).lower(Pair(X, X)))
    made = program(Pair(X, X * 2))
    assert type(made) is Pair
    np.testing.assert_array_equal(made.first, X * 2)
    with pytest.raises(InvalidArgumentError, match=r"its arguments do not match: .*Pair"):
        program((X, X))


def test_what_is_no_program_of_jax_s_says_what_to_pass():
    compiled = lowered().compile()
    for given, words in ((model, r"Export it: jax\.export"), (compiled, "JAX's own backend")):
        with pytest.raises(InvalidTypeError, match=words):
            load_program(given)


@pytest.mark.parametrize(
    "place", [{"client": lambda: jax.devices()[0].client}, {"devices": lambda: jax.devices()}]
)
def test_what_belongs_to_jax_s_backend_is_no_place_for_a_program(place):
    (name, make) = next(iter(place.items()))
    with pytest.raises(InvalidTypeError, match="one of JAX's own backend"):
        load_program(lowered(), **{name: make()})

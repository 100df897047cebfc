"""Random numbers: every kind of draw from one key, bit for bit where no function is rounded."""

import numpy as np
import pytest

import devrt
from devrt import lax, random
from devrt import numpy as jnp

pytestmark = pytest.mark.engine


def gamma(key, shape_parameter, count):
    """Draw from a gamma distribution (Marsaglia and Tsang): what it rejects it draws again."""
    depth = shape_parameter - 1 / 3
    width = (1 / 3) / jnp.sqrt(depth)

    def is_rejected(state):
        _, square, cube, level = state
        is_outside = level >= 1 - 0.0331 * square * square
        return is_outside & (jnp.log(level) >= square * 0.5 + depth * (1 - cube + jnp.log(cube)))

    def draw(state):
        key, normal_key, level_key = random.split(state[0], 3)

        def again(state):
            key, _, _ = state
            key, used = random.split(key)
            x = random.normal(used)
            return key, x, 1 + x * width

        _, x, side = lax.while_loop(lambda s: s[2] <= 0, again, (normal_key, 0.0, -1.0))
        return key, x * x, side * side * side, random.uniform(level_key)

    def one(key):
        key, _ = random.split(key)
        return depth * lax.while_loop(is_rejected, draw, (key, 0.0, 1.0, 2.0))[2]

    return lax.map(one, random.split(key, count))


@devrt.jit(static_argnames="count")
def draws(key, logits, count):
    keys = random.split(key, 8)
    return (
        random.uniform(keys[0], (count,)),
        random.normal(keys[1], (count,)),
        random.bernoulli(keys[2], 0.3, (count,)),
        random.randint(keys[3], (count,), 0, 100),
        random.categorical(keys[4], logits),
        random.permutation(keys[5], count),
        gamma(keys[6], 2.0, 16),
        random.truncated_normal(keys[7], -1.0, 1.0, (count,)),
    )


def test_draws_of_every_kind(agrees):
    def many(key, logits):
        return draws(key, logits, 65536)

    agrees("rng_sampling", lambda key, logits: draws(key, logits, 64), larger=many)


def test_uniform_numbers_have_the_same_bits(recorded):
    (key, logits), (uniform, *_) = recorded("rng_sampling")
    np.testing.assert_array_equal(draws(key, logits, 64)[0], uniform)

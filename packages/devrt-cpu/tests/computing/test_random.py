"""Random numbers are those of JAX 0.10.2 with the same key."""

import numpy as np
import pytest

from devrt import jit, random
from devrt.errors import InvalidArgumentError, InvalidTypeError

pytestmark = pytest.mark.engine

JAX = {
    "key": [0, 42],
    "negative": [0, 4294967289],
    "split": [
        [[1832780943, 270669613], [64467757, 2916123636]],
        [[2465931498, 255383827], [3134548294, 894150801]],
    ],
    "fold": [4006827317, 911798682],
    "bits_uint8": [[162, 217, 249], [215, 21, 216]],
    "bits_uint16": [[5026, 12505, 63993], [49623, 29461, 20184]],
    "bits_uint32": [[2098992034, 2919706841, 2646866425], [2409546199, 1935504149, 2516274904]],
    "uniform": [
        [0.48870956897735596, 0.6797971725463867],
        [0.6162714958190918, 0.5610160827636719],
    ],
    "uniform_f16": [0.076171875, 0.1904296875, 0.9755859375],
    "uniform_bf16": [1.15625, 2.21875, 2.84375],
    "normal": [
        [-0.02830461598932743, 0.4671318531036377],
        [0.2957029640674591, 0.15354591608047485],
    ],
    "normal_c": [
        [0.05368746072053909, 0.4283398389816284],
        [-0.34389618039131165, 0.5650094747543335],
    ],
    "randint_int32_-5_5": [-1, -1, -4, 4, 4],
    "randint_int8_-128_128": [68, -110, 55, 65, 13],
    "randint_uint8_0_256": [196, 18, 183, 193, 141],
    "randint_uint32_3_2147483647": [977810635, 1236381721, 780371130, 1127988420, 475579024],
    "randint_int32_-2147483648_2147483647": [
        977810628,
        1236381714,
        -1367112521,
        -1019495231,
        -1671904627,
    ],
    "randint_int16_5_5": [5, 5, 5, 5, 5],
    "perm": [7, 4, 2, 5, 3, 6, 8, 9, 0, 1],
    "perm_rows": [[8, 9, 10, 11], [0, 1, 2, 3], [4, 5, 6, 7]],
    "perm_cols": [[2, 3, 0, 1], [6, 7, 4, 5], [10, 11, 8, 9]],
    "perm_ind": [[2, 3, 0, 1], [7, 4, 5, 6], [10, 11, 8, 9]],
    "bern": [False, False, False, False, False, False, True, False],
    "bern_high": [False, False, False, False, False, False, True, False],
    "trunc": [0.14770005643367767, 0.5684449076652527, 0.42102551460266113, 0.29997000098228455],
    "gumbel": [0.3340933918952942, 0.952019453048706, 0.7255305647850037, 0.5481715202331543],
    "laplace": [
        0.022839652374386787,
        -0.4456535577774048,
        -0.2646729052066803,
        -0.1301453858613968,
    ],
    "exponential": [0.670817494392395, 1.1388006210327148, 0.9578199982643127, 0.8232924938201904],
    "logistic": [-0.0451694130897522, 0.7528398036956787, 0.47375231981277466, 0.245286762714386],
    "cauchy": [-0.03548463061451912, 0.6337261199951172, 0.38244056701660156, 0.1940706968307495],
    "rademacher": [1, -1, -1, -1],
    "gumbel_high": [
        0.39925798773765564,
        -0.12997561693191528,
        0.043095413595438004,
        0.1944437325000763,
    ],
    "cat": [[2, 0], [2, 0], [1, 0], [1, 2], [1, 2]],
    "cat0": [1, 0, 0],
    "cat_no": [[2, 0], [1, 2]],
    "choice": [4, 4, 1, 9],
    "choice_no": [7, 4, 2, 5],
    "choice_p": [2, 2, 2, 2, 2, 2],
    "choice_p_no": [3, 2, 1],
    "choice_rows": [[0, 2], [4, 6], [8, 10]],
}
"""What JAX draws from key 42."""


def of_42():
    """Return the key; made anew, as an array of all tests would be found by those that count."""
    return random.key(42)


ROWS = np.arange(12).reshape(3, 4)
LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32))
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)

EXACT = {
    "split": lambda key: random.key_data(random.split(key, (2, 2))),
    "fold": lambda key: random.key_data(random.fold_in(key, 2**31 + 5)),
    "bits_uint8": lambda key: random.bits(key, (2, 3), "uint8"),
    "bits_uint16": lambda key: random.bits(key, (2, 3), "uint16"),
    "bits_uint32": lambda key: random.bits(key, (2, 3)),
    "uniform": lambda key: random.uniform(key, (2, 2)),
    "uniform_f16": lambda key: random.uniform(key, (3,), "float16"),
    "uniform_bf16": lambda key: random.uniform(key, (3,), "bfloat16", -2, 3),
    "randint_int32_-5_5": lambda key: random.randint(key, (5,), -5, 5),
    "randint_int8_-128_128": lambda key: random.randint(key, (5,), -128, 128, "int8"),
    "randint_uint8_0_256": lambda key: random.randint(key, (5,), 0, 256, "uint8"),
    "randint_uint32_3_2147483647": lambda key: random.randint(key, (5,), 3, 2**31 - 1, "uint32"),
    "randint_int32_-2147483648_2147483647": lambda key: random.randint(
        key, (5,), -(2**31), 2**31 - 1
    ),
    "randint_int16_5_5": lambda key: random.randint(key, (5,), 5, 5, "int16"),
    "perm": lambda key: random.permutation(key, 10),
    "perm_ind": lambda key: random.permutation(key, ROWS, 1, independent=True),
    "bern": lambda key: random.bernoulli(key, 0.3, (8,)),
    "bern_high": lambda key: random.bernoulli(key, 0.3, (8,), mode="high"),
    "perm_rows": lambda key: random.permutation(key, ROWS),
    "perm_cols": lambda key: random.permutation(key, ROWS, 1),
    "cat": lambda key: random.categorical(key, LOGITS, shape=(5, 2)),
    "cat0": lambda key: random.categorical(key, LOGITS, axis=0),
    "cat_no": lambda key: random.categorical(key, LOGITS, shape=(2, 2), replace=False),
    "choice": lambda key: random.choice(key, 10, (4,)),
    "choice_no": lambda key: random.choice(key, 10, (4,), replace=False),
    "choice_p": lambda key: random.choice(key, 4, (6,), p=P),
    "choice_p_no": lambda key: random.choice(key, 4, (3,), replace=False, p=P),
    "choice_rows": lambda key: random.choice(key, ROWS, (2,), axis=1),
    "rademacher": lambda key: random.rademacher(key, (4,)),
}

CLOSE = {
    "normal": lambda key: random.normal(key, (2, 2)),
    "trunc": lambda key: random.truncated_normal(key, -1, 2, (4,)),
    **{
        name: lambda key, name=name: getattr(random, name)(key, (4,))
        for name in ("gumbel", "laplace", "exponential", "logistic", "cauchy")
    },
    "gumbel_high": lambda key: random.gumbel(key, (4,), mode="high"),
}


@pytest.fixture(scope="module")
def drawn():
    """All numbers, drawn by one program from one key that is its argument."""
    every = {**EXACT, **CLOSE}
    return jit(lambda key: {name: draw(key) for name, draw in every.items()})(of_42())


@pytest.mark.parametrize("name", EXACT)
def test_numbers_are_jax_s_bit_for_bit(drawn, name):
    found = np.asarray(drawn[name])
    np.testing.assert_array_equal(found.astype(np.float64), np.array(JAX[name], np.float64))


@pytest.mark.parametrize("name", CLOSE)
def test_numbers_are_jax_s_but_for_rounding(drawn, name):
    np.testing.assert_allclose(drawn[name], JAX[name], rtol=2e-6, atol=1e-7)


def test_complex_normal_numbers_have_two_parts():
    found = np.asarray(random.normal(of_42(), (2,), "complex64"))
    pairs = np.stack([found.real, found.imag], 1)
    np.testing.assert_allclose(pairs, JAX["normal_c"], rtol=2e-6)


def test_draws_outside_of_a_program_are_the_same():
    np.testing.assert_array_equal(random.bits(of_42(), (2, 3)), JAX["bits_uint32"])
    np.testing.assert_array_equal(random.permutation(of_42(), 10), JAX["perm"])


def test_keys_of_seeds_are_the_seeds_lower_bits():
    assert np.asarray(random.key_data(of_42())).tolist() == JAX["key"]
    assert np.asarray(random.PRNGKey(-7)).tolist() == JAX["negative"]
    assert np.asarray(random.PRNGKey(np.int32(-7))).tolist() == JAX["negative"]
    assert np.asarray(jit(random.PRNGKey)(-7)).tolist() == JAX["negative"]
    assert np.asarray(random.PRNGKey(2**40 + 5)).tolist() == [0, 5]


def test_64_bits_are_both_words():
    low = np.asarray(random.bits(of_42(), (2,), "uint64"))
    numbers = np.asarray(random.uniform(of_42(), (1000,), "float64"))
    assert low.dtype == np.uint64
    assert (low > 2**40).any()
    assert 0 <= numbers.min() < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.03


def test_keys_can_be_shown_indexed_and_gone_over():
    keys = random.split(of_42(), 3)
    first, second, third = keys
    assert (keys.shape, keys.ndim, len(keys), str(keys.dtype)) == ((3,), 1, 3, "key<fry>")
    assert (keys.size, keys.itemsize, keys.nbytes) == (3, 8, 24)
    assert first.shape == ()
    assert repr(of_42()) == "Array((), dtype=key<fry>) overlaying:\n[ 0 42]"
    np.testing.assert_array_equal(random.key_data(keys[1]), random.key_data(second))
    np.testing.assert_array_equal(random.key_data(keys[-1]), random.key_data(third))
    wrapped = random.wrap_key_data(random.key_data(third))
    np.testing.assert_array_equal(random.bits(wrapped), random.bits(third))


def test_plain_keys_give_plain_keys():
    plain = random.PRNGKey(42)
    np.testing.assert_array_equal(random.split(plain, (2, 2)), JAX["split"])
    np.testing.assert_array_equal(random.fold_in(plain, 2**31 + 5), JAX["fold"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: random.uniform(3), InvalidTypeError, "uniform: a key is what devrt.random.key"),
        (lambda: random.uniform(np.zeros(2)), InvalidTypeError, r"not float64\(2,\)"),
        (lambda: random.uniform(random.split(of_42())), InvalidArgumentError, "takes one key"),
        (lambda: random.uniform(of_42(), (), "int32"), InvalidTypeError, "is int32"),
        (lambda: random.bits(of_42(), (), "int32"), InvalidTypeError, "is int32"),
        (lambda: random.randint(of_42(), (), 0, 2, "float32"), InvalidTypeError, "is float32"),
        (lambda: random.key(1.5), InvalidTypeError, "a seed is one integer"),
        (lambda: random.key(0, impl="rbg"), InvalidArgumentError, "no random generator 'rbg'"),
        (lambda: random.fold_in(of_42(), 1.5), InvalidTypeError, "fold_in takes one integer"),
        (lambda: random.permutation(of_42(), 1.5), InvalidTypeError, "an integer or an array"),
        (
            lambda: random.permutation(of_42(), ROWS, 2),
            InvalidArgumentError,
            "permutation: .* axis 2",
        ),
        (lambda: random.choice(of_42(), 3, (4,), replace=False), InvalidArgumentError, "4 of 3"),
        (lambda: random.choice(of_42(), 3, p=P), InvalidArgumentError, "there are 3 elements"),
        (lambda: random.bernoulli(of_42(), np.zeros(3), (2,)), InvalidArgumentError, "broadcast"),
        (lambda: np.asarray(of_42()), InvalidTypeError, "key_data"),
    ],
)
def test_wrong_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()

"""Arrays in other shapes and orders, beside NumPy."""

import numpy as np
import pytest

import devrt.numpy as jnp
from beside_numpy import check, compare, flat
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.jit import jit

pytestmark = pytest.mark.engine

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
Y = RANDOM.standard_normal((3, 4)).astype(np.float32)
Z = np.arange(12, dtype=np.int16).reshape(3, 4)
V = np.arange(4, dtype=np.float32)


def test_shapes():
    check(
        [
            lambda m, x, y: m.reshape(x, (4, -1)),
            lambda m, x, y: m.reshape(x, (4, -1), order="F"),
            lambda m, x, y: m.reshape(x, -1),
            lambda m, x, y: x.reshape(3, -1),
            lambda m, x, y: m.ravel(x, order="F"),
            lambda m, x, y: x.flatten(),
            lambda m, x, y: m.transpose(x),
            lambda m, x, y: x.transpose(1, 0, 2),
            lambda m, x, y: m.transpose(x, [2, 0, -2]),
            lambda m, x, y: m.permute_dims(x, (1, 2, 0)),
            lambda m, x, y: m.matrix_transpose(x),
            lambda m, x, y: x.T + 0 if m is np else x.T,
            lambda m, x, y: m.moveaxis(x, [0, 1], [2, 0]),
            lambda m, x, y: m.moveaxis(x, -1, 0),
            lambda m, x, y: m.rollaxis(x, 2),
            lambda m, x, y: m.rollaxis(x, 0, 3),
            lambda m, x, y: m.rollaxis(x, 0, 2),
            lambda m, x, y: m.swapaxes(x, 0, -1),
            lambda m, x, y: m.expand_dims(x, (0, -1)),
            lambda m, x, y: m.squeeze(m.expand_dims(x, (0, -1))),
            lambda m, x, y: m.squeeze(m.expand_dims(x, (0, -1)), axis=-1),
            lambda m, x, y: m.broadcast_to(y, (2, 3, 4)),
            lambda m, x, y: m.broadcast_arrays(x, y),
            lambda m, x, y: m.atleast_3d(y),
            lambda m, x, y: m.atleast_2d(y, x),
        ],
        X,
        Y,
    )
    assert jnp.broadcast_shapes((2, 1), (3,), 4 * (1,)) == (1, 1, 2, 3)


def test_joined_and_split():
    check(
        [
            lambda m, x, y, z, v: m.concatenate([x, x], axis=1),
            lambda m, x, y, z, v: m.concatenate([x, y], axis=None),
            lambda m, x, y, z, v: m.concat([y, z], axis=-1),
            lambda m, x, y, z, v: m.stack([y, y], axis=-1),
            lambda m, x, y, z, v: m.stack([z, z], 1),
            lambda m, x, y, z, v: m.hstack([y, y]),
            lambda m, x, y, z, v: m.hstack([v, v]),
            lambda m, x, y, z, v: m.vstack([y, v]),
            lambda m, x, y, z, v: m.dstack([y, y]),
            lambda m, x, y, z, v: m.column_stack([y.T, v]),
            lambda m, x, y, z, v: m.array_split(x, 3, axis=2),
            lambda m, x, y, z, v: m.split(y, [1, 2, 5], axis=1),
            lambda m, x, y, z, v: m.split(y, [-3, -1], axis=1),
            lambda m, x, y, z, v: m.hsplit(y, 2),
            lambda m, x, y, z, v: m.vsplit(y, 3),
            lambda m, x, y, z, v: m.dsplit(x, 2),
            lambda m, x, y, z, v: m.unstack(x, axis=1),
            lambda m, x, y, z, v: m.block([[y, y], [y, y]]),
            lambda m, x, y, z, v: m.block([v, v]),
            lambda m, x, y, z, v: m.block([[v], [v]]),
            lambda m, x, y, z, v: m.tile(y, (2, 1, 3)),
            lambda m, x, y, z, v: m.tile(x, 2),
            lambda m, x, y, z, v: m.repeat(y, 3, axis=1),
            lambda m, x, y, z, v: m.repeat(y, 2),
        ],
        X,
        Y,
        Z,
        V,
    )


def test_other_places():
    check(
        [
            lambda m, x, y: m.roll(x, 3),
            lambda m, x, y: m.roll(x, (1, -2), axis=(0, 2)),
            lambda m, x, y: m.roll(x, -5, axis=1),
            lambda m, x, y: m.flip(x),
            lambda m, x, y: m.flip(x, (0, 2)),
            lambda m, x, y: m.fliplr(y),
            lambda m, x, y: m.flipud(y),
            lambda m, x, y: [m.rot90(x, k, axes=(2, 1)) for k in range(-1, 5)],
            lambda m, x, y: [m.diagonal(x, o, 0, 2) for o in range(-3, 5)],
            lambda m, x, y: [m.diag(y, k) for k in range(-4, 5)],
            lambda m, x, y: m.diagflat(y, 1),
            lambda m, x, y: m.trace(x, axis1=1, axis2=2),
            lambda m, x, y: m.trace(x, 1, axis1=-1, axis2=0),
        ],
        X,
        Y,
    )
    check([lambda m, v: [m.diag(v, k) for k in range(-2, 3)]], V)


def test_rolled_by_a_value():
    shifts = [0, 1, -1, 5, -7]
    got = jit(lambda x, by: jnp.roll(x, by, axis=1))
    for shift in shifts:
        compare([got(Y, shift)], [np.roll(Y, shift, axis=1)])
        compare([jnp.roll(jnp.asarray(Y), shift)], [np.roll(Y, shift)])


WIDTHS = ((2, 1), (3, 5))
MODES = ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "linear_ramp")


def test_repeated_by_counts():
    counts = np.array([2, 0, 3], np.int32)
    expected = np.repeat(Y, counts, axis=0)
    compare([jnp.repeat(Y, counts, axis=0), jnp.repeat(Y, [2, 0, 3], 0)], [expected] * 2)
    longer = np.concatenate([expected, expected[-1:]])
    compare([jnp.repeat(Y, counts, axis=0, total_repeat_length=6)], [longer])
    got = jit(lambda y, counts: jnp.repeat(y, counts, axis=0, total_repeat_length=6))(Y, counts)
    compare([got], [longer])
    with pytest.raises(InvalidArgumentError, match="total_repeat_length"):
        jit(lambda y, counts: jnp.repeat(y, counts, axis=0))(Y, counts)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_nothing_is_repeated_by_no_counts(dtype):
    x, counts = np.zeros((0, 2), dtype), np.zeros(0, np.int8)
    compare([jnp.repeat(x, counts, axis=0)], [x])
    compare([jit(lambda x: jnp.repeat(x, counts, axis=0))(x)], [x])


def test_filled_diagonals():
    for shape in ((3, 4), (5, 2), (3, 3, 3)):
        for value in (7, [1, 2]):
            for wrap in (False, True):
                expected = np.zeros(shape, np.float32)
                np.fill_diagonal(expected, value, wrap)
                got = jnp.fill_diagonal(
                    np.zeros(shape, np.float32), np.asarray(value), wrap, inplace=False
                )
                np.testing.assert_array_equal(got, expected)


def test_padded_by_a_function():
    def ends(row, widths, axis, options):
        kept, _ = jnp.split(row, [row.shape[0] - widths[1]])
        return jnp.concatenate([kept, jnp.full((widths[1],), options["value"])])

    def ends_in_place(row, widths, axis, options):
        row[-widths[1] :] = options["value"]

    got = jnp.pad(Y, 1, ends, value=4.0)
    compare([got], [np.pad(Y, 1, ends_in_place, value=4.0)])


def test_padded():
    cases = [lambda m, y, z, k=mode: m.pad(y, WIDTHS, k) for mode in MODES]
    cases += [lambda m, y, z, k=mode: m.pad(z, (1, 6), mode=k) for mode in MODES]
    cases += [
        lambda m, y, z: m.pad(y, 2),
        lambda m, y, z: m.pad(z, 2, constant_values=(1, 2)),
        lambda m, y, z: m.pad(y, WIDTHS, constant_values=((1, 2), (3, 4))),
        lambda m, y, z: m.pad(y, {1: (0, 2)}, constant_values=7),
        lambda m, y, z: m.pad(y, 7, mode="reflect", reflect_type="odd"),
        lambda m, y, z: m.pad(y, 7, mode="symmetric", reflect_type="odd"),
        lambda m, y, z: m.pad(y, 2, mode="mean", stat_length=2),
        lambda m, y, z: m.pad(y, 2, mode="linear_ramp", end_values=((1, 2), (3, 4))),
    ]
    if np.lib.NumpyVersion(np.__version__) < "2.3.0":
        del cases[-5]  # NumPy takes a dict of axes since 2.3
    check(cases, Y, Z)


def test_places_of_triangles():
    for name, arguments in {
        "tril_indices": (3, 1, 4),
        "triu_indices": (4, -1),
        "diag_indices": (3, 3),
    }.items():
        got, expected = (getattr(m, name)(*arguments) for m in (jnp, np))
        for mine, other in zip(got, expected, strict=True):
            assert mine.dtype == np.int32
            np.testing.assert_array_equal(mine, other)


def test_alone_as_in_a_trace():
    x, y = jnp.asarray(X), jnp.asarray(Y)
    for case in (
        lambda m, x, y: m.reshape(x, [4, -1]),
        lambda m, x, y: m.concatenate([x, x], axis=-1),
        lambda m, x, y: m.split(y, [1, 3], axis=1),
        lambda m, x, y: m.pad(y, WIDTHS, mode="wrap"),
        lambda m, x, y: m.squeeze(m.expand_dims(y, [0, 1])),
        lambda m, x, y: m.ravel(x),
    ):
        compare(flat(case(jnp, x, y)), flat(case(np, X, Y)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: jnp.reshape(x, (5, -1)), r"float32\[2,3,4\].*24.*\(5, -1\)"),
        (lambda x: jnp.squeeze(x, 1), "size 3"),
        (lambda x: jnp.transpose(x, (0, 1)), r"\(0, 1\)"),
        (lambda x: jnp.concatenate([x, x.T], 1), r"float32\[2,3,4\].*float32\[4,3,2\]"),
        (lambda x: jnp.stack([]), "at least one"),
        (lambda x: jnp.moveaxis(x, 3, 0), "axis 3.*3 dimensions"),
        (lambda x: jnp.split(x, 2, axis=1), "size 3.*2 parts.*array_split"),
        (lambda x: jnp.broadcast_to(x, (3,)), r"broadcast"),
        (lambda x: jnp.pad(x, 1, mode="other"), "mode 'other'"),
        (lambda x: jnp.pad(x, ((1, 1),) * 2), "pad_width"),
        (lambda x: jnp.fill_diagonal(x, 0), "inplace=False"),
        (lambda x: jnp.flip(x, (0, 0)), "twice"),
    ],
)
def test_what_does_not_fit(call, words):
    with pytest.raises(InvalidArgumentError, match=words):
        call(jnp.asarray(X))
    with pytest.raises(InvalidArgumentError, match=rf"(?s){words}"):
        jit(call)(X)


def test_lists_are_no_arrays():
    with pytest.raises(InvalidTypeError, match="asarray"):
        jnp.split([1, 2], 2)

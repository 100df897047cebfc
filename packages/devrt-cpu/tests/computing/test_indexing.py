"""`x[index]` and `x.at[index]` beside NumPy's, with random indices and with those of the rules."""

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import InvalidIndexError, InvalidTypeError
from devrt.numpy import indexing

BLOCKS = ((), (2,), (3, 1), (1, 2))


def random_bound(rng, n):
    return None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3))


def random_index(rng, shape):
    """Return an index of all kinds for an array of a shape."""
    index, at, has_ellipsis = [], 0, False
    block = BLOCKS[rng.integers(len(BLOCKS))]
    while at < len(shape):
        n, kind = shape[at], rng.integers(8)
        if kind == 0:
            index.append(int(rng.integers(-n, n)))
        elif kind in (1, 2):
            bounds = [
                None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in "ab"
            ]
            index.append(slice(*bounds, (None, 1, 2, -1, -2)[rng.integers(5)]))
        elif kind == 3:
            index.append(None)
            continue
        elif kind == 4:
            index.append(rng.integers(-n, n, block))
        elif kind == 5:
            index.append(np.arange(n) < 2)
        elif kind == 6 and not has_ellipsis:
            has_ellipsis = True
            index.append(Ellipsis)
            at += int(rng.integers(0, len(shape) - at + 1)) - 1
        else:
            break
        at += 1
    if rng.random() < 0.1:
        index.insert(int(rng.integers(len(index) + 1)), bool(rng.random() < 0.7))
    return tuple(index)


def random_cases(seed, count):
    rng = np.random.default_rng(seed)
    while count:
        shape = tuple(map(int, rng.integers(1, 6, rng.integers(0, 5))))
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        index = random_index(rng, shape)
        try:
            want = x[index]
        except IndexError:  # of masks of several sizes
            continue
        count -= 1
        yield x, index, want, rng.random(np.shape(want)).astype(np.float32)


@pytest.fixture(scope="module")
def cases():
    return list(random_cases(7, 60))


def test_parts_are_as_numpys(cases):
    @devrt.programs.jit.jit
    def parts(arrays):
        return [x[index] for x, (_, index, _, _) in zip(arrays, cases, strict=True)]

    for (_, index, want, _), part in zip(cases, parts([case[0] for case in cases]), strict=True):
        assert part.shape == np.shape(want), index
        np.testing.assert_array_equal(part, want)


def test_updates_are_as_numpys(cases):
    @devrt.programs.jit.jit
    def updated(arrays, values):
        pairs = zip(arrays, values, cases, strict=True)
        return [(x.at[i].add(y), x.at[i].set(-7)) for x, y, (_, i, _, _) in pairs]

    gives = updated([case[0] for case in cases], [case[3] for case in cases])
    for (x, index, _, values), (added, put) in zip(cases, gives, strict=True):
        want = x.copy()
        np.add.at(want, index, values)
        np.testing.assert_allclose(added, want, rtol=1e-6)
        want = x.copy()
        want[index] = -7
        np.testing.assert_array_equal(put, want)


@pytest.mark.parametrize(("x", "index", "want", "values"), [*random_cases(11, 12)])
def test_an_array_outside_of_a_trace_is_indexed_alike(x, index, want, values):
    placed = devrt.device_put(x)
    np.testing.assert_array_equal(placed[index], want)
    wanted = x.copy()
    np.add.at(wanted, index, values)
    np.testing.assert_allclose(placed.at[index].add(values), wanted, rtol=1e-6)


X = np.arange(10, dtype=np.float32)


def test_starts_are_operands_so_that_a_loop_compiles_once(monkeypatch):
    x = devrt.device_put(np.arange(77, dtype=np.float32))
    x[0], x[0:3]
    traces = []
    part_of = indexing.part_of
    monkeypatch.setattr(indexing, "part_of", lambda *given: traces.append(1) or part_of(*given))
    for i in range(1, 20):
        assert float(x[i]) == i
        assert x[i : i + 3].tolist() == [i, i + 1, i + 2]
    assert not traces


def test_positions_out_of_bounds():
    x = devrt.device_put(X)
    i = np.array([20, -20, 2])
    assert (float(x[20]), float(x[-20])) == (9, 0)
    assert [float(x[i]) for i in (0, 9, -1, -10)] == [0, 9, 9, 0]
    traced = devrt.jit(lambda x: (x[20], x[-20], x[-1]))(x)
    assert [float(each) for each in traced] == [9, 0, 9]
    assert x[i].tolist() == [9, 0, 2]
    assert x.at[i].get(mode="clip").tolist() == [9, 0, 2]
    assert x.at[i].get(mode="fill", fill_value=-1).tolist() == [-1, -1, 2]
    assert np.isnan(np.asarray(x.at[i].get(mode="fill"))).tolist() == [True, True, False]
    assert x.at[i].get(mode="wrap").tolist() == [0, 0, 2]
    assert float(x.at[20].get(mode="fill", fill_value=-1)) == -1
    assert x.at[i].set(5).tolist() == [0, 1, 5, *range(3, 10)]
    assert x.at[i].set(5, mode="clip").tolist() == [5, 1, 5, *range(3, 9), 5]
    assert x.at[20].set(5).tolist() == X.tolist()
    assert x.at[20].set(5, mode="clip").tolist() == [*range(9), 5]
    with pytest.raises(ValueError, match=r"no mode 'round'.*clip, drop"):
        x.at[0].set(1, mode="round")


def test_every_update():
    x, i = devrt.device_put(X[:4]), np.array([1, 1, 3])
    assert x.at[i].add(2).tolist() == [0, 5, 2, 5]
    assert x.at[i].subtract(2).tolist() == [0, -3, 2, 1]
    assert x.at[i].multiply(2).tolist() == [0, 4, 2, 6]
    assert x.at[i].divide(2).tolist() == [0, 0.25, 2, 1.5]
    assert x.at[i].power(2).tolist() == [0, 1, 2, 9]
    assert x.at[i].min(2).tolist() == [0, 1, 2, 2]
    assert x.at[i].max(2).tolist() == [0, 2, 2, 3]
    assert x.at[i].apply(lambda v: v + 1).tolist() == [0, 3, 2, 4]
    assert x.at[1:3].apply(lambda v: v * 10).tolist() == [0, 10, 20, 3]
    assert x.at[x > 1].set(0).tolist() == [0, 1, 0, 0]
    assert x.at[1:3].set([5, 6]).tolist() == [0, 5, 6, 3]
    unsigned = devrt.device_put(np.array([5, 6], np.uint8))
    assert unsigned.at[0].subtract(1).tolist() == [4, 6]
    assert dnp.arange(4).at[0].add(2.7).tolist() == [2, 1, 2, 3]


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        ((0, 0), InvalidIndexError, "1 dimensions, shape .10,., is indexed with 2"),
        (1.0, InvalidTypeError, "1.0 of type float is no index"),
        ("a", InvalidTypeError, "'a' of type str is no index"),
        ([1, 2], InvalidTypeError, "a list is no index.*devrt.numpy.array"),
        (np.ones(3), InvalidTypeError, "index of float64.*integers or truth values"),
        (np.ones(3, bool), InvalidIndexError, r"mask of shape \(3,\) does not fit"),
        (slice(None, None, 0), InvalidIndexError, "step is 0"),
        ((..., ...), InvalidIndexError, "one ellipsis, not 2"),
    ],
)
def test_what_is_no_index(index, error, words):
    x = devrt.device_put(X)
    for indexed in (lambda: x[index], lambda: x.at[index].set(0)):
        with pytest.raises(error, match=words) as caught:
            indexed()
        assert "test_indexing.py" in str(caught.value)


def test_values_that_do_not_fit():
    x = devrt.device_put(X)
    with pytest.raises(ValueError, match=r"values of shape \(3,\).*shape \(2,\)|\(3,\) and \(2,\)"):
        x.at[1:3].set(np.ones(3))
    with pytest.raises(InvalidTypeError, match=r"complex values.*float32"):
        x.at[1].set(1j)


def test_a_list_within_an_index_is_an_array():
    x = np.arange(12).reshape(3, 4)
    for index in [
        (slice(None), [0, 2]),
        (..., (3, 1)),
        ([0, 2], [1, 1]),
        ([[0], [2]], [1, 3]),
        (0, []),
        ([True, False, True], 1),
    ]:
        for f in (lambda a, i=index: a[i], devrt.jit(lambda a, i=index: a[i])):
            np.testing.assert_array_equal(f(dnp.asarray(x)), x[index])
    changed = x.copy()
    changed[:, [0, 2]] = -1
    np.testing.assert_array_equal(dnp.asarray(x).at[:, [0, 2]].set(-1), changed)
    with pytest.raises(InvalidTypeError, match=r"a list is no index"):
        dnp.asarray(x)[:, [[0], [1, 2]]]
    with pytest.raises(InvalidTypeError, match="index of float64"):
        dnp.asarray(x)[:, [0.5]]


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_a_mask_without_elements_selects_none(shape):
    x, mask = np.arange(60).reshape(3, 4, 5), np.zeros(shape, bool)
    np.testing.assert_array_equal(dnp.asarray(x)[mask], x[mask])


def test_no_positions_of_no_elements():
    none = np.zeros(0, np.int32)
    empty = dnp.zeros(0)
    assert empty[none].shape == (0,)
    assert dnp.zeros((0, 3))[none].shape == (0, 3)
    assert empty.at[none].set(empty).shape == (0,)
    assert empty.at[none].add(1.0).shape == (0,)
    np.testing.assert_array_equal(dnp.zeros(3).at[none].set(2.0), np.zeros(3))
    assert np.isnan(np.asarray(empty[np.zeros(2, np.int32)])).all()
    assert devrt.grad(lambda y: empty.at[none].set(y).sum())(empty).shape == (0,)


# What jax 0.10.2 gives for [0, 1, 2, 3, 4, 5].
UNWRAPPED = [
    (lambda at: at[[-1, 1],].set(9, wrap_negative_indices=False), [0, 9, 2, 3, 4, 5]),
    (lambda at: at[[-1, 1],].get(wrap_negative_indices=False), [0, 1]),
    (lambda at: at[[-1, 1],].get(wrap_negative_indices=False, mode="fill", fill_value=7), [7, 1]),
    (lambda at: at[-1].set(5, wrap_negative_indices=False), [0, 1, 2, 3, 4, 5]),
    (lambda at: at[-1].set(5, wrap_negative_indices=False, mode="clip"), [5, 1, 2, 3, 4, 5]),
    (
        lambda at: at[np.array([5, 1], np.uint8)].add(1, wrap_negative_indices=False),
        [0, 2, 2, 3, 4, 6],
    ),
]


@pytest.mark.parametrize(("update", "wanted"), UNWRAPPED)
def test_positions_below_0_may_be_out_of_bounds(update, wanted):
    x = dnp.arange(6)
    assert update(x.at).tolist() == wanted
    assert devrt.jit(lambda x: update(x.at))(x).tolist() == wanted


def test_traced_values_in_a_list_within_an_index_are_an_array():
    x = dnp.arange(12).reshape(3, 4)
    found = devrt.jit(lambda i, j: (x[:, [i, j]], x.at[[i, j], 0].set(-1)))(2, 0)
    assert found[0].tolist() == [[2, 0], [6, 4], [10, 8]]
    assert found[1].tolist() == [[-1, 1, 2, 3], [4, 5, 6, 7], [-1, 9, 10, 11]]
    with pytest.raises(InvalidTypeError, match="a list is no index"):
        devrt.jit(lambda i, j: x[[i, j]])(0, 1)


@pytest.mark.parametrize(
    "part", [lambda x, i: x[i : i + 2], lambda x, i: x[:i], lambda x, i: x[::i]]
)
def test_a_slice_with_a_traced_bound_says_what_to_call(part):
    with pytest.raises(InvalidIndexError, match=r"traced int32\[\].*lax.dynamic_slice_in_dim"):
        devrt.jit(part)(dnp.arange(6), 1)


@pytest.mark.parametrize("shape", [(0, 2), (1,), (3, 2), (64,), (130,), (2, 400_000)])
def test_iteration_gives_the_rows(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    rows = list(dnp.asarray(x))
    assert len(rows) == shape[0]
    for found, wanted in zip(rows, x, strict=True):
        assert (type(found), found.shape) == (devrt.Array, shape[1:])
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(TypeError, match="without dimensions"):
        iter(dnp.asarray(1.0))


def test_rows_come_several_from_one_program():
    x, calls = dnp.arange(128), []
    list(x)
    with pytest.MonkeyPatch.context() as patch:
        known = indexing._getitem
        patch.setattr(indexing, "_getitem", lambda *a: calls.append(1) or known(*a))
        assert [int(row) for row in x] == list(range(128))
    assert len(calls) == 8  # slices of 16 rows each


def test_iteration_over_several_devices_keeps_what_indexing_gives(cpu):
    mesh = devrt.make_mesh((2,), ("x",), devices=cpu[:2])
    x = devrt.device_put(
        np.arange(8.0).reshape(4, 2), devrt.NamedSharding(mesh, devrt.P(None, "x"))
    )
    assert [row.tolist() for row in x] == x.tolist()
    assert all(row.sharding.is_equivalent_to(x[0].sharding, 1) for row in x)

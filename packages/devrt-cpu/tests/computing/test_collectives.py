"""Collectives on eight devices, beside what NumPy computes of the parts."""

import numpy as np
import pytest

import devrt
from devrt import P, lax
from devrt.errors import InvalidArgumentError, UnboundAxisError, UnimplementedError
from devrt.tracing import compare, reshape

pytestmark = pytest.mark.engine

X = np.arange(8 * 24, dtype=np.float32).reshape(8, 24)


@pytest.fixture(scope="module")
def mesh(cpu):
    return devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)


def ran(mesh, function, x=X, in_specs=None, out_specs=None, **options):
    in_specs = P("x", "y") if in_specs is None else in_specs
    out_specs = P("x", "y") if out_specs is None else out_specs
    mapped = devrt.shard_map(
        function, mesh=mesh, in_specs=(in_specs,), out_specs=out_specs, **options
    )
    return devrt.device_get(mapped(x))


UNEVEN, EVEN = [[0], [1, 2, 3]], [[0, 1], [2, 3]]


def parts(x=X):
    """Return the parts as [x position][y position]."""
    return [np.split(row, 2, axis=1) for row in np.split(x, 4, axis=0)]


def whole(rows):
    return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)


def test_reductions(mesh):
    p = np.array(parts())

    def function(part):
        return {
            "x": lax.psum(part, "x"),
            "both": lax.psum(part, ("x", "y")),
            "mean": lax.pmean({"a": part}, "y")["a"],
            "largest": lax.pmax(part, "x"),
            "smallest": lax.pmin(part, ("y", "x")),
            "groups": lax.psum(part, "x", axis_index_groups=[[0, 3], [1, 2]]),
            "truths": lax.psum(compare("GT", part, 50), "x"),
        }

    specs = {"x": P(None, "y"), "both": P(), "mean": P("x"), "largest": P(None, "y")}
    specs |= {"smallest": P(), "groups": P("x", "y"), "truths": P(None, "y")}
    found = ran(mesh, function, out_specs=specs)
    np.testing.assert_array_equal(found["x"], np.concatenate(p.sum(0), axis=1))
    np.testing.assert_array_equal(found["both"], p.sum((0, 1)))
    np.testing.assert_array_equal(found["mean"], np.concatenate(p.mean(1), axis=0))
    np.testing.assert_array_equal(found["largest"], np.concatenate(p.max(0), axis=1))
    np.testing.assert_array_equal(found["smallest"], p.min((0, 1)))
    pairs = [p[0] + p[3], p[1] + p[2], p[1] + p[2], p[0] + p[3]]
    np.testing.assert_array_equal(found["groups"], whole(pairs))
    np.testing.assert_array_equal(found["truths"], np.concatenate((p > 50).sum(0), axis=1))
    assert found["truths"].dtype == np.int32


def test_reductions_over_groups_of_different_sizes(mesh):
    p = np.array(parts())

    def function(part):
        options = {"axis_index_groups": UNEVEN}
        return {
            "sum": lax.psum(part, "x", **options),
            "mean": lax.pmean(part, "x", **options),
            "largest": lax.pmax(part, "x", **options),
            "size": part * 0 + lax.psum(1, "x", **options),
        }

    found = ran(mesh, function, out_specs=P("x", "y"))
    for name, reduced in (("sum", p[1:].sum(0)), ("mean", p[1:].mean(0)), ("largest", p[3])):
        np.testing.assert_array_equal(found[name], whole([p[0], reduced, reduced, reduced]))
    sizes = [np.full_like(p[0], n) for n in (1, 3, 3, 3)]
    np.testing.assert_array_equal(found["size"], whole(sizes))


def test_sums_of_numbers_are_known_while_tracing(mesh):
    seen = {}

    def function(part):
        seen["size"] = lax.psum(1, "x"), lax.psum(1, ("x", "y")), lax.axis_size("y")
        seen["array"] = lax.psum(np.ones(2), "x")
        return part

    ran(mesh, function)
    assert seen["size"] == (4, 8, 2)
    assert all(type(size) is int for size in seen["size"])
    np.testing.assert_array_equal(seen["array"], [4.0, 4.0])


def test_gathering(mesh):
    p = parts()

    def function(part):
        return {
            "new": lax.all_gather(part, "x"),
            "tiled": lax.all_gather(part, "x", axis=1, tiled=True),
            "last": lax.all_gather(part, "y", axis=-1),
            "both": lax.all_gather(part, ("y", "x"), tiled=True),
            "same": lax.all_gather(part, "x", tiled=True, to="invarying"),
        }

    specs = {
        "same": P(None, "y"),
        "new": P(None, "x", "y"),
        "tiled": P("x", "y"),
        "last": P("x", "y"),
        "both": P("x", "y"),
    }
    found = ran(mesh, function, out_specs=specs)
    np.testing.assert_array_equal(found["new"][:, :2, :12], np.stack([row[0] for row in p]))
    np.testing.assert_array_equal(found["same"], X)
    joined = np.concatenate([row[1] for row in p], axis=1)
    np.testing.assert_array_equal(found["tiled"][2:4, 48:], joined)
    np.testing.assert_array_equal(found["last"][2:4, :12], np.stack(p[1], axis=-1))
    every = np.concatenate([row[i] for i in range(2) for row in p], axis=0)
    np.testing.assert_array_equal(found["both"][:16, :12], every)


def test_exchanging(mesh):
    p = parts()

    def function(part):
        four = reshape(part, (2, 4, 3))
        return {
            "before": lax.all_to_all(four, "x", 1, 0),
            "after": lax.all_to_all(four, "x", 1, 2),
            "same": lax.all_to_all(four, "x", 1, 1),
            "tiled": lax.all_to_all(part, "x", 1, 0, tiled=True),
            "swapped": lax.pswapaxes(four, "x", 1),
        }

    specs = dict.fromkeys(["before", "after", "same", "swapped"], P("x", "y"))
    found = ran(mesh, function, out_specs=specs | {"tiled": P("x", "y")})
    four = np.array([[part.reshape(2, 4, 3) for part in row] for row in p])  # x y 2 4 3
    # Device (i, j) has column i of each device's four.
    before = four.transpose(3, 1, 0, 2, 4)  # x y 4 2 3
    expected = np.concatenate([np.concatenate(list(row), axis=1) for row in before], axis=0)
    np.testing.assert_array_equal(found["before"], expected)
    after = before.transpose(0, 1, 3, 4, 2)
    expected = np.concatenate([np.concatenate(list(row), axis=1) for row in after], axis=0)
    np.testing.assert_array_equal(found["after"], expected)
    same = before.transpose(0, 1, 3, 2, 4)
    expected = np.concatenate([np.concatenate(list(row), axis=1) for row in same], axis=0)
    np.testing.assert_array_equal(found["same"], expected)
    np.testing.assert_array_equal(found["swapped"], expected)
    first = np.concatenate([row[0][:, :3] for row in p], axis=0)
    np.testing.assert_array_equal(found["tiled"][:8, :3], first)


def test_sending(mesh):
    p = parts()

    def function(part):
        return {
            "ring": lax.ppermute(part, "x", [(i, (i + 1) % 4) for i in range(4)]),
            "some": lax.ppermute(part, "x", [(0, 2)]),
            "both": lax.ppermute(part, ("x", "y"), [(1, 0), (0, 1)]),
            "shuffled": lax.pshuffle(part, "x", [3, 2, 1, 0]),
            "from": lax.pbroadcast(part, "x", 2),
        }

    specs = dict.fromkeys(["ring", "some", "both", "shuffled"], P("x", "y"))
    found = ran(mesh, function, out_specs=specs | {"from": P(None, "y")})
    zeros = [np.zeros_like(part) for part in p[0]]
    np.testing.assert_array_equal(found["ring"], whole([p[3], p[0], p[1], p[2]]))
    np.testing.assert_array_equal(found["some"], whole([zeros, zeros, p[0], zeros]))
    np.testing.assert_array_equal(found["both"], whole([p[0][::-1], zeros, zeros, zeros]))
    np.testing.assert_array_equal(found["shuffled"], whole(p[::-1]))
    np.testing.assert_array_equal(found["from"], np.concatenate(p[2], axis=1))


def test_sums_in_parts(mesh):
    p = np.array(parts())

    def function(part):
        return {
            "gone": lax.psum_scatter(reshape(part, (2, 4, 3)), "x", scatter_dimension=1),
            "tiled": lax.psum_scatter(part, "x", scatter_dimension=1, tiled=True),
        }

    found = ran(mesh, function, out_specs={"gone": P("x", "y"), "tiled": P("x", "y")})
    total = p.sum(0).reshape(2, 2, 4, 3)  # y 2 4 3
    gone = [np.concatenate(list(total[:, :, i]), axis=1) for i in range(4)]
    np.testing.assert_array_equal(found["gone"], np.concatenate(gone, axis=0))
    np.testing.assert_array_equal(found["tiled"], found["gone"])


def test_positions(mesh):
    def function(part):
        return {
            "x": part + lax.axis_index("x"),
            "both": part + lax.axis_index(("y", "x")),
        }

    specs = {"x": P("x", "y"), "both": P("x", "y")}
    found = ran(mesh, function, np.zeros((4, 2)), out_specs=specs)
    np.testing.assert_array_equal(found["x"], [[i, i] for i in range(4)])
    np.testing.assert_array_equal(found["both"], [[i, i + 4] for i in range(4)])


def test_positions_of_devices_in_another_order(cpu):
    backwards = devrt.Mesh(list(cpu)[::-1], ("d",))
    mapped = devrt.shard_map(
        lambda part: part + lax.axis_index("d"), mesh=backwards, in_specs=P("d"), out_specs=P("d")
    )
    forwards = devrt.Mesh(list(cpu), ("d",))
    placed = devrt.device_put(np.zeros(8), devrt.NamedSharding(forwards, P("d")))
    np.testing.assert_array_equal(mapped(np.zeros(8)), np.arange(8))
    np.testing.assert_array_equal(mapped(placed), np.arange(8))


def test_a_collective_in_a_loop(mesh):
    def function(part):
        return lax.fori_loop(0, 3, lambda _, total: total + lax.psum(total, "x"), part)

    p = np.array(parts())
    for _ in range(3):
        p = p + p.sum(0)
    np.testing.assert_array_equal(ran(mesh, function), whole(p))


def test_what_a_loop_carries_on_all_devices_stays_so(mesh):
    def function(part):
        def step(total, row):
            return total + lax.psum(row, ("x", "y")), None

        zeros = devrt.numpy.zeros(12, np.float32)
        return lax.scan(step, zeros, part)[0]

    expected = np.array(parts()).sum((0, 1, 2))
    np.testing.assert_array_equal(ran(mesh, function, out_specs=P()), expected)


def test_a_mesh_of_one_device(cpu):
    one = devrt.Mesh([cpu[3]], ("x",))

    def function(part):
        gathered = lax.all_gather(part, "x", tiled=True) + lax.axis_index("x")
        sent = lax.ppermute(part, "x", [(0, 0)]), lax.ppermute(part, "x", [])
        return lax.psum(part, "x"), gathered, sent

    found = devrt.shard_map(function, mesh=one, in_specs=P("x"), out_specs=(P(), P("x"), P("x")))(X)
    assert found[0].devices() == {cpu[3]}
    np.testing.assert_array_equal(found[0], X)
    np.testing.assert_array_equal(found[1], X)
    np.testing.assert_array_equal(found[2][0], X)
    np.testing.assert_array_equal(found[2][1], X * 0)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda a: lax.psum(a, "z"), r"binds axis 'z'.*axes here are 'x', 'y'"),
        (lambda a: lax.psum(a, ("x", "x")), r"name one axis twice.*axes here are 'x', 'y'"),
        (lambda a: lax.all_to_all(a, "x", 0, 0), r"dimension 0 .* size 2, which is not the 4 dev"),
        (lambda a: lax.all_to_all(a, "x", 0, 1, tiled=True), "does not divide into the 4"),
        (lambda a: lax.psum_scatter(a, "x", tiled=True), "does not divide into the 4"),
        (lambda a: lax.all_gather(a, "x", axis=4), "dimension 4 of a value of 3"),
        (
            lambda a: lax.ppermute(a, "x", [(0, 1), (2, 1)]),
            "destination 1 of perm.* more than once",
        ),
        (lambda a: lax.ppermute(a, "x", [(4, 1)]), "source 4 is not within the 4"),
        (lambda a: lax.pbroadcast(a, "x", 4), "source 4 is not within the 4"),
        (lambda a: lax.psum(a, "x", axis_index_groups=[[0, 1]]), "positions 0 to 3"),
        (lambda a: lax.all_gather(a, "x", axis_index_groups=UNEVEN), "of different sizes"),
        (lambda a: lax.all_gather(a, "x", to="all"), "to='all' is no result"),
        (lambda a: lax.all_gather(a, "x", to="invarying", axis_index_groups=EVEN), "no result"),
    ],
)
def test_what_does_not_fit_is_refused(mesh, function, match):
    with pytest.raises(InvalidArgumentError, match=match) as caught:
        ran(mesh, function)
    assert __file__ in str(caught.value)


def test_what_is_not_there_is_refused(mesh):
    with pytest.raises(UnimplementedError, match="unreduced"):
        ran(mesh, lambda a: lax.pcast(a, "x", to="unreduced"))


def test_no_axis_is_bound_outside():
    with pytest.raises(UnboundAxisError, match="there are none here"):
        lax.axis_index("x")
    with pytest.raises(NameError, match="there are none here"):
        devrt.jit(lambda x: lax.psum(x, "x"))(1.0)

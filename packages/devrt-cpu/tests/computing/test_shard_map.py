"""Functions that run on each device of a mesh: eager and traced, in part, nested, and refused."""

import functools
import gc
import weakref

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P, lax
from devrt import numpy as jnp
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.experimental.shard_map import shard_map as experimental

pytestmark = pytest.mark.engine

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def mesh(cpu):
    return devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)


def test_arguments_are_divided_and_results_joined(mesh):
    shapes = []

    def function(tree, scale):
        shapes.append((tree["a"].shape, tree["b"][0].shape, scale.shape))
        return {"sum": lax.psum(tree["a"], "x"), "same": (tree["b"][0] * scale,)}

    mapped = devrt.shard_map(
        function,
        mesh,
        ({"a": P("x", "y"), "b": P(None, "x")}, P()),
        {"sum": P(None, "y"), "same": P(None, "x")},
    )
    found = mapped({"a": X, "b": [X]}, np.float32(2))
    assert shapes == [((2, 2), (8, 1), ())]
    np.testing.assert_array_equal(found["sum"], X.reshape(4, 2, 4).sum(0))
    np.testing.assert_array_equal(found["same"][0], X * 2)
    assert found["sum"].sharding == NamedSharding(mesh, P(None, "y"))
    assert found["same"][0].committed


def test_results_lie_by_the_specs_that_are_given(cpu):
    mesh = devrt.make_mesh((1, 8), ("one", "many"), devices=cpu)
    specs = P("one", None), P(("many", "one"), None), P()
    options = {"mesh": mesh, "in_specs": P(None, None), "out_specs": specs}
    for wrap in (lambda function: function, devrt.jit):
        found = wrap(devrt.shard_map(lambda x: (x, x, x), **options))(X)
        assert [each.sharding for each in found] == [NamedSharding(mesh, spec) for spec in specs]


def test_it_is_one_function_by_all_its_names(mesh):
    options = {"mesh": mesh, "in_specs": P("x"), "out_specs": P("x")}

    @devrt.shard_map(**options)
    def decorated(part):
        return part + 1

    @functools.partial(devrt.shard_map, **options, check_rep=False)
    def partial(part):
        return part + 1

    assert decorated.__name__ == "decorated"
    assert devrt.smap is devrt.shard_map is experimental
    for mapped in (decorated, partial, devrt.smap(lambda part: part + 1, **options)):
        np.testing.assert_array_equal(mapped(X), X + 1)


def test_in_and_outside_of_jit_and_closures_over_anything(mesh):
    device_array = devrt.device_put(np.float32(3))
    sharded = devrt.device_put(X, NamedSharding(mesh, P("x", "y")))
    large = np.ones((8, 64), np.float32)

    def function(traced):
        def inner(part):
            closed = traced.sum() + device_array + sharded.sum() + jnp.sum(large)
            return part * closed

        return devrt.shard_map(inner, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(traced)

    expected = X * (X.sum() + 3 + X.sum() + 512)
    np.testing.assert_allclose(devrt.jit(function)(X), expected)
    text = devrt.jit(function).lower(X).as_text()
    assert "sdy.manual_computation" in text

    mapped = devrt.shard_map(
        lambda part: part + device_array, mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    np.testing.assert_array_equal(mapped(X), X + 3)
    np.testing.assert_array_equal(devrt.jit(lambda x: mapped(x) * 2)(X), (X + 3) * 2)


def test_a_mesh_that_is_entered(mesh):
    mapped = devrt.shard_map(lambda part: part * 2, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(InvalidArgumentError, match=r"no mesh.*devrt\.set_mesh"):
        mapped(X)
    with mesh:
        np.testing.assert_array_equal(mapped(X), X * 2)
    with devrt.set_mesh(mesh):
        assert devrt.sharding.get_mesh() is mesh
        np.testing.assert_array_equal(mapped(X), X * 2)
    assert devrt.sharding.get_mesh() is None
    devrt.set_mesh(mesh).__exit__(None, None, None)
    with devrt.sharding.use_mesh(mesh):
        np.testing.assert_array_equal(mapped(X), X * 2)
    with pytest.raises(InvalidTypeError, match="set_mesh takes a Mesh"):
        devrt.set_mesh("x")


def test_a_part_of_the_axes(mesh):
    placed = devrt.device_put(X, NamedSharding(mesh, P("x", "y")))
    seen = []

    def function(part):
        seen.append(part.shape)
        return part + lax.axis_index("x"), lax.psum(part, "x")

    options = {"mesh": mesh, "in_specs": P("x"), "out_specs": (P("x"), P())}
    for mapped in (
        devrt.shard_map(function, **options, axis_names={"x"}),
        devrt.shard_map(function, **options, auto={"y"}),
    ):
        added, total = devrt.jit(mapped)(placed)
        np.testing.assert_array_equal(added, X + np.repeat(np.arange(4), 2)[:, None])
        np.testing.assert_array_equal(total, X.reshape(4, 2, 4).sum(0))
        assert added.sharding.spec == P("x", "y")
    assert seen == [(2, 4)] * 2


def test_one_in_another(mesh):
    def inner(part):
        return lax.psum(part, ("x", "y")) + lax.axis_index("x") * 10 + lax.axis_index("y")

    def outer(part):
        assert part.shape == (2, 4)
        total = devrt.shard_map(inner, in_specs=P(None, "y"), out_specs=P(None, "y"))(part)
        return total + lax.psum(part, "x")

    mapped = devrt.shard_map(outer, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    rows = X.reshape(4, 2, 4)
    total = rows.sum(0)
    both = total[:, :2] + total[:, 2:]
    expected = [
        np.concatenate([both + i * 10, both + i * 10 + 1], axis=1) + total for i in range(4)
    ]
    np.testing.assert_array_equal(mapped(X), np.concatenate(expected))


def test_arguments_that_are_no_arrays_are_passed_as_they_are(mesh):
    def function(part, name, power):
        return part**power if name == "power" else part

    mapped = devrt.shard_map(function, mesh=mesh, in_specs=(P("x"), None, None), out_specs=P("x"))
    np.testing.assert_array_equal(mapped(X, "other", 2), X)


def test_arguments_move_to_the_devices(mesh, cpu):
    mapped = devrt.shard_map(lambda part: part + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    there = devrt.device_put(X, NamedSharding(mesh, P(None, "y")))
    uncommitted = jnp.asarray(X)
    for x in (X, there, uncommitted):
        np.testing.assert_array_equal(mapped(x), X + 1)
    with pytest.raises(InvalidArgumentError, match="different devices"):
        mapped(devrt.device_put(X, cpu[0]))


def test_the_check_of_replication_can_be_left_out(mesh):
    options = {"mesh": mesh, "in_specs": P("x"), "out_specs": P()}
    for name in ("check_rep", "check_vma"):
        found = devrt.shard_map(
            lambda part: lax.all_gather(part, "x", tiled=True), **options, **{name: False}
        )(X)
        np.testing.assert_array_equal(found, X)
    with pytest.raises(InvalidArgumentError, match="two names for one"):
        devrt.shard_map(lambda x: x, **options, check_rep=True, check_vma=False)


def test_a_program_is_made_once(mesh):
    calls = []

    def function(part):
        calls.append(part.shape)
        return part

    for _ in range(3):
        devrt.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    assert len(calls) == 1
    alive = weakref.ref(function)
    del function
    gc.collect()
    assert alive() is None


def test_gradients_within_and_of_it(mesh):
    """The numbers are jax 0.10.2's; what is not checked has each device's own gradient."""
    x = X / 10
    w = np.arange(4, dtype=np.float32)

    def step(a, w):
        gradient = devrt.grad(lambda w: jnp.mean((a @ w) ** 2))(w)
        return w - 0.1 * lax.pmean(gradient, "x")

    def of_sum(a):
        return devrt.grad(lambda b: lax.psum(jnp.sum(b**2), "x"))(a)

    own = w - 0.1 * (2 * (x @ w)[:, None] * x).mean(0)
    every = {True: [-15.008, -14.792, -14.576, -14.36], False: own}
    for is_checked, factor in ((True, 1), (False, 4)):
        options = {"mesh": mesh, "check_vma": is_checked}
        found = devrt.shard_map(step, in_specs=(P("x"), P()), out_specs=P(), **options)(x, w)
        np.testing.assert_allclose(found, every[is_checked], rtol=1e-4)
        found = devrt.shard_map(of_sum, in_specs=P("x"), out_specs=P("x"), **options)(x)
        np.testing.assert_allclose(found, 2 * x * factor, rtol=1e-5)

        total = devrt.shard_map(
            lambda a, w: lax.psum(jnp.sum(jnp.sin(a * w)), "x"),
            in_specs=(P("x"), P()),
            out_specs=P(),
            **options,
        )
        np.testing.assert_allclose(devrt.grad(total)(x, w), np.cos(x * w) * w, rtol=1e-5)
        by_w = devrt.grad(lambda w, total=total: total(x, w))(w)
        np.testing.assert_allclose(by_w, (np.cos(x * w) * x).sum(0), rtol=1e-4)


def test_a_mesh_without_devices_is_that_of_the_arguments(mesh):
    options = {"mesh": mesh.abstract_mesh, "in_specs": P("x"), "out_specs": P("x")}
    mapped = devrt.jit(devrt.shard_map(lambda part: part * 2, **options))
    placed = devrt.device_put(X, NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(mapped(placed), X * 2)
    with pytest.raises(InvalidArgumentError, match="no argument lies on a mesh with the axes"):
        mapped(X)


def test_nothing_in_and_nothing_out(mesh):
    options = {"mesh": mesh, "in_specs": (), "out_specs": P("x")}
    numbers = devrt.shard_map(lambda: lax.axis_index("x")[None], **options)()
    np.testing.assert_array_equal(numbers, np.arange(4))
    assert devrt.shard_map(lambda part: {}, mesh=mesh, in_specs=P("x"), out_specs=P())(X) == {}


@pytest.mark.parametrize(
    ("function", "specs", "out_specs", "match"),
    [
        (lambda a: a, P("z"), P(), r"argument a.*axis 'z', but the mesh has the axes 'x', 'y'"),
        (lambda a: a, P("x", "x"), P(), "argument a.*axis 'x' more than once"),
        (lambda a: a, P("x", None, "y"), P(), r"a of .* of 2 dimensions, .* has 3 entries"),
        (lambda a: a, P(None, ("x", "y")), P(), r"dimension 1 has size 4, .* into 8 .*'y' \(size"),
        (lambda a: a, P("x"), P("z"), "result of .*axis 'z'"),
        (lambda a: a.sum(), P("x"), P("x"), r"result of .* of 0 dimensions, .*x\[None\]"),
        (lambda a: {"q": a, "r": a}, P("x"), P(), r"at \['q'\].*'x'.*at \['r'\].*'x'.*psum"),
        (lambda a: a, P(("x", "y")), P("x"), r"may differ along 'y'"),
        (lambda a: lax.all_gather(a, "x"), P("x"), P(), "may differ along 'x'"),
        (lambda a: a, "x", P(), "which is no PartitionSpec"),
        (lambda a: a, (P("x"), P()), P(), r"shard_map in_specs"),
        (lambda a: (a, a), P("x"), (P("x"),), "shard_map out_specs"),
        (lambda a: a, P(P.UNCONSTRAINED), P(), "left to the compiler"),
    ],
)
def test_what_does_not_fit_is_refused(mesh, function, specs, out_specs, match):
    in_specs = specs if isinstance(specs, tuple) and len(specs) == 2 else (specs,)
    mapped = devrt.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    with pytest.raises(InvalidArgumentError, match=f"(?s){match}"):
        mapped(X)


def test_the_path_of_an_argument_is_named(mesh):
    def step(params, *rest):
        return params

    mapped = devrt.shard_map(step, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(InvalidArgumentError, match=r"argument params\['w'\]\[1\] of step"):
        mapped({"w": [X, X[:3]]})
    with pytest.raises(InvalidArgumentError, match=r"argument args\[1\] of step"):
        mapped(X, X[:3])


def test_meshes_that_do_not_go_together_are_refused(mesh, cpu):
    other = devrt.make_mesh((8,), ("d",), devices=cpu)
    inner = devrt.shard_map(lambda x: x, mesh=other, in_specs=P(), out_specs=P())
    again = devrt.shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=P())
    for nested, match in ((inner, "must be over one mesh"), (again, "no axis left")):
        with pytest.raises(InvalidArgumentError, match=match):
            devrt.shard_map(nested, mesh=mesh, in_specs=P(), out_specs=P())(X)
    taken = devrt.shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=P(), axis_names={"x"})
    with pytest.raises(InvalidArgumentError, match="binds 'x', which one around it binds"):
        devrt.shard_map(taken, mesh=mesh, in_specs=P(), out_specs=P(), axis_names={"x"})(X)
    with pytest.raises(InvalidArgumentError, match=r"names 'q'.*axes of the mesh are 'x', 'y'"):
        devrt.shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=P(), axis_names={"q"})(X)
    with pytest.raises(InvalidArgumentError, match=r"names 'y'.*axes here are 'x'"):
        devrt.shard_map(lambda x: x, mesh=mesh, in_specs=P("y"), out_specs=P(), axis_names={"x"})(X)
    with pytest.raises(InvalidTypeError, match="needs out_specs"):
        devrt.shard_map(lambda x: x, mesh=mesh, in_specs=P())
    with pytest.raises(InvalidTypeError, match="takes a function"):
        devrt.shard_map(3, mesh=mesh, in_specs=P(), out_specs=P())

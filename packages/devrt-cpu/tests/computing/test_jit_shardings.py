"""Where traced functions run, how they take arguments and give results, and what is donated."""

import numpy as np
import pytest

import devrt
from devrt import Mesh, NamedSharding, P, SingleDeviceSharding, jit
from devrt.errors import (
    DeletedError,
    DevrtWarning,
    InvalidArgumentError,
    InvalidTypeError,
)
from devrt.layout import Format, Layout
from devrt.sharding import GSPMDSharding
from devrt.tracing import reshape

pytestmark = pytest.mark.engine

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture
def mesh(cpu):
    return Mesh(np.array(cpu).reshape(4, 2), ("x", "y"))


@pytest.fixture
def divided(mesh):
    return devrt.device_put(X, NamedSharding(mesh, P("x", "y")))


def plus_one(x):
    return x + 1


def test_computation_follows_the_data(cpu, divided):
    made = jit(plus_one)(divided)
    assert made.sharding == divided.sharding
    assert made.committed
    np.testing.assert_array_equal(made, X + 1)
    there = jit(plus_one)(devrt.device_put(X, cpu[3]))
    assert there.devices() == {cpu[3]}
    assert there.committed


def test_results_are_named_as_the_arguments_that_lie_like_them(cpu):
    """An axis of one device may be named or not; ``==`` of shardings tells the difference."""
    mesh = Mesh(np.array(cpu).reshape(1, 8, 1), ("x", "y", "z"))
    x = devrt.device_put(X, NamedSharding(mesh, P("y", "x")))
    assert jit(plus_one)(x).sharding == x.sharding
    alone = devrt.device_put(X, NamedSharding(Mesh(cpu[:1], ("x",)), P("x")))
    assert (alone + 1).sharding == alone.sharding
    pinned = jit(plus_one, out_shardings=NamedSharding(mesh, P("y")))(x)
    assert pinned.sharding.spec == P("y")


def test_uncommitted_arrays_go_to_the_default_device(cpu):
    x = devrt.device_put(X)
    made = jit(plus_one)(x)
    assert made.devices() == {cpu[0]}
    assert not made.committed
    with devrt.default_device(cpu[2]):
        moved = jit(plus_one)(x)
    assert moved.devices() == {cpu[2]}
    assert not moved.committed
    # It joins what was placed on request.
    assert jit(lambda a, b: a + b)(moved, devrt.device_put(X, cpu[5])).devices() == {cpu[5]}


def test_in_shardings_place_what_was_not_placed_on_request(mesh):
    wanted = NamedSharding(mesh, P("y"))
    f = jit(lambda tree, n: tree["a"] * n, in_shardings=({"a": wanted}, None))
    compiled = f.lower({"a": X}, 2.0).compile()
    assert compiled.input_shardings[0][0]["a"] == wanted
    np.testing.assert_array_equal(f({"a": X}, 2.0), X * 2)
    assert jit(plus_one, in_shardings=wanted)(X).sharding.spec == P("y")


def test_out_shardings_decide_how_results_lie(mesh, divided):
    wanted = NamedSharding(mesh, P(None, "x"))
    made = jit(lambda x: {"a": x + 1, "b": (x, x)}, out_shardings={"a": None, "b": wanted})(divided)
    assert made["a"].sharding == divided.sharding
    assert [x.sharding for x in made["b"]] == [wanted, wanted]
    np.testing.assert_array_equal(made["b"][0], X)
    # One that names devices alone decides where the function runs.
    made = jit(plus_one, out_shardings=wanted)(X)
    assert made.sharding == wanted
    assert made.committed


def test_shardings_within_a_trace_are_constraints(mesh, divided):
    wanted = NamedSharding(mesh, P("y"))
    inner = jit(
        lambda x: {"a": x + 1, "b": x}, in_shardings=wanted, out_shardings={"a": None, "b": P()}
    )
    outer = jit(lambda x: inner(x)["b"])
    with mesh:
        text = outer.lower(divided).as_text()
        made = outer(divided)
    assert text.count("sdy.sharding_constraint") == 2
    assert made.sharding.is_fully_replicated
    np.testing.assert_array_equal(made, X)
    with pytest.raises(InvalidArgumentError, match=r"in_shardings, float32.*does not fit"):
        jit(lambda x: jit(plus_one, in_shardings=wanted)(x[:3]))(X)


def test_a_spec_alone_is_over_the_mesh_that_is_entered(mesh):
    f = jit(plus_one, in_shardings=P("x"), out_shardings=P("y"))
    with mesh:
        assert f(X).sharding == NamedSharding(mesh, P("y"))
    with pytest.raises(InvalidArgumentError, match=r"in_shardings has the spec .* without a mesh"):
        f(X)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (P("x", "y", None), r"argument x of plus_one, float32\[8,4\], does not fit"),
        (P(None, ("x", "y")), r"argument x of plus_one.*size 4, which does not divide into 8"),
    ],
)
def test_a_sharding_that_does_not_fit_names_the_argument(mesh, spec, words):
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        jit(plus_one, in_shardings=NamedSharding(mesh, spec))(X)
    assert __file__ in str(caught.value)


def test_a_result_that_does_not_fit_its_sharding_is_refused(mesh):
    wanted = NamedSharding(mesh, P(None, None, "x"))
    with pytest.raises(InvalidArgumentError, match="a result of plus_one"):
        jit(plus_one, out_shardings=wanted)(X)


def test_a_committed_array_against_in_shardings_names_both(cpu, mesh, divided):
    with pytest.raises(InvalidArgumentError) as caught:
        jit(plus_one, in_shardings=NamedSharding(mesh, P("y")))(divided)
    assert "PartitionSpec('x', 'y')" in str(caught.value)
    assert "PartitionSpec('y',)" in str(caught.value)
    with pytest.raises(InvalidArgumentError, match=r"argument x is on cpu:7, and its in_shardings"):
        jit(plus_one, in_shardings=NamedSharding(mesh, P("y")))(devrt.device_put(X, cpu[7]))


def test_trees_of_shardings_that_do_not_fit_are_refused(mesh):
    sharding = NamedSharding(mesh, P())
    with pytest.raises(InvalidArgumentError, match="in_shardings"):
        jit(plus_one, in_shardings=(sharding, sharding))(X)
    with pytest.raises(InvalidArgumentError, match="out_shardings"):
        jit(plus_one, out_shardings=(sharding, sharding))(X)
    with pytest.raises(InvalidTypeError, match=r"in_shardings\['a'\] is 'x' of type str"):
        jit(plus_one, in_shardings={"a": "x"})
    with pytest.raises(InvalidArgumentError, match="given by name"):
        jit(plus_one, in_shardings=sharding)(x=X)


def test_a_result_that_no_axes_can_name_is_compiled_again(cpu):
    line = Mesh(cpu, ("i",))
    x = devrt.device_put(np.arange(32.0, dtype=np.float32), NamedSharding(line, P("i")))
    for shape, spec in [((4, 8), P()), ((2, 2, 8), P()), ((8, 4), P("i")), ((16, 2), P("i"))]:
        made = jit(lambda x, shape=shape: reshape(x, shape) + 1)(x)
        assert made.sharding == NamedSharding(line, spec), shape
        np.testing.assert_array_equal(made, np.arange(32).reshape(shape) + 1)


def test_several_meshes_in_one_program(cpu, mesh):
    backwards = Mesh(np.array(cpu)[::-1].reshape(2, 4), ("a", "b"))
    x = devrt.device_put(X, NamedSharding(mesh, P("x")))
    y = devrt.device_put(X, NamedSharding(backwards, P("b")))
    first, second = jit(lambda x, y: (x + 1, y * 2))(x, y)
    np.testing.assert_array_equal(first, X + 1)
    np.testing.assert_array_equal(second, X * 2)
    assert first.sharding == x.sharding
    assert second.sharding.is_equivalent_to(y.sharding, 2)


def test_shardings_without_a_mesh(cpu, mesh):
    given = GSPMDSharding(cpu, NamedSharding(mesh, P("x", "y")).op_sharding(2))
    made = jit(plus_one)(devrt.device_put(X, given))
    assert made.sharding.is_equivalent_to(given, 2)
    np.testing.assert_array_equal(made, X + 1)


def test_a_mesh_of_one_device(cpu):
    alone = Mesh(cpu[2:3], ("x",))
    made = jit(plus_one)(devrt.device_put(X, NamedSharding(alone, P("x"))))
    assert made.sharding == NamedSharding(alone, P("x"))
    np.testing.assert_array_equal(made, X + 1)


def test_arrays_that_are_closed_over_are_moved_to_the_program(cpu, divided):
    near = devrt.device_put(X, cpu[4])
    made = jit(lambda x: x + near)(divided)
    assert made.sharding.device_set == set(cpu)
    np.testing.assert_array_equal(made, X + X)
    # They decide where nothing else does.
    assert jit(lambda: near + 1)().devices() == {cpu[4]}
    assert jit(lambda x: divided + x)(X).sharding == divided.sharding


def test_memory_kinds(cpu, mesh):
    pinned = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    made = jit(plus_one, out_shardings=pinned)(X)
    assert made.sharding == pinned
    back = jit(plus_one)(made)
    assert back.sharding.memory_kind == cpu[0].default_memory().kind
    np.testing.assert_array_equal(back, X + 2)
    one = SingleDeviceSharding(cpu[1], memory_kind="pinned_host")
    assert jit(plus_one, out_shardings=one)(X).sharding == one


def test_layouts(cpu):
    columns = Format(Layout((0, 1)), SingleDeviceSharding(cpu[0]))
    made = jit(plus_one, out_shardings=columns)(X)
    assert made.format == columns
    # The CPU's programs take rows.
    back = jit(plus_one, in_shardings=Format(Layout.AUTO, columns.sharding))(made)
    assert back.format.layout == Layout((1, 0))
    np.testing.assert_array_equal(back, X + 2)


def test_a_device_or_a_backend_takes_everything(cpu, divided):
    made = jit(plus_one, device=cpu[6])(devrt.device_put(X, cpu[1]))
    assert made.devices() == {cpu[6]}
    assert made.committed
    assert jit(plus_one, backend="cpu")(divided).devices() == {cpu[0]}
    with pytest.raises(InvalidArgumentError, match="not both"):
        jit(plus_one, device=cpu[0], out_shardings=divided.sharding)
    with pytest.raises(InvalidTypeError, match="jit's device"):
        jit(plus_one, device=3)(X)


# -- donation ---------------------------------------------------------------------------------


def test_donated_arguments_are_gone_afterwards(cpu, divided):
    f = jit(lambda w, x: w + x, donate_argnums=0)
    for array in (devrt.device_put(X, cpu[0]), devrt.device_put(X, divided.sharding)):
        x = devrt.device_put(X, array.sharding)
        np.testing.assert_array_equal(f(array, x), X + X)
        assert array.is_deleted()
        assert not x.is_deleted()
        with pytest.raises(DeletedError, match=rf"argument w of <lambda> at {__file__}.* donated"):
            f(array, x)
        with pytest.raises(DeletedError):
            array + 1


def test_donated_arguments_that_are_moved_are_gone_too(mesh):
    x, kept = devrt.device_put(X), devrt.device_put(X)
    everywhere = NamedSharding(mesh, P())
    f = jit(lambda x, y: x * y, in_shardings=everywhere, donate_argnums=0)
    np.testing.assert_array_equal(f(x, kept), X * X)
    assert x.is_deleted()
    assert not kept.is_deleted()


def test_donation_by_name_and_in_trees(cpu):
    f = jit(lambda params, x: {"w": params["w"] - x}, donate_argnames="params")
    params = {"w": devrt.device_put(X, cpu[0])}
    f(params=params, x=1.0)
    assert params["w"].is_deleted()
    with pytest.raises(DeletedError, match=r"argument params\['w'\]"):
        f(params=params, x=1.0)


def test_a_donated_argument_that_no_result_replaces_is_kept(cpu):
    x = devrt.device_put(X, cpu[0])
    f = jit(lambda x: reshape(x, (32,)) * 2, donate_argnums=0)
    with pytest.warns(DevrtWarning, match=r"no use for the memory.*x of float32\[8,4\]"):
        f(x)
    assert not x.is_deleted()


def test_an_array_that_is_passed_twice_cannot_be_donated(cpu):
    x = devrt.device_put(X, cpu[0])
    with pytest.raises(InvalidArgumentError, match="one array as a and as b"):
        jit(lambda a, b: a + b, donate_argnums=0)(x, x)
    assert not x.is_deleted()


def test_host_values_are_not_touched_by_donation(cpu):
    host = X.copy()
    np.testing.assert_array_equal(jit(plus_one, donate_argnums=0)(host), X + 1)
    np.testing.assert_array_equal(host, X)

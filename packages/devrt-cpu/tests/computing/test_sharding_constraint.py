"""Values that lie as is requested, in traced functions and outside of them."""

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.sharding import SingleDeviceSharding

pytestmark = pytest.mark.engine

X = np.arange(32, dtype=np.float32).reshape(8, 4)
constrained = devrt.with_sharding_constraint


@pytest.fixture(scope="module")
def mesh(cpu):
    return devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)


def test_in_a_traced_function(mesh):
    def function(x):
        tree = {"a": x + 1, "b": [x * 2, x]}
        tree = constrained(tree, {"a": NamedSharding(mesh, P("x")), "b": P("y", "x")})
        return {"a": tree["a"] * 2, "b": tree["b"]}

    with mesh:
        found = devrt.jit(function)(X)
    np.testing.assert_array_equal(found["a"], (X + 1) * 2)
    np.testing.assert_array_equal(found["b"][0], X * 2)
    assert found["a"].sharding.spec == P("x")
    assert found["b"][0].sharding.spec == P("y", "x")


def test_the_mesh_that_is_entered_decides_which_program_runs(cpu):
    function = devrt.jit(lambda x: constrained(x * 2, P("d")))
    for n in (2, 4):
        with devrt.set_mesh(devrt.Mesh(list(cpu[:n]), ("d",))):
            assert len(function(X).devices()) == n


def test_dimensions_that_are_left_to_the_compiler(mesh):
    placed = devrt.device_put(X, NamedSharding(mesh, P("x", "y")))
    spec = P(None, P.UNCONSTRAINED)
    found = devrt.jit(lambda x: constrained(x + 1, NamedSharding(mesh, spec)))(placed)
    assert found.sharding.spec == P(None, "y")
    outside = constrained(placed, NamedSharding(mesh, spec))
    assert outside.sharding.spec == P(None, "y")
    np.testing.assert_array_equal(outside, X)


def test_outside_of_a_trace_it_places(mesh, cpu):
    found = constrained([X, X], NamedSharding(mesh, P("x")))
    assert [each.sharding.spec for each in found] == [P("x")] * 2
    with mesh:
        assert devrt.lax.with_sharding_constraint(X, P("y")).sharding.spec == P("y")
    assert constrained(X, devrt.SingleDeviceSharding(cpu[2])).devices() == {cpu[2]}
    assert constrained(X, None) is X


def test_one_device(cpu):
    there = devrt.device_put(X, cpu[2])
    found = devrt.jit(lambda x: constrained(x + 1, devrt.SingleDeviceSharding(cpu[2])))(there)
    np.testing.assert_array_equal(found, X + 1)
    with pytest.raises(InvalidArgumentError, match="different devices"):
        devrt.jit(lambda x: constrained(x, devrt.SingleDeviceSharding(cpu[1])))(there)


def test_axes_that_a_shard_map_leaves_to_the_compiler(mesh):
    def function(part):
        return constrained(part * 2, P(None, "y"))

    options = {"mesh": mesh, "in_specs": P("x"), "out_specs": P("x"), "axis_names": {"x"}}
    found = devrt.jit(devrt.shard_map(function, **options))(X)
    np.testing.assert_array_equal(found, X * 2)
    assert found.sharding.spec == P("x", "y")
    bound = devrt.shard_map(lambda part: constrained(part, P("x")), **options)
    with pytest.raises(InvalidArgumentError, match="'x', which the shard_map around it binds"):
        bound(X)


def test_kinds_of_memory(mesh):
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    assert constrained(X, host).sharding == host
    with pytest.raises(UnimplementedError, match="jit's out_shardings"):
        devrt.jit(lambda x: constrained(x, host))(X)
    one = SingleDeviceSharding(host.mesh.devices.flat[0], memory_kind="pinned_host")
    for target in (host, one, "pinned_host"):
        with pytest.raises(UnimplementedError, match=r"device_put got .*default memory"):
            devrt.jit(lambda x, to=target: devrt.device_put(x, to))(X)


@pytest.mark.parametrize("wrap", [devrt.jit, lambda function: function])
def test_what_does_not_fit_is_refused(mesh, wrap):
    def refused(error, match, tree, shardings):
        with pytest.raises(error, match=match):
            wrap(lambda x: constrained(x, shardings))(tree)

    if wrap is not devrt.jit:
        match = r"the value at \['a'\] .*size 7"
        refused(InvalidArgumentError, match, {"a": X[:7]}, named(mesh, "x"))
    refused(InvalidArgumentError, "3 entries", X, named(mesh, None, None, "x"))
    refused(InvalidArgumentError, "no mesh is entered", X, P("x"))
    refused(InvalidArgumentError, "with_sharding_constraint shardings", [X], {"a": P()})
    refused(InvalidTypeError, "takes a sharding", X, "x")
    positional = devrt.sharding.GSPMDSharding.get_replicated(mesh.device_list)
    refused(UnimplementedError, "over meshes", X, positional)


def test_within_a_program_dimensions_need_not_divide(mesh):
    @devrt.jit
    def function(x):
        padded = constrained(x + 1, named(mesh, "x", "y"))
        return padded, padded.sum(0), padded[::-1] * 2

    found, total, turned = function(X[:7, :3])
    np.testing.assert_array_equal(found, X[:7, :3] + 1)
    np.testing.assert_array_equal(total, (X[:7, :3] + 1).sum(0))
    np.testing.assert_array_equal(turned, (X[:7, :3] + 1)[::-1] * 2)
    assert found.sharding.spec == P()


def test_an_argument_is_divided_as_no_axes_of_the_mesh_say(mesh):
    # Six rows over four devices are padded within the program, and the argument is halved.
    total = devrt.jit(lambda x: constrained(x * 2, named(mesh, "x")).sum(0))
    for _ in range(2):
        np.testing.assert_array_equal(total(X[:6]), (X[:6] * 2).sum(0))
    np.testing.assert_array_equal(total(devrt.device_put(X[:6])), (X[:6] * 2).sum(0))


def named(mesh, *entries):
    return NamedSharding(mesh, P(*entries))


def test_device_put_in_a_traced_function(mesh):
    sharding = NamedSharding(mesh, P("x"))
    found = devrt.jit(lambda x: devrt.device_put({"a": x * 2}, sharding))(X)["a"]
    assert found.sharding.is_equivalent_to(sharding, 2)
    np.testing.assert_array_equal(found, X * 2)
    with mesh:
        assert devrt.jit(lambda x: devrt.device_put(x, P("y")))(X).sharding.spec[0] == "y"
    gradient = devrt.grad(lambda x: devrt.device_put(x * 2, sharding).sum())(X)
    np.testing.assert_array_equal(gradient, np.full_like(X, 2))


def test_device_put_in_a_traced_function_moves_to_no_device(cpu):
    for target in (None, cpu[1], devrt.SingleDeviceSharding(cpu[1])):
        found = devrt.jit(lambda x, to=target: devrt.device_put(x, to))(X)
        assert found.devices() == {cpu[0]}


def test_device_put_in_a_traced_function_refuses(mesh):
    with pytest.raises(UnimplementedError, match=r"device_put got 'pinned_host'.*NamedSharding"):
        devrt.jit(lambda x: devrt.device_put(x, "pinned_host"))(X)
    with pytest.raises(InvalidArgumentError, match="device_put: the value does not fit"):
        devrt.jit(lambda x: devrt.device_put(x, NamedSharding(mesh, P("x"))))(X[:3])

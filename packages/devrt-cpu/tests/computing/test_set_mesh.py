"""What runs where while a mesh is set."""

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt import NamedSharding, P
from devrt.errors import InvalidArgumentError

pytestmark = pytest.mark.engine

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def mesh(cpu):
    return devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)


def is_whole_on(mesh, array):
    return array.committed and array.sharding == NamedSharding(mesh, P())


def test_what_nobody_placed_is_whole_on_each_device(mesh, cpu):
    double = devrt.jit(lambda x: x * 2)
    placed = devrt.device_put(X)
    with devrt.set_mesh(mesh):
        for given in (X, placed, 2.0):
            assert is_whole_on(mesh, double(given))
            np.testing.assert_array_equal(double(given), np.asarray(given) * 2)
        assert is_whole_on(mesh, placed + 1)
        assert is_whole_on(mesh, dnp.sin(X))
        assert is_whole_on(mesh, devrt.jit(lambda: dnp.zeros(3))())
        assert is_whole_on(mesh, devrt.random.normal(devrt.random.key(0), (3,)))
        assert is_whole_on(mesh, devrt.grad(lambda x: (x * x).sum())(placed))
    assert double(X).devices() == {cpu[0]}
    assert (placed + 1).devices() == {cpu[0]}


def test_arrays_on_the_mesh_stay_divided(mesh):
    divided = devrt.device_put(X, NamedSharding(mesh, P("x")))
    with devrt.set_mesh(mesh):
        assert (divided + X).sharding.spec == P("x")
        assert devrt.jit(lambda x: x + 1, in_shardings=P("y"))(X).sharding.spec == P("y")
        assert devrt.shard_map(lambda x: x, in_specs=P("y"), out_specs=P("y"))(X).devices()


def test_the_same_call_runs_elsewhere_under_another_mesh(mesh, cpu):
    double, placed = devrt.jit(lambda x: x * 2), devrt.device_put(X)
    pair = devrt.make_mesh((2,), ("x",), devices=cpu[:2])
    for _ in range(3):  # the second and the third call find a program
        assert double(placed).devices() == {cpu[0]}
        with devrt.set_mesh(mesh):
            assert double(placed).devices() == set(cpu)
            with devrt.sharding.use_mesh(pair):
                assert double(placed).devices() == set(cpu[:2])
            with pair:  # names a mesh, and sets none
                assert double(placed).devices() == set(cpu)
        with mesh:
            assert double(placed).devices() == {cpu[0]}


def test_arrays_placed_elsewhere_are_refused(mesh, cpu):
    there = devrt.device_put(X, cpu[3])
    with devrt.set_mesh(mesh):
        with pytest.raises(
            InvalidArgumentError, match=r"x is on cpu:3, and the mesh of devrt\.set"
        ):
            devrt.jit(lambda x: x + 1)(there)
        assert devrt.jit(lambda x: x + 1, device=cpu[3])(there).devices() == {cpu[3]}

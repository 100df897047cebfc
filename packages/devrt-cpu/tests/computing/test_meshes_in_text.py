"""Meshes in a program's text: other orders of devices, other devices, and one device."""

import numpy as np
import pytest

import devrt
from devrt import Mesh, P
from devrt.errors import InvalidArgumentError
from devrt.tracing import (
    Meshes,
    all_reduce,
    binary,
    current_graph,
    manual_computation,
    print_module,
    shaped,
    sharding_constraint,
    trace_graph,
)


def traced(function):
    def flat(x):
        current_graph().results = list(function(x))

    return trace_graph(flat, [shaped((8, 4), np.dtype("float32"))], "f", outermost=True)[0]


def text(graph):
    return print_module(graph, "f", meshes=Meshes(graph.meshes)).text


def test_a_mesh_of_another_order_gives_its_devices(cpu):
    forwards = Mesh(cpu[:4], ("x",))
    backwards = Mesh(cpu[:4][::-1], ("x",))
    graph = traced(
        lambda x: (sharding_constraint(sharding_constraint(x, forwards, P("x")), backwards, P()),)
    )
    written = text(graph)
    assert 'sdy.mesh @mesh_1 = <["x"=4], device_ids=[3, 2, 1, 0]>' in written
    assert "<@mesh_1, [{}, {}]>" in written


def test_meshes_of_other_devices_are_refused(cpu):
    meshes = Mesh(cpu[:2], ("x",)), Mesh(cpu[2:4], ("x",))
    with pytest.raises(InvalidArgumentError, match="same devices"):
        Meshes(meshes)


def test_one_device_has_no_meshes(cpu):
    mesh = Mesh(cpu[:1], ("x",))
    graph = traced(
        lambda x: manual_computation(
            mesh,
            ("x",),
            (sharding_constraint(x, mesh, P("x")),),
            (P("x"),),
            lambda part: ((binary("add", all_reduce("add", part, ("x",)), 1.0),), (P(),)),
        )
    )
    written = text(graph)
    assert "sdy" not in written
    assert "all_reduce" not in written


def test_arguments_on_several_meshes_of_the_same_devices(cpu):
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    grid = devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)
    line, backwards = Mesh(list(cpu), ("d",)), Mesh(list(cpu)[::-1], ("d",))
    pairs = (grid, P("x", "y")), (line, P("d")), (backwards, P("d"))
    placed = [devrt.device_put(x, devrt.NamedSharding(mesh, spec)) for mesh, spec in pairs]
    total = devrt.jit(lambda *arrays: sum(arrays))(*placed)
    np.testing.assert_array_equal(total, 3 * x)
    mapped = devrt.shard_map(lambda part: part * 2, mesh=line, in_specs=P("d"), out_specs=P("d"))
    for array in placed:
        found = mapped(array)
        np.testing.assert_array_equal(found, 2 * x)
        assert found.sharding == devrt.NamedSharding(line, P("d"))

"""Manual computations: their text, what they take from outside, and what varies in them."""

import numpy as np
import pytest

from devrt import P
from devrt.errors import InvalidArgumentError, UnboundAxisError
from devrt.sharding import AbstractMesh
from devrt.tracing import (
    Meshes,
    all_gather,
    all_reduce,
    axis_index,
    binary,
    bound_axes,
    compare,
    current_graph,
    emit,
    manual_computation,
    permute,
    print_module,
    pvary,
    reduce_scatter,
    reshape,
    shaped,
    slice_,
    trace_flat,
    trace_graph,
)

F32 = np.dtype("float32")
BOTH = P("x", "y")
MESH = AbstractMesh((4, 2), ("x", "y"))


def traced(function, shape=(8, 4)):
    def flat(x):
        current_graph().results = list(function(x))

    return trace_graph(flat, [shaped(shape, F32)], "f", outermost=True)[0]


def text(graph):
    return print_module(graph, "f", meshes=Meshes(graph.meshes)).text


def inside(body, in_spec=BOTH, out_spec=BOTH, axes=("x", "y")):
    """Return the graph of a manual computation of one value."""
    return traced(
        lambda x: manual_computation(
            MESH, axes, (x,), (in_spec,), lambda part: ((body(part),), (out_spec,))
        )
    )


def varying(body, **options):
    seen = []

    def kept(part):
        seen.append(body(part).varying)
        return part

    inside(kept, **options)
    return set(seen[0])


def test_a_body_sees_parts_and_results_are_whole():
    graph = inside(lambda part: binary("add", part, part), out_spec=P(None, "y"))
    (op,) = graph.ops
    assert op.regions[0].parameters[0].aval.shape == (2, 2)
    assert graph.results[0].aval.shape == (2, 4)
    assert op.attributes["in_shardings"].shardings[0].spec == P("x", "y")


def test_the_text_names_the_mesh_once():
    written = text(inside(lambda part: all_reduce("add", part, ("x",)), out_spec=P(None, "y")))
    assert written.count('sdy.mesh @mesh = <["x"=4, "y"=2]>') == 1
    assert 'manual_axes = #sdy<manual_axes{"x", "y"}>' in written
    assert "replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>" in written


def test_shardings_are_open_where_axes_are_left_to_the_compiler():
    assert '[{"x", ?}, {?}]' in text(
        inside(lambda part: part, in_spec=P("x"), out_spec=P("x"), axes=("x",))
    )


def test_what_a_body_takes_from_outside_becomes_an_operand():
    def function(x):
        outside = binary("add", x, 1.0)
        return manual_computation(
            MESH, ("x",), (x,), (P("x"),), lambda part: ((binary("add", outside, outside),), (P(),))
        )

    op = traced(function).ops[-1]
    assert len(op.operands) == 2
    assert not op.regions[0].captures
    assert op.attributes["in_shardings"].shardings[1].spec == P()


def test_positions_along_an_axis_are_an_operand_too():
    op = inside(lambda part: binary("add", part, axis_index(("y", "x")))).ops[-1]
    assert [s.spec for s in op.attributes["in_shardings"].shardings[1:]] == [P("y"), P("x")]


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        (lambda part: part, {"x", "y"}),
        (lambda part: all_reduce("add", part, ("x",)), {"y"}),
        (lambda part: all_reduce("add", part, ("x", "y")), set()),
        (lambda part: all_reduce("add", part, ("x",), ((0, 1), (2, 3))), {"x", "y"}),
        (lambda part: all_gather(all_reduce("add", part, ("x", "y")), ("x",), 0), {"x"}),
        (lambda part: reduce_scatter("add", part, ("y",), 0), {"x", "y"}),
        (lambda part: permute(part, ("x",), ((0, 1),)), {"x", "y"}),
        (lambda part: pvary(all_reduce("add", part, ("x", "y")), ("y",)), {"y"}),
        (lambda _: axis_index(("y",)), {"y"}),
    ],
)
def test_what_a_result_varies_along(body, axes):
    assert varying(body) == axes


def loop(carried, body):
    """Emit a loop that ends when its first value does."""
    avals = [value.aval for value in carried]
    condition = trace_flat(lambda *values: (emit_condition(values[0]),), avals)
    return emit("stablehlo.while", carried, avals, {}, (condition, trace_flat(body, avals)))


def emit_condition(value):
    return compare("LT", reshape(slice_(value, (0, 0), (1, 1)), ()), 1.0)


def test_a_loop_keeps_what_each_of_its_values_varies_along():
    def body(part):
        same = all_reduce("add", part, ("x", "y"))
        found = loop([same, part, same], lambda a, b, c: (a, b, all_reduce("add", b, ("x", "y"))))
        assert [set(each.varying) for each in found] == [set(), {"x", "y"}, set()]
        return found[1]

    inside(body)


def test_a_loop_that_ends_at_other_times_varies():
    def body(part):
        same = all_reduce("add", part, ("x", "y"))
        found = loop([part, same], lambda a, b: (a, b))
        assert set(found[1].varying) == {"x", "y"}
        return found[1]

    inside(body)


def test_an_axis_that_nothing_binds_is_refused_with_those_there_are():
    with pytest.raises(UnboundAxisError, match=r"no enclosing.*'z'.*axes here are 'x', 'y'"):
        inside(lambda part: all_reduce("add", part, bound_axes("z", "psum")))
    with pytest.raises(NameError, match="there are none here"):
        bound_axes("x", "psum")
    with pytest.raises(InvalidArgumentError, match="twice"):
        inside(lambda part: all_reduce("add", part, bound_axes(("x", "x"), "psum")))

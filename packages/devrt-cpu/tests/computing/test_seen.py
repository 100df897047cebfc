"""What people see of how values lie: in traced functions, of programs, and in notebooks."""

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P, lax
from devrt.errors import DevrtWarning, InvalidTypeError, UnimplementedError
from devrt.sharding import Drawn, render_sharding, shards_html, shards_text
from devrt.tracing import transpose

pytestmark = pytest.mark.engine

X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def mesh(cpu):
    return devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)


@pytest.fixture
def placed(mesh):
    return devrt.device_put(X, NamedSharding(mesh, P("x", "y")))


def test_a_traced_value_is_drawn_once_for_each_program(placed, mesh, capsys):
    @devrt.jit
    def function(x):
        y = transpose(x, (1, 0))
        devrt.debug.visualize_array_sharding(y)
        return y + 1

    for _ in range(2):
        function(placed)
    drawing = render_sharding((4, 8), NamedSharding(mesh, P("y", "x")))
    assert capsys.readouterr().out == drawing + "\n"
    function(X)
    assert "cpu:0" in capsys.readouterr().out


def test_shardings_of_a_tree_are_given(placed):
    seen = []

    @devrt.jit
    def function(x):
        devrt.debug.inspect_array_sharding({"a": x * 2, "b": x.sum()}, callback=seen.append)
        return x + 1

    function(placed)
    assert [sharding.spec for sharding in seen] == [P("x", "y"), P()]
    devrt.debug.inspect_array_sharding(placed, callback=seen.append)
    assert seen[-1] is placed.sharding
    with pytest.raises(InvalidTypeError, match="inspect_array_sharding takes an array"):
        devrt.debug.inspect_array_sharding(X, callback=seen.append)


def looked_at(seen, name, value):
    devrt.debug.inspect_array_sharding(value, callback=lambda found: seen.append((name, found)))
    return value


def specs(seen):
    return [(name, found.spec) for name, found in seen]


def test_values_of_loops_and_branches_are_seen_in_the_order_of_the_trace(placed, compilations):
    seen = []

    @devrt.jit
    def function(x):
        y = looked_at(seen, "function", x.T)

        def body(carry, element):
            looked_at(seen, "closure", y)
            return looked_at(seen, "scan", carry * 2), element.sum()

        y, sums = lax.scan(body, y, x)
        z = lax.while_loop(
            lambda z: looked_at(seen, "condition", z).sum() < 0,
            lambda z: looked_at(seen, "while", z) + 1,
            y,
        )
        pick = sums.sum() > 0
        z = lax.cond(pick, lambda: looked_at(seen, "branch", z + 1), lambda: z)
        looked_at(seen, "used no more", (x + 1).sum(0))
        return z

    function(placed)
    function(placed)
    names = "function closure scan while condition branch"
    whole = [(name, P("y", "x")) for name in names.split()]
    assert specs(seen) == [*whole, ("used no more", P("y"))]
    assert len(compilations) == 1


@pytest.fixture
def compilations(cpu, monkeypatch):
    """The programs that are compiled, one entry each."""
    from devrt.programs import stages

    made, compiled = [], stages.compiled
    monkeypatch.setattr(stages, "compiled", lambda *given: made.append(1) or compiled(*given))
    return made


def test_values_of_differentiated_functions_are_seen_once(placed, mesh):
    seen = []
    weights = devrt.device_put(np.ones((4, 6), np.float32), NamedSharding(mesh, P("y")))

    def loss(weights, x):
        h = looked_at(seen, "product", x @ weights)
        return lax.fori_loop(0, 3, lambda i, c: looked_at(seen, "loop", c) ** 2, h).sum()

    devrt.jit(devrt.grad(loss))(weights, placed)
    assert specs(seen) == [("product", P("x")), ("loop", P("x"))]
    seen.clear()
    devrt.grad(loss)(weights, placed)
    assert specs(seen) == [("product", P("x")), ("loop", P("x"))]


def test_a_value_that_does_not_divide_is_drawn_as_it_is_padded(placed, mesh, capsys):
    @devrt.jit
    def function(x):
        y = lax.with_sharding_constraint(x, NamedSharding(mesh, P("x")))[:7]
        devrt.debug.visualize_array_sharding(y)
        return y.sum()

    function(placed)
    drawing = render_sharding((8, 4), NamedSharding(mesh, P("x")))
    assert capsys.readouterr().out == drawing + "\n"


def test_a_sharding_that_no_axis_names_is_seen_too(placed):
    seen = []

    @devrt.jit
    def function(x):
        return looked_at(seen, "reshaped", x.reshape(2, 2, 8)).sum()

    function(placed)
    ((_, found),) = seen
    assert isinstance(found, devrt.sharding.GSPMDSharding)
    assert found.shard_shape((2, 2, 8)) == (1, 1, 8)


def test_a_value_of_one_device_lies_there(cpu):
    seen = []
    devrt.jit(lambda x: looked_at(seen, "one", x))(devrt.device_put(X, cpu[1]))
    ((_, found),) = seen
    assert found.device_set == {cpu[1]}


def test_a_value_without_a_result_that_would_hold_it_is_reported(placed):
    seen = []

    @devrt.jit
    def function(x):
        looked_at(seen, "lost", x)

    with pytest.warns(DevrtWarning, match=r"the value lies that is inspected at .*test_seen\.py"):
        function(placed)
    assert seen == []


@pytest.mark.parametrize("mapped", ["shard_map", "pmap"])
def test_parts_of_manual_computations_have_no_sharding(mesh, mapped):
    def function(part):
        devrt.debug.visualize_array_sharding(part)
        return part

    if mapped == "pmap":
        function = devrt.pmap(function)
    else:
        function = devrt.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(UnimplementedError, match=r"one device's part along .*test_seen\.py"):
        function(X)


def test_many_arrays_are_drawn_under_their_names(mesh):
    rows = [
        Drawn("x", "float32", (8, 4), NamedSharding(mesh, P("x", "y"))),
        Drawn("<b>", "int32", (2, 8, 4), NamedSharding(mesh, P(None, "x"))),
        Drawn("scale", "float32", (), NamedSharding(mesh, P())),
    ]
    text = shards_text(rows)
    assert text.startswith("x: float32[8,4] in parts of [2,2]\n┌───────┬")
    assert "\n<b>: int32[2,8,4] in parts of [2,2,4], dimensions 0 and 1\n" in text
    assert text.endswith("\nscale: float32[] on cpu:0,1,2,3,4,5,6,7")
    across = Drawn("y", "int32", (2, 8), NamedSharding(mesh, P(None, "x")))
    assert shards_text([across]).count("\n") == 3  # the heading, and one line of names in a frame
    page = shards_html(rows)
    assert page.count("<svg") == 2
    assert "&lt;b&gt;: int32" in page


def test_compiled_functions_draw_what_they_take_and_give(placed):
    compiled = (
        devrt.jit(lambda tree: (tree["a"] + 1, tree["a"].sum())).lower({"a": placed}).compile()
    )
    page = compiled._repr_html_()
    assert page.count("<svg") == 2
    assert "tree[&#x27;a&#x27;]: float32[8,4] in parts of [2,2]" in page
    assert "result[1]: float32[] on cpu:0" in page

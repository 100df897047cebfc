"""What people see of how values lie: in traced functions, of programs, and in notebooks."""

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P
from devrt.errors import InvalidTypeError, UnimplementedError
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


def test_what_lies_in_a_loop_cannot_be_seen(mesh):
    def function(part):
        devrt.debug.visualize_array_sharding(part)
        return part

    mapped = devrt.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(UnimplementedError, match="Inspect what goes into it"):
        mapped(X)


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

"""What an operation added to a graph is added again: the same text, for what equals that call."""

import gc
import linecache
import random

import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt import P
from devrt.errors import InvalidTypeError
from devrt.programs.eager import operation
from devrt.sharding import AbstractMesh
from devrt.tracing import (
    Graph,
    as_value,
    current_graph,
    manual_computation,
    print_module,
    shaped,
    templates,
    trace,
    trace_flat,
    trace_graph,
)

F32 = np.dtype("float32")


@pytest.fixture(autouse=True)
def _empty():
    devrt.clear_caches()


@pytest.fixture
def untouched(monkeypatch):
    """Return a function that traces without templates."""

    def text_of(function):
        with monkeypatch.context() as patched:
            patched.setattr(templates, "call", lambda f, args, kwargs: f(*args, **kwargs))
            return text(function)

    return text_of


def traced(function, shapes=((4, 3), (3,)), is_weak=False):
    def flat(*values):
        made = function(*values)
        made = made if isinstance(made, list | tuple) else [made]
        current_graph().results = [as_value(each) for each in made]

    avals = [shaped(shape, F32, is_weak) for shape in shapes]
    return trace_graph(flat, avals, "f", outermost=True)[0]


def printed(function):
    return print_module(traced(function), "f")


def text(function):
    return printed(function).text


def names(graph):
    return [op.name for op in graph.ops]


FUNCTIONS = {
    "numbers": lambda x, y: x * 0.5 + y**2 - 1,
    "reductions": lambda x, y: x.mean(axis=-1, keepdims=True) + y.max() + x.std(),
    "comparisons": lambda x, y: jnp.where(x > y, x, -y),
    "constants": lambda x, y: jnp.maximum(x, 0.0) * jnp.exp2(y) + jnp.sinc(x),
    "dtypes": lambda x, y: x.astype("int32") // 2 + y.astype(jnp.uint8),
    "several results": lambda x, y: [*jnp.modf(x), *jnp.split(x, [1], axis=1)],
    "one twice": lambda x, y: x * x + x * y,
    "argument returned": lambda x, y: +x,
    "shapes": lambda x, y: x.reshape(3, 4).T + jnp.concatenate([y, y[:1]])[:, None],
    "products": lambda x, y: x @ y + jnp.einsum("ij,j->i", x, y),
    "orders": lambda x, y: jnp.sort(x, axis=0) + jnp.cumsum(y),
    "lists": lambda x, y: jnp.pad(x, [(1, 0), (0, 2)]).sum(axis=[0, 1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_text_is_that_of_the_functions(untouched, name):
    expected = untouched(FUNCTIONS[name])
    assert [text(FUNCTIONS[name]) for _ in range(3)] == [expected] * 3


def test_the_text_is_that_of_the_functions_after_any_others(untouched):
    order = random.Random(0)
    for _ in range(30):
        some = order.sample(list(FUNCTIONS.values()), 4)

        def both(x, y, some=some):
            return [each for function in some for each in as_list(function(x, y))]

        assert text(both) == untouched(both)


def as_list(made):
    return made if isinstance(made, list) else [made]


def test_a_second_call_does_not_run_the_function(monkeypatch):
    calls = []
    original = templates._recorded
    monkeypatch.setattr(templates, "_recorded", lambda *a: calls.append(a) or original(*a))
    traced(lambda x, y: x + y)
    assert len(calls) == 1
    assert names(traced(lambda x, y: x + y)) == ["stablehlo.broadcast_in_dim", "stablehlo.add"]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(0.0, -0.0), (1, True), (1, 1.0), (2, 2.5), (float("nan"), -float("nan"))],
)
def test_numbers_are_distinguished(untouched, first, second):
    functions = [lambda x, y, n=n: [jnp.add(n, y), jnp.multiply(y > 0, n)] for n in (first, second)]
    assert list(map(text, functions)) == list(map(untouched, functions))


def test_options_by_position_and_by_name_are_distinguished(untouched):
    functions = [
        lambda x, y: x.sum(0),
        lambda x, y: x.sum(axis=1),
        lambda x, y: x.std(axis=1),
        lambda x, y: x.std(ddof=1),
    ]
    assert list(map(text, functions)) == list(map(untouched, functions))


def test_wrong_shapes_are_refused_after_right_ones_that_are_equal():
    traced(lambda x, y: x.reshape((3, 4)))
    with pytest.raises(TypeError, match="float"):
        traced(lambda x, y: x.reshape((3.0, 4)))


def test_operations_within_operations_are_kept_where_constants_are_known():
    half = operation(lambda x: x * 0.5)
    more = operation(lambda x: half(x) + 1)
    traced(lambda x, y: [half(x), more(x)])
    assert None not in templates._templates.values()


def test_weak_values_are_distinguished():
    for is_weak in (True, False):
        graph = traced(lambda x, y: y + 1, is_weak=is_weak)
        assert graph.results[0].aval.weak_type is is_weak


@pytest.mark.parametrize("is_first_equal", [False, True])
def test_an_argument_that_is_given_twice(is_first_equal):
    equal, other = (lambda x, y: x - x), (lambda x, y: x - (x + 1))
    for function in (equal, other) if is_first_equal else (other, equal):
        traced(function)
    again = traced(other).ops[-1]
    assert again.operands[0] is not again.operands[1]
    again = traced(equal).ops[-1]
    assert again.operands[0] is again.operands[1]


def test_two_of_three_arguments_are_one_value(untouched):
    equal = lambda x, y: jnp.where(x > 0, x, x)  # noqa: E731
    other = lambda x, y: jnp.where(x > 0, x, x + 1)  # noqa: E731
    assert [text(equal), text(other)] == [untouched(equal), untouched(other)]


def test_an_argument_that_is_a_constant_of_the_function_too(untouched):
    constant = lambda x, y: jnp.maximum(jnp.full((), 0.0), 0.0)  # noqa: E731
    other = lambda x, y: jnp.maximum(y.sum(), 0.0)  # noqa: E731
    assert [text(constant), text(other)] == [untouched(constant), untouched(other)]


def test_operations_have_the_line_of_their_own_call():
    def twice(x, y):
        first = x + y
        second = x + y  # again
        third = jnp.add(x, y)  # by name
        return [first, second, third]

    found = printed(twice)
    lines = found.text.split("\n")
    frames = [found.frames[n + 1] for n, line in enumerate(lines) if "stablehlo.add" in line]
    read = [linecache.getline(frame.filename, frame.line) for frame in frames]
    assert "first =" in read[0]
    assert "# again" in read[1]
    assert "# by name" in read[2]


def test_values_of_a_graph_around_are_captured():
    def inner(x, y):
        return trace_flat(lambda: [x + y, x * 2.0], [], "inner").captures

    found = []
    traced(lambda x, y: [x + y, found.append(len(inner(x, y))), x * 2.0][::2])
    traced(lambda x, y: [x + y, found.append(len(inner(x, y))), x * 2.0][::2])
    assert found == [2, 2]


def test_what_varies_in_a_manual_computation_is_known():
    mesh = AbstractMesh((4,), ("x",))
    seen = []

    def body(part):
        seen.append((part + part).varying)
        return (part,), (P("x"),)

    def function(x, y):
        y + y  # as large as a part: a template now
        return list(manual_computation(mesh, ("x",), (x,), (P("x"),), body))

    traced(function, [(4, 3), (1, 3)])
    assert seen
    assert all(varying == {"x"} for varying in seen)


def test_too_large_a_graph_is_refused(monkeypatch):
    traced(lambda x, y: x + y)
    monkeypatch.setattr(trace, "MOST_OPS", 5)

    with pytest.raises(InvalidTypeError, match="5 operations"):
        traced(lambda x, y: [x + y for _ in range(9)])


def test_few_are_kept_and_all_are_forgotten_on_request(monkeypatch):
    monkeypatch.setattr(templates, "MOST_TEMPLATES", 3)
    traced(lambda x, y: [x + i for i in range(10)])
    assert 0 < len(templates._templates) <= 3
    devrt.clear_caches()
    assert not templates._templates


def test_no_graph_is_kept():
    traced(lambda x, y: (x + y).sum() + jnp.sort(y)[0])
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, Graph) and o.name == "f"]

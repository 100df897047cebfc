"""Calls of traced functions: trees, numbers, static values, methods, and what is refused."""

import collections
import functools
import pathlib
import pickle

import numpy as np
import pytest

import devrt
from devrt import Mesh, NamedSharding, P, jit
from devrt.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    UnexpectedTracerError,
)
from devrt.tracing import emit_one, shaped

pytestmark = pytest.mark.engine

X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def x(cpu):
    return devrt.device_put(X, cpu[0])


def test_trees_go_in_and_come_out(x):
    Pair = collections.namedtuple("Pair", "a b")

    @jit
    def f(tree, *, scale):
        return Pair(tree["w"] * scale, [tree["b"] + 1, None, ()])

    made = f({"w": x, "b": 2}, scale=3.0)
    assert type(made) is Pair
    np.testing.assert_array_equal(made.a, X * 3)
    assert int(made.b[0]) == 3
    assert made.b[1:] == [None, ()]


def test_a_function_that_returns_nothing_runs(x):
    assert jit(lambda x: None)(x) is None
    assert jit(lambda: {})() == {}


def test_numbers_are_parameters_and_stay_weak(x):
    traces = []

    @jit
    def f(x, n):
        traces.append(n)
        return x * n, n + 1

    for n in range(3):
        product, total = f(x, n)
        np.testing.assert_array_equal(product, X * n)
        assert total.weak_type
        assert product.dtype == np.float32
        assert not product.weak_type
    assert len(traces) == 1
    assert f(x, 2.5)[1].dtype == np.float32
    assert f(x, 2**40)[1].dtype == np.int64
    assert f(x, np.int64(1))[0].dtype == np.float64 or not f(x, np.int64(1))[1].weak_type
    assert not f(x, True)[1].weak_type or f(x, True)[1].dtype == np.int32


def test_weak_results_give_way_in_the_next_call(x):
    weak = jit(lambda n: n)(2)
    assert weak.weak_type
    assert jit(lambda a, b: a + b)(devrt.device_put(np.int8(1)), weak).dtype == np.int8


def test_copies_of_weak_arrays_are_weak(cpu):
    weak = jit(lambda n: n)(2)
    there = devrt.device_put(weak, cpu[1])
    assert [a.weak_type for a in (weak.clone(), weak.copy(), there)] == [True] * 3
    assert there.committed
    assert jit(lambda a: a)(there).devices() == {cpu[1]}


def test_it_is_traced_once_for_each_kind_of_arguments(x):
    traces = []

    @jit
    def f(x):
        traces.append(x.shape)
        return x + 1

    f(x), f(x), f(X), f(X[:1])
    assert traces == [(2, 4), (1, 4)]
    again = jit(f.__wrapped__)  # of the same function, with the same options
    again(x)
    assert len(traces) == 2


def test_static_arguments(x):
    @functools.partial(jit, static_argnames=("n", "kind"))
    def f(x, n=2, *, kind="times"):
        return x * n if kind == "times" else x + n

    np.testing.assert_array_equal(f(x), X * 2)
    np.testing.assert_array_equal(f(x, 3), X * 3)
    np.testing.assert_array_equal(f(x, n=4, kind="plus"), X + 4)
    assert f._cache_size() == 3
    with pytest.raises(InvalidTypeError, match="static argument n of f") as caught:
        f(x, [1])
    assert caught.value.argument == "n"


def test_a_static_true_is_not_a_one(x):
    f = jit(lambda x, n: x + (1 if n is True else 5), static_argnums=1)
    np.testing.assert_array_equal(f(x, True), X + 1)
    np.testing.assert_array_equal(f(x, 1), X + 5)


def test_methods_partials_callables_and_decorators_with_options(x):
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @functools.partial(jit, static_argnums=0)
        def run(self, x):
            return x * self.scale

        def __call__(self, x):
            return x - self.scale

    @jit(donate_argnums=())
    def plain(x):
        """Doubles."""
        return x * 2

    np.testing.assert_array_equal(Model(3).run(x), X * 3)
    np.testing.assert_array_equal(jit(Model(3))(x), X - 3)
    np.testing.assert_array_equal(jit(Model(4).__call__)(x), X - 4)
    np.testing.assert_array_equal(jit(functools.partial(lambda a, b: a - b, 1))(x), 1 - X)
    np.testing.assert_array_equal(plain(x), X * 2)
    assert (plain.__name__, plain.__doc__) == ("plain", "Doubles.")


def test_a_traced_function_in_a_trace_becomes_part_of_it(x):
    @functools.partial(jit, static_argnums=1)
    def inner(x, n):
        assert isinstance(n, int)
        return {"y": x + n}

    outer = jit(lambda x: inner(x, 2)["y"] * inner(x, 3)["y"])
    np.testing.assert_array_equal(outer(x), (X + 2) * (X + 3))
    assert "call" not in outer.lower(x).as_text()


def test_what_is_closed_over_is_a_parameter_and_not_text(x):
    big, small = np.full((2, 4), 3, np.float32), np.float32(2)
    large = np.arange(1000, dtype=np.float32)
    f = jit(lambda y: (y * x + big * small, large * 2))
    np.testing.assert_array_equal(f(x)[0], X * X + 6)
    np.testing.assert_array_equal(f(x)[1], large * 2)
    text = f.lower(x).as_text()
    assert text.count("%arg") >= 3
    assert 'dense<"0x' not in text


def test_a_closed_over_array_is_one_parameter_however_often_it_is_used(x):
    text = jit(lambda: x + x * x).lower().as_text()
    assert "%arg1" not in text


@pytest.mark.parametrize(
    ("function", "arguments", "path"),
    [
        (lambda a: a, ("text",), "a is of type str"),
        (lambda a, b: a, (1, {"k": [1, object()]}), r"b\['k'\]\[1\] is of type object"),
        (lambda *rest: rest, (1, "text"), r"args\[1\] is of type str"),
    ],
)
def test_arguments_that_are_no_arrays_are_named(cpu, function, arguments, path):
    with pytest.raises(InvalidTypeError, match=path) as caught:
        jit(function)(*arguments)
    assert __file__ in str(caught.value)
    assert "static_argnums" in str(caught.value)


def test_results_that_are_no_arrays_are_named(x):
    def f(x):
        return {"k": [x, "text"]}

    with pytest.raises(InvalidTypeError, match=r"result at \['k'\]\[1\] of f is of type str"):
        jit(f)(x)


def test_a_value_of_an_ended_trace_is_refused(x):
    kept = []

    @jit
    def f(x):
        kept.extend([x, x + 1])
        return x

    f(x)
    with pytest.raises(UnexpectedTracerError, match="it is an argument of 'f'"):
        jit(lambda y: y)(kept[0])
    for use in (lambda y: y + kept[1], lambda y: kept[1] + y):
        with pytest.raises(UnexpectedTracerError, match=r"trace of 'f', at .*test_jit\.py"):
            jit(use)(x)
    with pytest.raises(UnexpectedTracerError, match="after its trace had ended"):
        kept[1] + 1


def test_an_exception_leaves_no_trace_behind(x):
    def f(x):
        raise KeyError(x)

    with pytest.raises(KeyError):
        jit(f)(x)
    np.testing.assert_array_equal(jit(lambda x: x + 1)(x), X + 1)
    np.testing.assert_array_equal(x + 1, X + 1)


def test_recursion_without_end_says_where(x):
    @jit
    def f(x):
        return f(x) + 1

    with pytest.raises(InvalidArgumentError, match=r"calls deep.*the last line is") as caught:
        f(x)
    assert caught.value.count > 100
    assert __file__ in str(caught.value)


def test_a_graph_without_end_says_where(x, monkeypatch):
    monkeypatch.setattr("devrt.tracing.trace.MOST_OPS", 100)

    def f(x):
        for _ in range(200):
            x = x + 1.5
        return x

    with pytest.raises(InvalidArgumentError, match=r"has 100 operations.*test_jit\.py"):
        jit(f)(x)


def test_the_compiler_s_lines_are_the_user_s(x):
    def f(x):
        y = x + 1
        return emit_one("stablehlo.add", [y, x], shaped((3, 4), np.dtype("float32")))  # here

    with pytest.raises(InvalidArgumentError) as caught:
        jit(f)(x)
    lines = pathlib.Path(__file__).read_text(encoding="utf-8").split("\n")
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# here"))
    assert f"{__file__}:{line} (f)" in str(caught.value)
    assert "-:" not in str(caught.value)


def test_what_is_no_function_is_refused():
    with pytest.raises(InvalidTypeError, match="jit takes a function"):
        jit(3)


def test_shapes_are_found_without_computing(cpu):
    def f(x, n):
        return {"y": x * n, "z": n}

    described = devrt.ShapeDtypeStruct((2, 4), np.float32)
    made = devrt.eval_shape(f, described, 2)
    assert made["y"] == devrt.ShapeDtypeStruct((2, 4), np.float32)
    assert made["z"] == devrt.ShapeDtypeStruct((), np.int32, weak_type=True)


def test_arrays_of_other_libraries_are_arguments(cpu):
    class Theirs:
        def __array__(self, dtype=None, copy=None):
            return X

    np.testing.assert_array_equal(jit(lambda x: x + 1)(Theirs()), X + 1)


def test_a_described_array_has_no_elements_to_run_with(cpu):
    with pytest.raises(InvalidTypeError, match="argument x is of type ShapeDtypeStruct"):
        jit(lambda x: x)(devrt.ShapeDtypeStruct((2,), np.float32))


def test_devices_differ(cpu):
    f = jit(lambda a, b: a + b)
    a, b = (devrt.device_put(X, device) for device in cpu[:2])
    with pytest.raises(InvalidArgumentError, match=r"argument a is on cpu:0, and argument b on"):
        f(a, b)
    divided = devrt.device_put(X, NamedSharding(Mesh(cpu[:2], ("i",)), P("i")))
    with pytest.raises(InvalidArgumentError, match="cannot run on different devices"):
        f(a, divided)


# -- pickling ---------------------------------------------------------------------------------


def scaled(x, by):
    return x * by


times = jit(scaled, static_argnames="by")


@jit
def doubled(x):
    return times(x, by=2)


@pytest.mark.parametrize("function", [doubled, jit(doubled)])
def test_functions_are_pickled_by_name(function):
    again = pickle.loads(pickle.dumps(function))
    assert (again is doubled) == (function is doubled)
    np.testing.assert_array_equal(again(np.ones(3)), [2, 2, 2])


def test_functions_are_pickled_with_their_options():
    times(1.0, by=3)
    again = pickle.loads(pickle.dumps(times))
    assert float(again(2.0, by=5)) == 10
    assert "dense<5.0>" in again.lower(2.0, by=5).as_text()
    partial = jit(functools.partial(scaled, by=4))
    assert float(pickle.loads(pickle.dumps(partial))(2.0)) == 8

"""Errors of traced functions name the function that was called, the user's line and what to do."""

import functools

import numpy as np
import pytest

import devrt
from devrt import P, lax
from devrt import numpy as jnp
from devrt.errors import (
    ConcretizationTypeError,
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
)

pytestmark = pytest.mark.usefixtures("cpu")


@pytest.fixture
def x(cpu):
    return jnp.arange(6.0)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x.sum(axis=2), "sum"),
        (lambda x: x.prod(axis="a"), "prod"),
        (lambda x: x.mean(axis=(0, 0)), "mean"),
        (lambda x: jnp.count_nonzero(x, axis=2), "count_nonzero"),
        (lambda x: x.all(axis=2), "all"),
        (lambda x: x.max(axis=2, initial=0), "max"),
        (lambda x: jnp.where(x > 2, x, jnp.ones(5)), "where"),
        (lambda x: x.sum(where=jnp.ones(5) > 0), "sum's where"),
    ],
)
def test_errors_name_the_function_that_was_called(x, function, name):
    with pytest.raises(DevrtError, match=rf"^{name}: .*{__file__}"):
        function(x)


def test_a_traced_value_is_no_number_to_format(x):
    advice = r"'\.2f' at .*devrt\.debug\.print\('{:\.2f}'"
    with pytest.raises(ConcretizationTypeError, match=advice):
        devrt.jit(lambda a: f"{a:.2f}")(x.sum())


def test_a_traced_value_is_text_in_fields_of_text(x):
    @devrt.jit
    def f(a):
        assert f"{a:>20}" == "Traced<float32[]>".rjust(20)
        return a

    f(x.sum())


def test_gradients_of_what_returns_no_scalar(x):
    def forgotten(x):
        x.sum()

    with pytest.raises(InvalidTypeError, match=r"forgotten returned None at .*lack a `return`"):
        devrt.grad(forgotten)(x)
    with pytest.raises(InvalidTypeError, match=r"returned PyTreeDef.*has_aux=True"):
        devrt.grad(lambda x: (x.sum(), x))(x)


@pytest.mark.parametrize("argnums", ["a", 1.5, None, ("a",)])
def test_argnums_are_integers(argnums):
    with pytest.raises(InvalidTypeError, match=r"grad: argnums is .*an integer, or a tuple"):
        devrt.grad(lambda x: x, argnums=argnums)


def test_argnums_may_be_integers_of_numpy():
    assert float(devrt.grad(lambda x: x * x, argnums=np.int64(0))(3.0)) == 6


def _size(x):
    return x if x > 0 else -x


@pytest.mark.parametrize(
    "call",
    [
        lambda: devrt.grad(_size)(3.0),
        lambda: devrt.value_and_grad(_size)(3.0),
        lambda: devrt.vjp(_size, 3.0),
        lambda: devrt.jit(devrt.grad(_size))(3.0),
        lambda: devrt.pmap(_size)(jnp.ones(1)),
        lambda: lax.map(_size, jnp.ones(2)),
    ],
)
def test_static_arguments_are_not_advised_where_there_are_none(call):
    with pytest.raises(TracerBoolConversionError, match=r"lax\.cond or devrt") as caught:
        call()
    assert "static_argnums" not in str(caught.value)


def test_static_arguments_are_advised_to_functions_of_jit():
    with pytest.raises(TracerBoolConversionError, match="static_argnums"):
        devrt.jit(_size)(3.0)


@pytest.mark.parametrize("function", [np.linalg.norm, np.zeros_like])
def test_the_line_is_the_users_where_numpy_calls_in_between(x, function):
    with pytest.raises(TracerArrayConversionError, match=__file__):
        devrt.jit(lambda a: function(a))(x)


def _add(a, b):
    return a + b


@pytest.mark.parametrize(
    ("in_specs", "out_specs", "what"),
    [
        ((P("d"),), P("d"), "in_specs does not fit the arguments of _add"),
        (P("d"), (P("d"), P()), "out_specs does not fit the result of _add"),
    ],
)
def test_specs_that_are_no_beginning_of_the_tree(x, in_specs, out_specs, what):
    mesh = devrt.make_mesh((1,), ("d",), devices=devrt.devices("cpu")[:1])
    function = devrt.shard_map(_add, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    with pytest.raises(InvalidArgumentError, match=f"shard_map {what} at {__file__}.* Give one"):
        function(x, x)


@pytest.mark.parametrize(
    ("option", "what"), [("in_shardings", "arguments"), ("out_shardings", "result")]
)
def test_shardings_that_are_no_beginning_of_the_tree(x, option, what):
    mesh = devrt.make_mesh((1,), ("d",), devices=devrt.devices("cpu")[:1])
    count = 1 if what == "arguments" else 2
    function = devrt.jit(_add, **{option: (devrt.NamedSharding(mesh, P("d")),) * count})
    message = f"jit {option} does not fit the {what} of _add at {__file__}.* Give one"
    with pytest.raises(InvalidArgumentError, match=message):
        function(x, x)
    with pytest.raises(InvalidArgumentError, match=message):
        devrt.jit(lambda x: function(x, x))(x)


def test_a_wrong_result_of_a_callback_names_its_function(x):
    def first_two(x):
        return x[:2]

    wanted = devrt.ShapeDtypeStruct((6,), "float32")
    called = devrt.jit(functools.partial(devrt.pure_callback, first_two, wanted))
    with pytest.raises(DevrtError, match=rf"first_two \({__file__}:\d+\) must return") as caught:
        np.asarray(called(x))
    assert "callbacks.py" not in str(caught.value)
    assert "did not start" not in str(caught.value)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_a_second_size_in_the_place_of_the_dtype(name):
    function = getattr(jnp, name)
    with pytest.raises(InvalidTypeError, match=rf"Did you mean {name}\(\(2, 3\)\)\?"):
        function(2, 3)
    with pytest.raises(InvalidTypeError, match=rf"Did you mean {name}\(\(2, 3\)\)\?"):
        devrt.jit(lambda: function(2, 3))()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("astype", lambda x: x.astype("flota32")),
        ("zeros", lambda x: jnp.zeros(2, "flota32")),
        ("array", lambda x: jnp.array([1], "flota32")),
    ],
)
def test_a_dtype_that_is_misspelt(x, name, call):
    with pytest.raises(InvalidTypeError, match=f"{name} at {__file__}.*Did you mean 'float32'"):
        call(x)

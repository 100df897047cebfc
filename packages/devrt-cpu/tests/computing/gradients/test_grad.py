"""`grad` and `value_and_grad`: arguments, trees, nesting, and what they refuse."""

import numpy as np
import pytest

import devrt
from devrt import grad, jit, value_and_grad
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.tracing import binary, emit_one, reduce, unary

pytestmark = pytest.mark.engine
X = np.arange(3, dtype=np.float32)


def squares(x):
    return reduce("add", binary("multiply", x, x), 0, range(x.ndim))


def test_the_gradient_has_the_argument_s_structure_and_dtypes():
    def loss(params, x):
        return squares(params["w"] * x + params["b"][0])

    found = grad(loss)({"w": X, "b": [np.float32(1.0)]}, X)
    np.testing.assert_allclose(found["w"], 2 * (X * X + 1) * X)
    np.testing.assert_allclose(found["b"][0], np.sum(2 * (X * X + 1)))
    assert found["w"].dtype == np.float32


def test_several_arguments_have_a_tuple_of_gradients():
    def product(x, y):
        return reduce("add", x * y, 0, [0])

    value, (of_x, of_y) = value_and_grad(product, argnums=(0, -1))(X, X + 1)
    assert float(value) == 8
    np.testing.assert_allclose(of_x, X + 1)
    np.testing.assert_allclose(of_y, X)


def test_aux_is_handed_on():
    gradient, aux = grad(lambda x: (squares(x), {"doubled": x + x}), has_aux=True)(X)
    np.testing.assert_allclose(gradient, 2 * X)
    np.testing.assert_allclose(aux["doubled"], 2 * X)


def test_gradients_have_gradients():
    cube = lambda x: x * x * x  # noqa: E731
    assert float(grad(grad(cube))(3.0)) == 18
    assert float(grad(grad(grad(cube)))(3.0)) == 6


def test_a_closure_over_the_outer_argument_is_another_value():
    assert float(grad(lambda x: x * grad(lambda y: x * y)(x))(3.0)) == 6


def test_grad_and_jit_take_each_other():
    inside = jit(lambda x: grad(jit(squares))(x) + 1)
    np.testing.assert_allclose(inside(X), 2 * X + 1)
    np.testing.assert_allclose(grad(jit(squares))(X), 2 * X)


def test_a_closed_over_array_is_a_constant():
    held = devrt.device_put(np.full(3, 5, np.float32))
    np.testing.assert_allclose(grad(lambda x: squares(x * held))(X), 50 * X)


def test_what_is_not_used_has_a_gradient_of_zeros():
    np.testing.assert_array_equal(grad(lambda x: 2.0)(X), np.zeros(3))
    np.testing.assert_array_equal(grad(lambda x, y: y)(X, 1.0), np.zeros(3))


def test_objects_and_integers_are_fixed():
    def power(x, n, kind):
        assert kind == "times"
        for _ in range(n):
            x = x * 2.0
        return x

    assert float(grad(power)(1.0, 3, "times")) == 8
    assert float(grad(power)(1.0, kind="times", n=4)) == 16


def test_a_function_is_traced_once_for_its_gradients():
    traced = []

    def loss(x):
        traced.append(1)
        return squares(x)

    for _ in range(3):
        grad(loss)(X)
    assert len(traced) == 1


def test_a_largest_element_that_is_nan_gives_the_others_nothing():
    rows = np.array([[np.nan, 1, 2], [3, 5, 5]], np.float32)
    found = grad(lambda x: squares(reduce("maximum", x, -np.inf, [1])))(rows)
    np.testing.assert_array_equal(found, [[0, 0, 0], [0, 5, 5]])


def test_integers_have_gradients_without_bytes():
    values, number = grad(lambda x, n: squares(x * n), argnums=(0, 1), allow_int=True)(X, 3)
    np.testing.assert_allclose(values, 18 * X)
    assert number.dtype == np.dtype([("float0", np.void, 0)])
    assert number.shape == ()
    within = jit(lambda x, n: grad(lambda x, n: x[n], argnums=(0, 1), allow_int=True)(x, n)[0])
    np.testing.assert_array_equal(within(X, 1), np.eye(1, len(X), 1)[0])


def test_holomorphic_functions_have_their_derivative():
    found = grad(lambda z: z * z, holomorphic=True)(1 + 2j)
    np.testing.assert_allclose(found, 2 + 4j)


def test_a_real_function_of_complex_numbers_has_jax_s_gradient():
    found = grad(lambda z: unary("real", z * z, np.dtype("float32")))(np.complex64(1 + 2j))
    np.testing.assert_allclose(found, 2 + 4j)  # what jax.grad returns


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: grad(squares)(np.arange(3)), InvalidTypeError, "argument 0 is of int64"),
        (
            lambda: grad(lambda p: p["a"][0])({"a": [1]}),
            InvalidTypeError,
            r"argument 0\['a'\]\[0\] is of int32",
        ),
        (lambda: grad(lambda x: x)(X), InvalidTypeError, r"returned float32\[3\].*devrt.vjp"),
        (lambda: grad(lambda x: (x, x))(1.0), InvalidTypeError, "has_aux"),
        (lambda: grad(lambda x: x, has_aux=True)(1.0), InvalidTypeError, "must return a pair"),
        (lambda: grad(lambda x: x * 1j)(1.0), InvalidTypeError, "take its real part"),
        (lambda: grad(lambda x: x, holomorphic=True)(1.0), InvalidTypeError, "complex numbers"),
        (lambda: grad(squares, argnums=2)(X), InvalidArgumentError, "called with 1 positional"),
        (lambda: grad(3), InvalidTypeError, "takes a function"),
    ],
)
def test_wrong_calls_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_operation_without_a_gradient_is_named_with_its_line():
    def through(x):
        return emit_one("stablehlo.triangle", (x,), x.aval)

    message = (
        r"no gradient of stablehlo.triangle, which was traced at .*test_grad.py:\d+ \(through\)"
    )
    with pytest.raises(UnimplementedError, match=message):
        grad(through)(1.0)


@pytest.mark.parametrize("divisor", [1.0, -1.0])
def test_a_remainder_of_zero_has_the_gradient_of_its_neighbours(divisor):
    x = np.array([-2, -1.5, -0.0, 0, 1.5, 2], np.float32)
    found = grad(lambda x, y: squares(x % y + 0.5) - squares(x % y), argnums=(0, 1))(x, divisor)
    np.testing.assert_array_equal(found[0], np.ones(6))
    assert float(found[1]) == -np.floor(x / divisor).sum()
    signs = np.signbit(np.asarray(jit(lambda x: x % divisor)(x)))
    np.testing.assert_array_equal(signs, [divisor < 0] * 6)

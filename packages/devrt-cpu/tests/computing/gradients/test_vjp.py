"""`vjp`, and functions whose gradient is the user's or computed once more."""

import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt import checkpoint, checkpoint_policies, custom_vjp, grad, jit, lax, vjp
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tracing import binary, reduce, unary

pytestmark = pytest.mark.engine
X = np.arange(1, 4, dtype=np.float32)


def parts(params, n):
    return {"product": params["a"] * params["b"], "count": n + 1, "twice": params["a"] * 2}


def params():
    return {"a": X, "b": X + 1}


COTANGENTS = {"product": np.ones(3, np.float32), "twice": X, "count": 0}


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["outside", "in a program"])
def test_the_way_back_takes_trees_like_the_result(wrap):
    def there_and_back(given, cotangents):
        out, back = vjp(parts, given, np.int32(3))
        return out, back(cotangents)[0]

    out, found = wrap(there_and_back)(params(), COTANGENTS)
    np.testing.assert_allclose(out["product"], X * (X + 1))
    assert int(out["count"]) == 4
    np.testing.assert_allclose(found["a"], X + 1 + 2 * X)
    np.testing.assert_allclose(found["b"], X)


def test_integers_have_cotangents_without_bytes():
    _, back = vjp(parts, params(), np.int32(3))
    assert back(COTANGENTS)[1].dtype == np.dtype([("float0", np.void, 0)])


def test_aux_comes_third():
    out, back, aux = vjp(lambda x: (x * x, x + 1), X, has_aux=True)
    np.testing.assert_allclose(back(X)[0], 2 * X * X)
    np.testing.assert_allclose(out, X * X)
    np.testing.assert_allclose(aux, X + 1)


def test_the_way_back_can_be_gone_in_a_loop():
    def loss(x):
        _, back = vjp(lambda y: unary("sine", y), x)
        return lax.fori_loop(0, 3, lambda i, g: back(g)[0], x)

    np.testing.assert_allclose(jit(loss)(X), X * np.cos(X) ** 3, rtol=1e-5)


def test_jacobians_row_by_row():
    _, back = vjp(lambda x: reduce("add", binary("multiply", x, x), 0, [0]), X)
    for weight in (1.0, 2.0):
        np.testing.assert_allclose(back(np.float32(weight))[0], 2 * weight * X)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: vjp(3, X), InvalidTypeError, "vjp takes a function"),
        (lambda: vjp(lambda x: x, X)[1]((X,)), InvalidArgumentError, "give a tree like it"),
        (lambda: vjp(lambda x: x, X)[1](X[:2]), InvalidTypeError, r"float32\[3\].*float32\[2\]"),
        (lambda: vjp(lambda x: x, X)[1](X.astype(float)), InvalidTypeError, r"is of float64\[3\]"),
    ],
)
def test_wrong_calls_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_function_has_the_gradient_that_it_is_given():
    @custom_vjp
    def clipped(x, limit):
        return binary("multiply", x, limit)

    clipped.defvjp(
        lambda x, limit: (clipped(x, limit), limit),
        lambda limit, g: (binary("multiply", binary("add", g, 10.0), limit), None),
    )

    def loss(x, limit):
        return reduce("add", clipped(x, limit), 0, [0])

    of_x, of_limit = grad(loss, argnums=(0, 1))(X, np.float32(2.0))
    np.testing.assert_allclose(of_x, np.full(3, 22))
    np.testing.assert_allclose(of_limit, 0)
    np.testing.assert_allclose(jit(clipped)(X, 2.0), 2 * X)


def test_static_arguments_of_such_a_function_come_first():
    def powered(n, x):
        return x**n if isinstance(x, float) else binary("power", x, float(n))

    made = custom_vjp(powered, nondiff_argnums=(0,))
    made.defvjp(lambda n, x: (made(n, x), x), lambda n, x, g: (g * n * 100.0,))
    assert float(grad(lambda x: made(3, x))(2.0)) == 300


def test_wrong_rules_are_named():
    made = custom_vjp(lambda x: x * 2)
    with pytest.raises(InvalidArgumentError, match="call its defvjp first"):
        made(1.0)
    made.defvjp(lambda x: (x, x), lambda kept, g: (g, g))
    with pytest.raises(InvalidArgumentError, match="a tuple of 1 cotangents"):
        grad(made)(1.0)


def test_a_checkpointed_function_is_computed_twice():
    def block(w, x):
        return unary("tanh", binary("multiply", w, unary("tanh", x)))

    def loss(function):
        return lambda w, x: reduce("add", function(w, x), 0, [0])

    plain, kept_less = (grad(loss(f), argnums=(0, 1)) for f in (block, checkpoint(block)))
    for a, b in zip(plain(X, X), kept_less(X, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    kept_less = devrt.value_and_grad(loss(checkpoint(block)), argnums=(0, 1))
    text = jit(kept_less).lower(X, X).as_text()
    assert text.count("stablehlo.tanh") == 4
    assert "optimization_barrier" in text


@pytest.mark.parametrize(
    ("policy", "products", "tanhs"),
    [
        (None, 8, 4),
        (checkpoint_policies.nothing_saveable, 8, 4),
        (checkpoint_policies.dots_saveable, 6, 4),
        (checkpoint_policies.dots_with_no_batch_dims_saveable, 7, 4),
        (lambda name, *_, **__: name == "tanh", 6, 2),
        (checkpoint_policies.everything_saveable, 6, 2),
    ],
)
def test_policies_say_what_a_checkpointed_function_keeps(policy, products, tanhs):
    def block(w, x):
        return jnp.tanh(jnp.tanh(x @ w) @ w[0])

    def loss(function):
        return devrt.value_and_grad(lambda w, x: function(w, x).sum(), argnums=(0, 1))

    w, x = (np.linspace(-1, 1, 27, dtype=np.float32).reshape(3, 3, 3) * s for s in (0.3, 1))
    kept = jit(loss(checkpoint(block, policy=policy)))
    for a, b in zip(kept(w, x)[1], jit(loss(block))(w, x)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    text = kept.lower(w, x).as_text()
    assert (text.count("stablehlo.dot_general"), text.count("stablehlo.tanh")) == (products, tanhs)


def test_policies_leave_loops_and_second_derivatives_as_they_are():
    def loop(x):
        return lax.scan(lambda c, _: (jnp.sin(c) * x, None), x, None, length=3)[0]

    def twice(f):
        return devrt.grad(lambda x: devrt.grad(lambda y: f(f(y)))(x))

    kept = checkpoint(loop, policy=lambda *_, **__: True)
    for way in (devrt.grad, twice):
        np.testing.assert_allclose(way(kept)(0.5), way(loop)(0.5), rtol=1e-5)
    with pytest.raises(InvalidTypeError, match="policy of checkpoint is 'dots'"):
        checkpoint(loop, policy="dots")


def test_a_checkpointed_closure_has_gradients_too():
    def loss(w):
        return reduce("add", checkpoint(lambda x: w * x * x)(w), 0, [0])

    np.testing.assert_allclose(grad(loss)(X), 3 * X * X)


def test_stop_gradient_is_a_constant():
    if not hasattr(lax, "stop_gradient"):
        pytest.skip("devrt.lax.stop_gradient is not there yet")
    assert float(devrt.grad(lambda x: x * lax.stop_gradient(x))(3.0)) == 3

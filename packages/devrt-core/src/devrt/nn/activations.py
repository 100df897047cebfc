"""Activations: functions of each element."""

from __future__ import annotations

import math
from typing import Any

from devrt import lax
from devrt import numpy as dnp
from devrt.numpy.operands import fractions
from devrt.programs.eager import operation

__all__ = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "swish",
    "tanh",
]


@operation
def relu(x: Any) -> Any:
    """Return ``max(x, 0)``; its gradient at 0 is 0."""
    # Not maximum(): that shares the gradient of two equal operands between them.
    return dnp.where(dnp.less_equal(x, 0), 0, x)


@operation
def relu6(x: Any) -> Any:
    """Return ``min(max(x, 0), 6)``; its gradient at 0 and 6 is 0."""
    return dnp.where(dnp.greater_equal(x, 6), 6, relu(x))


@operation
def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``."""
    return lax.logistic(*fractions(x))


@operation
def log_sigmoid(x: Any) -> Any:
    """Return ``log(sigmoid(x))``, without overflow."""
    return dnp.negative(softplus(dnp.negative(x)))


@operation
def silu(x: Any) -> Any:
    """Return ``x * sigmoid(x)``; `swish` is another name for it."""
    return dnp.multiply(x, sigmoid(x))


swish = silu


@operation(static=("approximate",))
def gelu(x: Any, approximate: bool = True) -> Any:
    """Return ``x`` times the normal distribution's share below it, by default by tanh."""
    (x,) = fractions(x)
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * dnp.power(x, 3))
        return x * (0.5 * (1.0 + dnp.tanh(inner)))
    return 0.5 * x * lax.erfc(-x * math.sqrt(0.5))


@operation
def softplus(x: Any) -> Any:
    """Return ``log(1 + exp(x))``."""
    return dnp.logaddexp(x, 0)


@operation
def soft_sign(x: Any) -> Any:
    """Return ``x / (1 + |x|)``."""
    return x / (dnp.abs(x) + 1)


@operation
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent."""
    return dnp.tanh(x)


@operation
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """Return ``x`` above 0, else ``alpha * (exp(x) - 1)``."""
    (x,) = fractions(x)
    below = dnp.where(x > 0, 0.0, x)  # so that exp overflows nowhere, in gradients too
    return dnp.where(x > 0, x, alpha * dnp.expm1(below))


@operation
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """Return ``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``."""
    (x,) = fractions(x)
    below = dnp.where(x > 0, 0.0, x)
    return dnp.where(x > 0, x, alpha * dnp.expm1(below / alpha))


@operation
def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Any:
    """Return ``x`` from 0 on, else ``negative_slope * x``."""
    return dnp.where(dnp.greater_equal(x, 0), x, negative_slope * x)


@operation
def hard_sigmoid(x: Any) -> Any:
    """Return ``relu6(x + 3) / 6``."""
    return relu6(x + 3.0) / 6.0


@operation
def hard_tanh(x: Any) -> Any:
    """Return ``x`` moved into [-1, 1]."""
    return dnp.where(x > 1, 1, dnp.where(x < -1, -1, x))

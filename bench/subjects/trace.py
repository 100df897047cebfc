"""Tracing and lowering: from a Python function to the text that a compiler takes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Timed, repeated
from bench.subjects._data import both_sides

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

LAYERS = "trace and lower 12 layers of an MLP with normalisation, about 370 operations"
GRADIENT = "trace and lower their gradient"
COMPILE = "compile them (XLA's own time in both)"

SPECS = [Spec(LAYERS), Spec(GRADIENT), Spec(COMPILE)]


def _cases(api: Any) -> dict[str, Factory]:
    return {
        LAYERS: lambda: _lowered(api, lambda f: f),
        GRADIENT: lambda: _lowered(api, api.grad),
        COMPILE: lambda: _compiled(api),
    }


devrt_cases, jax_cases = both_sides(_cases)


def _loss(api: Any) -> Callable[[Any, Any], Any]:
    """Return a new function each time, as both sides keep what they traced of one."""
    jnp = import_module(f"{api.__name__}.numpy")

    def loss(weights: Any, x: Any) -> Any:
        for w, b in weights:
            y = x @ w + b
            mean = y.mean(axis=-1, keepdims=True)
            scale = jnp.sqrt(((y - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
            y = (y - mean) / scale
            x = x + jnp.maximum(y, 0.0) * jnp.tanh(y) - jnp.exp(-y * y) * 0.5
        return (x * x).sum()

    return loss


def _arguments() -> tuple[Any, Any]:
    weights = [(np.ones((16, 16), np.float32), np.ones(16, np.float32)) for _ in range(12)]
    return weights, np.ones((4, 16), np.float32)


def _lowered(api: Any, transform: Callable[[Any], Any]) -> Timed:
    arguments = _arguments()
    return repeated(lambda a: api.jit(transform(_loss(api))).lower(*a).as_text(), arguments)


def _compiled(api: Any) -> Timed:
    if api.__name__ == "devrt":  # which else takes it from the disk cache, as jax does not
        api.clear_backends()  # whose options stay while there is a client
        api.config.update("enable_compilation_cache", False)
    arguments = _arguments()
    return Timed(
        lambda made: made.compile(),
        lambda loops: [api.jit(_loss(api)).lower(*arguments) for _ in range(loops)],
        max_loops=2,
    )

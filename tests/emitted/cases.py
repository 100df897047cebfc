"""A program for every operation that traced functions are printed with.

`named_operations` reads their names from the sources, so that one without a program is found.
"""

import ast
import importlib.util
import re
from pathlib import Path

import numpy as np

import devrt
import devrt.numpy as jnp
from devrt import NamedSharding, P, lax

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "packages/devrt-core/src/devrt"
LAX_CASES = ROOT / "packages/devrt-cpu/tests/computing/lax_cases.py"
DEVICES = 8

STABLEHLO = """
    abs add after_all all_gather all_reduce all_to_all and atan2 bitcast_convert
    broadcast_in_dim case cbrt ceil cholesky clamp collective_broadcast collective_permute
    compare complex concatenate constant convert convolution cosine count_leading_zeros
    custom_call divide dot_general dynamic_slice dynamic_update_slice exponential
    exponential_minus_one fft floor gather get_tuple_element imag infeed iota is_finite log
    log_plus_one logistic maximum minimum multiply negate not optimization_barrier or outfeed
    pad partition_id popcnt power real recv reduce reduce_precision reduce_scatter reduce_window
    remainder replica_id reshape reverse rng rng_bit_generator round_nearest_afz
    round_nearest_even rsqrt scatter select select_and_scatter shift_left shift_right_arithmetic
    shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose triangular_solve
    while xor
""".split()
"""Operations of StableHLO that are named without their dialect in places."""

NOT_PRINTED = {
    *("stablehlo.channel_handle", "stablehlo.conv", "stablehlo.dot"),  # attributes
    # Gradients know them, and nothing makes them.
    *("chlo.is_inf", "chlo.is_neg_inf", "chlo.is_pos_inf", "chlo.square", "chlo.tan"),
}
"""Names in the sources that are no operations of programs."""

_DOTTED = re.compile(
    r"\b(?:(?:stablehlo|chlo)\.[a-z_0-9]+|sdy\.manual_computation|"
    r"sdy\.sharding_constraint)\b"
)


def named_operations():
    """Return the operations that the sources name, with their dialect."""
    found = set()
    for folder in ("tracing", "numpy", "lax", "random"):
        for path in (SOURCES / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.update(_names(node.value))
    return found - NOT_PRINTED


def _names(text):
    return [f"stablehlo.{text}"] if text in STABLEHLO else _DOTTED.findall(text)


F = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)
SQUARE = np.eye(4, dtype=np.float32) * 2


SHARDS = P("x")


def _mapped(function, out=SHARDS):
    """Return a function that is run on each of the devices."""
    mesh = devrt.make_mesh((DEVICES,), ("x",))
    return devrt.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=out)


def _constrained(x):
    mesh = devrt.make_mesh((DEVICES,), ("x",))
    return lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("x"))) + 1


OVER_DEVICES = {
    "psum": lambda: _mapped(lambda x: lax.psum(x, "x"), P()),
    "all_gather": lambda: _mapped(lambda x: lax.all_gather(x, "x")),
    "all_to_all": lambda: _mapped(lambda x: lax.all_to_all(x, "x", 1, 0)),
    "ppermute": lambda: _mapped(
        lambda x: lax.ppermute(x, "x", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
    ),
    "psum_scatter": lambda: _mapped(lambda x: lax.psum_scatter(x, "x", scatter_dimension=1)),
    "axis_index": lambda: _mapped(lambda x: x + lax.axis_index("x")),
    "constraint": lambda: _constrained,
}

ALONE = {
    "case": lambda x: lax.cond(x[0, 0] > 0, lambda: x, lambda: -x),
    "while": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], x[0]),
    "host_call": lambda x: [devrt.debug.print("{}", x), x][1],
    "max_pool_gradient": lambda x: devrt.grad(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "SAME").sum()
    )(x[None, :, :, None]),
    "conjugate_gradient": lambda x: devrt.grad(lambda c: jnp.abs(c).sum())(lax.complex(x, x)),
    "cholesky": lambda x: jnp.linalg.cholesky(SQUARE + x[0, 0]),
    "solve": lambda x: jnp.linalg.solve(SQUARE + x[0, 0], x.T),
    "qr": lambda x: jnp.linalg.qr(x),
    "eigh": lambda x: jnp.linalg.eigh(SQUARE + x[0, 0]),
    "fft": lambda x: jnp.fft.fft(x),
    "normal": lambda x: x + devrt.random.normal(devrt.random.key(0), x.shape),
}
"""Functions of one array; those of `lax_cases` come before them."""


def programs():
    """Yield the name and the text of each program."""
    spec = importlib.util.spec_from_file_location("lax_cases", LAX_CASES)
    lax_cases = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lax_cases)
    names = lax_cases.names(lax)
    for text in (text for group in lax_cases.CASES.values() for text in group):
        yield text, devrt.jit(lambda text=text: eval(text, names)).lower().as_text()
    for name, function in ALONE.items():
        yield name, devrt.jit(function).lower(F).as_text()
    mesh = devrt.make_mesh((DEVICES,), ("x",))
    whole = np.ones((DEVICES, DEVICES), np.float32)
    divided = devrt.device_put(whole, NamedSharding(mesh, P("x")))
    for name, make in OVER_DEVICES.items():
        yield name, devrt.jit(make()).lower(divided).as_text()


_OPERATION = re.compile(r"(?<![@#.\w])\"?((?:stablehlo|chlo)\.[a-z_0-9]+|sdy\.[a-z_]+)\"?[ (]")


def operations_of(text):
    """Return the operations of a program's text."""
    return {name for name in _OPERATION.findall(text) if not name.endswith((".return", ".mesh"))}


def chosen():
    """Return few programs that together hold every operation: their texts by name."""
    found, seen = {}, set()
    for name, text in programs():
        operations = operations_of(text)
        if not operations <= seen:
            found[name] = text
            seen |= operations
    return found

"""Programs of the cases: StableHLO written around the types of NumPy arrays, and their calls."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.contract import Client, Device, LoadedExecutable
from devrt.testing.conformance.expect import expect_equal, require
from devrt.testing.conformance.material import Array, expect_close
from devrt.testing.conformance.subject import Subject

__all__ = [
    "DOUBLE",
    "compiled",
    "compute",
    "compute_each",
    "program",
    "slow",
    "takes_programs",
    "tensor",
]

_ELEMENTS = {
    "bool": "i1",
    "bfloat16": "bf16",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}

DOUBLE = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %r = stablehlo.add %a, %a : tensor<8xf32>
  return %r : tensor<8xf32> }"""


def tensor(array: Array) -> str:
    """Return MLIR's type of an array."""
    name = dtypes.from_numpy(array.dtype).name
    if name in _ELEMENTS:
        element = _ELEMENTS[name]
    else:
        short = name.replace("uint", "ui").replace("float", "f")
        element = short.replace("int", "i") if "ui" not in short else short
    return f"tensor<{''.join(f'{n}x' for n in array.shape)}{element}>"


def program(body: str, arguments: Sequence[Array], results: Sequence[Array], more: str = "") -> str:
    """Return a module whose ``@main`` has a body between parameters and results of these types.

    Parameters are ``%a``, ``%b`` ..., the results of the body ``%r``, ``%s`` ...; ``$a`` and ``$r``
    in the body stand for their types. ``more`` are other functions.
    """
    given = dict(zip("abcdefgh", map(tensor, arguments), strict=False))
    made = dict(zip("rstuv", map(tensor, results), strict=False))
    filled = string.Template(body).substitute(given | made)
    return _module(filled, given, list(made.items()), more)


def _module(body: str, given: dict[str, str], made: list[tuple[str, str]], more: str = "") -> str:
    head = ", ".join(f"%{name}: {kind}" for name, kind in given.items())
    names = ", ".join(f"%{name}" for name, _ in made)
    kinds = ", ".join(kind for _, kind in made)
    end = f"return {names} : {kinds}" if made else "return"
    main = f"func.func public @main({head}) -> ({kinds}) {{\n{body}\n{end}\n}}"
    return f"module {{\n{more}\n{main}\n}}"


def takes_programs(subject: Subject) -> Client:
    """Return the client; not applicable unless it compiles StableHLO."""
    client = subject.client
    require("stablehlo" in client.capabilities.formats, "its client compiles no StableHLO")
    return client


def compiled(
    subject: Subject, text: str, devices: Sequence[Device] | None = None, **options: Any
) -> LoadedExecutable:
    """Compile StableHLO; not applicable where the client takes none."""
    return takes_programs(subject).compile_and_load(text, devices, **options)


def compute(
    subject: Subject,
    what: str,
    body: str,
    arguments: Sequence[Any],
    expected: Any,
    tolerance: float = 1e-4,
    more: str = "",
) -> None:
    """Run a body on arrays; fail unless its results are those expected (an array or a list)."""
    given = [np.asarray(a) for a in arguments]
    wanted = [np.asarray(e) for e in (expected if isinstance(expected, list) else [expected])]
    executable = compiled(subject, program(body, given, wanted, more))
    buffers = [subject.client.buffer_from_pyval(a, subject.device) for a in given]
    results = executable.execute(buffers)
    expect_equal(len(results), len(wanted), f"how many results {what} has")
    for number, (came, right) in enumerate(zip(results, wanted, strict=True)):
        expect_close(came, right, f"result {number} of {what}", tolerance)


def compute_each(
    subject: Subject,
    arguments: Sequence[Any],
    rows: Sequence[tuple[str, str, Any]],
    tolerance: float = 1e-4,
) -> None:
    """Run one program of several statements, each of which makes ``%r`` of the same arguments.

    A row has a name, the statement, in which ``$a`` and ``$r`` stand for types, and what it makes.
    """
    given = [np.asarray(a) for a in arguments]
    kinds = dict(zip("abcdefgh", map(tensor, given), strict=False))
    wanted = [np.asarray(expected) for _, _, expected in rows]
    made = [(f"r{number}", tensor(each)) for number, each in enumerate(wanted)]
    lines = []
    for (name, kind), (_, statement, _) in zip(made, rows, strict=True):
        filled = string.Template(statement).substitute(kinds | {"r": kind})
        lines.append(filled.replace("%r", f"%{name}"))
    executable = compiled(subject, _module("\n".join(lines), kinds, made))
    buffers = [subject.client.buffer_from_pyval(a, subject.device) for a in given]
    results = executable.execute(buffers)
    expect_equal(len(results), len(rows), "how many results there are")
    for (what, _, _), came, right in zip(rows, results, wanted, strict=True):
        expect_close(came, right, what, tolerance)


def slow(subject: Subject, size: int = 384, steps: int = 60) -> tuple[LoadedExecutable, Array]:
    """Return a program that takes much longer than its call, and its argument."""
    kind = f"tensor<{size}x{size}xf32>"
    text = f"""func.func @main(%a: {kind}) -> {kind} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %many = stablehlo.constant dense<{steps}> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %m = %a) : tensor<i32>, {kind}
    cond {{
      %p = stablehlo.compare LT, %i, %many : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %n = stablehlo.dot %m, %a : ({kind}, {kind}) -> {kind}
      stablehlo.return %j, %n : tensor<i32>, {kind}
    }}
  return %w#1 : {kind} }}"""
    return compiled(subject, text), np.eye(size, dtype=np.float32)

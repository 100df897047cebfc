"""Operators of StableHLO on elements: each against what NumPy says of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.testing.conformance.case import case
from devrt.testing.conformance.material import Array, is_held
from devrt.testing.conformance.programs import compute, compute_each, takes_programs
from devrt.testing.conformance.subject import Subject

RUNS = "Client.compile_and_load, LoadedExecutable.execute"
F = np.array([-2.5, -1.5, -0.5, -0.0, 0.25, 0.5, 1.5, 3.75], np.float32)
P = np.array([0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 10.0, 1e4], np.float32)
G = np.array([2.0, -3.0, 0.5, 1.0, -0.75, 8.0, -1.25, 0.1], np.float32)
I = np.array([-7, -3, -1, 0, 1, 2, 6, 1 << 20], np.int32)  # noqa: E741
J = np.array([2, -2, 3, 5, -4, 7, 4, 3], np.int32)


def _away_from_zero(x: Array) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


OF_ANY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "negate": np.negative,
    "ceil": np.ceil,
    "floor": np.floor,
    "sign": np.sign,
    "cosine": np.cos,
    "sine": np.sin,
    "tan": np.tan,
    "tanh": np.tanh,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "cbrt": np.cbrt,
    "round_nearest_even": np.rint,
    "round_nearest_afz": _away_from_zero,
}
OF_POSITIVE: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log_plus_one": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "remainder": np.fmod,
    "atan2": np.arctan2,
}

Rows = Sequence[tuple[str, Any]]


def _each(subject: Subject, arguments: list[Any], rows: Rows) -> None:
    """Run operators on the same arguments, whose type they give."""
    names = ", ".join(f"%{letter}" for letter in "abc"[: len(arguments)])
    statements = [(name, f"%r = stablehlo.{name} {names} : $r", made) for name, made in rows]
    compute_each(subject, arguments, statements)


@case("execute", "functions of one number agree with NumPy", contract=RUNS, deadline=120)
def functions_of_one_number(subject: Subject) -> None:
    takes_programs(subject)
    for source, functions in ((F, OF_ANY), (P, OF_POSITIVE)):
        rows = [(name, f(source).astype(np.float32)) for name, f in functions.items()]
        _each(subject, [source], rows)


@case("execute", "functions of two numbers agree with NumPy", contract=RUNS, deadline=60)
def functions_of_two_numbers(subject: Subject) -> None:
    takes_programs(subject)
    _each(subject, [F, G], [(name, f(F, G).astype(np.float32)) for name, f in OF_TWO.items()])
    _each(subject, [P[:6], G[:6]], [("power", np.power(P[:6], G[:6]))])


def _divided(x: Array, y: Array) -> Any:
    return np.trunc(x / y).astype(x.dtype)


@case(
    "execute",
    "arithmetic of integers truncates and keeps signs as XLA's",
    contract=RUNS,
    deadline=60,
)
def arithmetic_of_integers(subject: Subject) -> None:
    takes_programs(subject)
    pairs = [
        ("add", I + J),
        ("subtract", I - J),
        ("multiply", I * J),
        ("divide", _divided(I, J)),
        ("remainder", np.fmod(I, J)),
        ("maximum", np.maximum(I, J)),
        ("minimum", np.minimum(I, J)),
    ]
    _each(subject, [I, J], pairs)
    _each(subject, [I], [("abs", np.abs(I)), ("negate", -I), ("sign", np.sign(I))])
    greatest, one = np.array([2**31 - 1], np.int32), np.array([1], np.int32)
    _each(subject, [greatest, one], [("add", np.array([-(2**31)], np.int32))])


@case("execute", "operations on bits agree with NumPy", contract=RUNS, deadline=60)
def operations_on_bits(subject: Subject) -> None:
    takes_programs(subject)
    by = np.array([0, 1, 2, 3, 4, 5, 6, 31], np.int32)
    left, right = np.array([True, True, False, False]), np.array([True, False, True, False])
    unsigned, shifts = I.view(np.uint32), by.view(np.uint32)
    words = unsigned.tolist()
    _each(subject, [I, J], [("and", I & J), ("or", I | J), ("xor", I ^ J)])
    _each(subject, [left, right], [("and", left & right), ("xor", left ^ right)])
    _each(subject, [left], [("not", ~left)])
    moved = [
        ("shift_left", (unsigned << shifts).view(np.int32)),
        ("shift_right_arithmetic", I >> by),
        ("shift_right_logical", (unsigned >> shifts).view(np.int32)),
    ]
    _each(subject, [I, by], moved)
    counts = [
        ("not", ~I),
        ("popcnt", np.array([n.bit_count() for n in words], np.int32)),
        ("count_leading_zeros", np.array([32 - n.bit_length() for n in words], np.int32)),
    ]
    _each(subject, [I], counts)


@case("execute", "sums and products of every dtype agree with NumPy", contract=RUNS, deadline=90)
def arithmetic_of_every_dtype(subject: Subject) -> None:
    takes_programs(subject)
    names = ("int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64")
    for name in (*names, "float16", "bfloat16", "float64", "complex64", "complex128"):
        if is_held(subject, name):
            dtype = dtypes.to_numpy(dtypes.by_name(name).code)
            x, y = (np.arange(start, start + 8).astype(dtype) for start in (1, 5))
            body = "%0 = stablehlo.multiply %a, %b : $a\n%r = stablehlo.add %0, %b : $a"
            expected = (x * y + y).astype(dtype)
            compute(subject, f"a * b + b of {name}", body, [x, y], expected, 1e-2)


@case("execute", "comparisons agree with NumPy, of NaN too", contract=RUNS, deadline=60)
def comparisons(subject: Subject) -> None:
    takes_programs(subject)
    nan, inf = np.float32("nan"), np.float32("inf")
    x = np.array([1, 2, 3, nan, inf, -inf, 0.0, nan], np.float32)
    y = np.array([2, 2, 1, nan, inf, inf, -0.0, 1], np.float32)
    unsigned = I.view(np.uint32), J.view(np.uint32)
    for left, right in ((x, y), (I, J), unsigned):
        rows = []
        for name, compare in (
            ("EQ", np.equal), ("NE", np.not_equal), ("LT", np.less),
            ("LE", np.less_equal), ("GT", np.greater), ("GE", np.greater_equal),
        ):  # fmt: skip
            statement = f"%r = stablehlo.compare {name}, %a, %b : ($a, $b) -> $r"
            rows.append((f"compare {name}", statement, compare(left, right)))
        compute_each(subject, [left, right], rows)


@case("execute", "select, clamp and is_finite choose as NumPy does", contract=RUNS)
def choices(subject: Subject) -> None:
    takes_programs(subject)
    truths = np.arange(8) % 3 == 0
    compute(
        subject, "select", "%r = stablehlo.select %a, %b, %c : $a, $b", [truths, F, G],
        np.where(truths, F, G),
    )  # fmt: skip
    low, high = np.float32(-1), np.float32(1)
    compute(
        subject, "clamp", "%r = stablehlo.clamp %a, %b, %c : ($a, $b, $c) -> $r", [low, F, high],
        np.clip(F, low, high),
    )  # fmt: skip
    unusual = np.array([1, np.inf, -np.inf, np.nan, 0, 1e38], np.float32)
    body = "%r = stablehlo.is_finite %a : ($a) -> $r"
    compute(subject, "is_finite", body, [unusual], np.isfinite(unusual))


@case("execute", "conversions between dtypes agree with NumPy", contract=RUNS, deadline=90)
def conversions(subject: Subject) -> None:
    takes_programs(subject)
    truths = np.array([True, False, True])
    small = np.array([0, 1, 2, 100], np.uint8)
    for source, targets in (
        (F, ("int32", "bfloat16", "float16", "float64", "complex64")),
        (I, ("float32", "int8", "int64")),
        (small, ("int32", "float32")),
        (truths, ("float32", "int32")),
    ):
        rows = []
        for name in targets:
            if is_held(subject, name):
                made = source.astype(dtypes.to_numpy(dtypes.by_name(name).code))
                statement = "%r = stablehlo.convert %a : ($a) -> $r"
                rows.append((f"{source.dtype} to {name}", statement, made))
        compute_each(subject, [source], rows)
    body = "%r = stablehlo.bitcast_convert %a : ($a) -> $r"
    compute(subject, "the bits of float32", body, [F], F.view(np.int32))
    truth_of = "%z = stablehlo.constant dense<0.0> : $a\n"
    truth_of += "%r = stablehlo.compare NE, %a, %z : ($a, $a) -> $r"
    compute(subject, "float32 to truth", truth_of, [F], F != 0)


@case("execute", "complex numbers agree with NumPy", contract=RUNS, deadline=60)
def complex_numbers(subject: Subject) -> None:
    takes_programs(subject)
    if not is_held(subject, "complex64"):
        return
    z = (F + 1j * G).astype(np.complex64)
    compute(subject, "complex", "%r = stablehlo.complex %a, %b : $r", [F, G], z)
    compute(subject, "real", "%r = stablehlo.real %a : ($a) -> $r", [z], z.real)
    compute(subject, "imag", "%r = stablehlo.imag %a : ($a) -> $r", [z], z.imag)
    compute(subject, "abs", "%r = stablehlo.abs %a : ($a) -> $r", [z], np.abs(z))
    compute(subject, "multiply", "%r = stablehlo.multiply %a, %a : $a", [z], z * z)
    compute(subject, "exponential", "%r = stablehlo.exponential %a : $a", [z], np.exp(z), 1e-3)


@case("execute", "NaN, infinities and signed zeros go through programs", contract=RUNS)
def special_values(subject: Subject) -> None:
    takes_programs(subject)
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30], np.float32)
    with np.errstate(all="ignore"):
        compute(subject, "a + a", "%r = stablehlo.add %a, %a : $a", [x], x + x)
        compute(subject, "a - a", "%r = stablehlo.subtract %a, %a : $a", [x], x - x)
        compute(subject, "1 / a", "%r = stablehlo.divide %b, %a : $a", [x, np.ones_like(x)], 1 / x)
        other = np.array([1, np.nan, 1, 0.0, -0.0, 2], np.float32)
        body = "%r = stablehlo.maximum %a, %b : $a"
        compute(subject, "maximum with NaN", body, [x, other], np.maximum(x, other))


@case("execute", "constants of programs have their values", contract=RUNS, deadline=60)
def constants(subject: Subject) -> None:
    takes_programs(subject)
    rows: tuple[tuple[str, Any], ...] = (
        ("dense<[1, -2, 3]>", np.array([1, -2, 3], np.int32)),
        ("dense<[[1.5, -2.5], [0.0, 1.0e3]]>", np.array([[1.5, -2.5], [0, 1e3]], np.float32)),
        ("dense<7>", np.full((3, 4), 7, np.int8)),
        ("dense<[true, false]>", np.array([True, False])),
        ("dense<true>", np.array(True)),
        ('dense<"0x0000803F000000C0">', np.array([1, -2], np.float32)),
        ("dense<0x7F800000>", np.array(np.inf, np.float32)),
        ("dense<>", np.zeros((0,), np.float32)),
    )
    statements = [(text, f"%r = stablehlo.constant {text} : $r", made) for text, made in rows]
    compute_each(subject, [], statements)

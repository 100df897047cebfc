"""Small programs of several operators, as frameworks make them, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect
from devrt.testing.conformance.material import Array, put
from devrt.testing.conformance.programs import compiled, compute, program, takes_programs
from devrt.testing.conformance.subject import Subject

RUNS = "Client.compile_and_load, LoadedExecutable.execute"


def _random(*shape: int, seed: int = 11) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    made: Array = e / e.sum(-1, keepdims=True)
    return made


SOFTMAX = """func.func private @softmax(%x: tensor<SHAPExf32>) -> tensor<SHAPExf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<SHAPExf32>, tensor<f32>) -> tensor<ROWSxf32>
  %n = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<ROWSxf32>) -> tensor<SHAPExf32>
  %d = stablehlo.subtract %x, %n : tensor<SHAPExf32>
  %e = stablehlo.exponential %d : tensor<SHAPExf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<SHAPExf32>, tensor<f32>) -> tensor<ROWSxf32>
  %t = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<ROWSxf32>) -> tensor<SHAPExf32>
  %r = stablehlo.divide %e, %t : tensor<SHAPExf32>
  return %r : tensor<SHAPExf32> }"""


@case("execute", "two dense layers agree with NumPy", contract=RUNS)
def dense_layers(subject: Subject) -> None:
    takes_programs(subject)
    x, v, w = _random(16, 32), _random(32, 64, seed=1) / 8, _random(64, 10, seed=2) / 8
    bias = _random(64, seed=3)
    body = """%h = stablehlo.dot %a, %b : ($a, $b) -> tensor<16x64xf32>
      %i = stablehlo.broadcast_in_dim %d, dims = [1] : ($d) -> tensor<16x64xf32>
      %j = stablehlo.add %h, %i : tensor<16x64xf32>
      %k = stablehlo.tanh %j : tensor<16x64xf32>
      %r = stablehlo.dot %k, %c : (tensor<16x64xf32>, $c) -> $r"""
    expected = (np.tanh(x @ v + bias) @ w).astype(np.float32)
    compute(subject, "two dense layers", body, [x, v, w, bias], expected, 1e-2)


@case("execute", "attention agrees with NumPy", contract=RUNS)
def attention(subject: Subject) -> None:
    takes_programs(subject)
    q, k, v = (_random(12, 8, seed=seed) for seed in (4, 5, 6))
    body = """%k = stablehlo.transpose %b, dims = [1, 0] : ($b) -> tensor<8x12xf32>
      %s = stablehlo.dot %a, %k : ($a, tensor<8x12xf32>) -> tensor<12x12xf32>
      %p = func.call @softmax(%s) : (tensor<12x12xf32>) -> tensor<12x12xf32>
      %r = stablehlo.dot %p, %c : (tensor<12x12xf32>, $c) -> $r"""
    more = SOFTMAX.replace("SHAPE", "12x12").replace("ROWS", "12")
    expected = (_softmax(q @ k.T) @ v).astype(np.float32)
    compute(subject, "attention", body, [q, k, v], expected, 1e-2, more)


@case("execute", "a normalised layer agrees with NumPy", contract=RUNS)
def normalised_layer(subject: Subject) -> None:
    takes_programs(subject)
    x = _random(6, 16) * 3 + 1
    body = """%zero = stablehlo.constant dense<0.0> : tensor<f32>
      %count = stablehlo.constant dense<16.0> : tensor<6xf32>
      %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
        : ($a, tensor<f32>) -> tensor<6xf32>
      %m = stablehlo.divide %s, %count : tensor<6xf32>
      %n = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<6xf32>) -> $a
      %d = stablehlo.subtract %a, %n : $a
      %q = stablehlo.multiply %d, %d : $a
      %t = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [1]
        : ($a, tensor<f32>) -> tensor<6xf32>
      %v = stablehlo.divide %t, %count : tensor<6xf32>
      %i = stablehlo.rsqrt %v : tensor<6xf32>
      %j = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<6xf32>) -> $a
      %r = stablehlo.multiply %d, %j : $a"""
    expected = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    compute(subject, "a normalised layer", body, [x], expected.astype(np.float32), 1e-3)


@case("execute", "Newton's iteration in a loop finds the root", contract=RUNS)
def newton_iteration(subject: Subject) -> None:
    takes_programs(subject)
    x = np.array([2.0, 9.0, 100.0, 0.25], np.float32)
    body = """%zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %many = stablehlo.constant dense<20> : tensor<i32>
      %half = stablehlo.constant dense<0.5> : $a
      %w:2 = stablehlo.while(%i = %zero, %y = %a) : tensor<i32>, $a
        cond { %p = stablehlo.compare LT, %i, %many : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %j = stablehlo.add %i, %one : tensor<i32>
             %q = stablehlo.divide %a, %y : $a
             %s = stablehlo.add %y, %q : $a
             %n = stablehlo.multiply %s, %half : $a
             stablehlo.return %j, %n : tensor<i32>, $a }
      %r = stablehlo.add %w#1, %w#1 : $a"""
    compute(subject, "Newton's iteration", body, [x], 2 * np.sqrt(x), 1e-4)


@case("execute", "steps of training with donated weights lower the loss as NumPy's do",
      contract=RUNS)  # fmt: skip
def training_steps(subject: Subject) -> None:
    takes_programs(subject)
    x, wanted, weights = _random(32, 8), _random(32, 1, seed=7), np.zeros((8, 1), np.float32)
    body = """%rate = stablehlo.constant dense<0.01> : $c
      %p = stablehlo.dot %a, %c : ($a, $c) -> $b
      %d = stablehlo.subtract %p, %b : $b
      %t = stablehlo.transpose %a, dims = [1, 0] : ($a) -> tensor<8x32xf32>
      %g = stablehlo.dot %t, %d : (tensor<8x32xf32>, $b) -> $c
      %s = stablehlo.multiply %g, %rate : $c
      %r = stablehlo.subtract %c, %s : $c"""
    text = program(body, [x, wanted, weights], [weights])
    if subject.client.capabilities.donation:
        text = text.replace(
            "tensor<8x1xf32>)", "tensor<8x1xf32> {tf.aliasing_output = 0 : i32})", 1
        )
    step = compiled(subject, text)
    a, b, c = (put(subject, array, subject.device) for array in (x, wanted, weights))
    for _ in range(40):
        (c,) = step.execute([a, b, c])
        weights = weights - np.float32(0.01) * (x.T @ (x @ weights - wanted))
    _is_close(np.asarray(c), weights)


def _is_close(came: Any, expected: Array) -> None:
    is_close = np.allclose(came, expected, rtol=1e-2, atol=1e-2)
    expect(is_close, expected=expected.ravel()[:4], came=came.ravel()[:4])


@case("execute", "a mixed program of bfloat16 and integers agrees with NumPy", contract=RUNS)
def mixed_dtypes(subject: Subject) -> None:
    takes_programs(subject)
    codes = np.array([3, 0, 2, 3, 1], np.int32)
    table = _random(4, 6)
    body = """%i = stablehlo.iota dim = 1 : tensor<5x4xi32>
      %c = stablehlo.broadcast_in_dim %a, dims = [0] : ($a) -> tensor<5x4xi32>
      %h = stablehlo.compare EQ, %i, %c : (tensor<5x4xi32>, tensor<5x4xi32>) -> tensor<5x4xi1>
      %f = stablehlo.convert %h : (tensor<5x4xi1>) -> tensor<5x4xbf16>
      %g = stablehlo.convert %f : (tensor<5x4xbf16>) -> tensor<5x4xf32>
      %r = stablehlo.dot %g, %b : (tensor<5x4xf32>, $b) -> $r"""
    compute(subject, "an embedding", body, [codes, table], table[codes], 1e-2)

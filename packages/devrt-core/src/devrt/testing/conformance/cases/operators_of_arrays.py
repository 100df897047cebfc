"""Operators of StableHLO on whole arrays: shapes, reductions, products, selection, order, loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.errors import UnimplementedError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect_equal, not_applicable
from devrt.testing.conformance.material import Array, is_held
from devrt.testing.conformance.programs import compiled, compute, program, takes_programs
from devrt.testing.conformance.subject import Subject

RUNS = "Client.compile_and_load, LoadedExecutable.execute"
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
M = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def _reducer(operation: str, kind: str) -> str:
    return (
        f"({{\n^bb0(%x: tensor<{kind}>, %y: tensor<{kind}>):\n"
        f"  %q = stablehlo.{operation} %x, %y : tensor<{kind}>\n"
        f"  stablehlo.return %q : tensor<{kind}>\n}})"
    )


@case("execute", "operations on shapes move elements as NumPy does", contract=RUNS, deadline=90)
def operations_on_shapes(subject: Subject) -> None:
    takes_programs(subject)
    padded = np.full((4, 9), 9, np.float32)
    padded[1:4, 1:8:2] = M
    rows: tuple[tuple[str, str, list[Any], Any], ...] = (
        ("reshape", "%r = stablehlo.reshape %a : ($a) -> $r", [X], X.reshape(4, 6)),
        ("transpose", "%r = stablehlo.transpose %a, dims = [2, 0, 1] : ($a) -> $r", [X],
         X.transpose(2, 0, 1)),
        ("broadcast_in_dim", "%r = stablehlo.broadcast_in_dim %a, dims = [1, 2] : ($a) -> $r",
         [M], np.broadcast_to(M, (5, 3, 4))),
        ("concatenate", "%r = stablehlo.concatenate %a, %b, dim = 1 : ($a, $b) -> $r",
         [M, M[:, :2]], np.concatenate([M, M[:, :2]], 1)),
        ("slice", "%r = stablehlo.slice %a [0:3:2, 1:4] : ($a) -> $r", [M], M[0:3:2, 1:4]),
        ("pad", "%r = stablehlo.pad %a, %b, low = [1, 1], high = [0, 1], interior = [0, 1] : "
         "($a, $b) -> $r", [M, np.float32(9)], padded),
        ("pad by less than nothing", "%r = stablehlo.pad %a, %b, low = [-1, 0], high = [0, -2], "
         "interior = [0, 0] : ($a, $b) -> $r", [M, np.float32(9)], M[1:, :2]),
        ("reverse", "%r = stablehlo.reverse %a, dims = [0, 2] : $a", [X], X[::-1, :, ::-1]),
        ("iota", "%r = stablehlo.iota dim = 1 : $r", [],
         np.broadcast_to(np.arange(4, dtype=np.int32), (3, 4))),
        ("dynamic_slice", "%r = stablehlo.dynamic_slice %a, %b, %c, sizes = [2, 2] : "
         "($a, $b, $c) -> $r", [M, np.int32(1), np.int32(9)], M[1:3, 2:4]),
        ("an empty part", "%r = stablehlo.slice %a [1:1, 0:4] : ($a) -> $r", [M], M[1:1]),
    )  # fmt: skip
    for what, body, arguments, expected in rows:
        compute(subject, what, body, arguments, np.ascontiguousarray(expected))
    updated = M.copy()
    updated[1:3, 2:4] = -1
    body = "%r = stablehlo.dynamic_update_slice %a, %b, %c, %d : ($a, $b, $c, $d) -> $r"
    update = np.full((2, 2), -1, np.float32)
    given = [M, update, np.int32(1), np.int32(2)]
    compute(subject, "dynamic_update_slice", body, given, updated)


@case("execute", "reductions agree with NumPy", contract=RUNS, deadline=90)
def reductions(subject: Subject) -> None:
    takes_programs(subject)
    numbers = np.random.default_rng(3).integers(-9, 9, (5, 7, 3)).astype(np.int32)
    truths = numbers > 0
    for name, start, source, axes, expected in (
        ("add", "0.0", X, (0, 2), X.sum((0, 2))),
        ("multiply", "1.0", X[:, 1:, 1:], (2,), X[:, 1:, 1:].prod(2)),
        ("maximum", "0xFF800000", X - 9, (1,), (X - 9).max(1)),
        ("minimum", "0x7F800000", X - 9, (0, 1, 2), (X - 9).min()),
        ("add", "0", numbers, (1,), numbers.sum(1, dtype=np.int32)),
        ("maximum", "-2147483648", numbers, (0,), numbers.max(0)),
        ("and", "true", truths, (2,), truths.all(2)),
        ("or", "false", truths, (0, 1), truths.any((0, 1))),
    ):
        kind = {"f": "f32", "i": "i32", "b": "i1"}[source.dtype.kind]
        body = f"""%c0 = stablehlo.constant dense<{start}> : tensor<{kind}>
          %r = stablehlo.reduce(%a init: %c0) applies stablehlo.{name} across dimensions =
            {list(axes)} : ($a, tensor<{kind}>) -> $r"""
        compute(subject, f"{name} over {axes}", body, [np.ascontiguousarray(source)], expected)


@case("execute", "windows of sums and maxima agree with NumPy", contract=RUNS)
def windows(subject: Subject) -> None:
    takes_programs(subject)
    image = np.random.default_rng(4).standard_normal((1, 6, 6, 2)).astype(np.float32)
    view = np.lib.stride_tricks.sliding_window_view(image, (2, 2), axis=(1, 2))[:, ::2, ::2]
    for name, start, expected in (
        ("add", "0.0", view.sum((-1, -2))),
        ("maximum", "0xFF800000", view.max((-1, -2))),
    ):
        body = f"""%c0 = stablehlo.constant dense<{start}> : tensor<f32>
          %r = "stablehlo.reduce_window"(%a, %c0) {_reducer(name, "f32")} {{
            window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>
          }} : ($a, tensor<f32>) -> $r"""
        compute(subject, f"windows of {name}", body, [image], expected.astype(np.float32))


@case("execute", "products of matrices agree with NumPy", contract=RUNS, deadline=60)
def products(subject: Subject) -> None:
    takes_programs(subject)
    random = np.random.default_rng(6)
    left, right = (random.standard_normal(s).astype(np.float32) for s in ((17, 33), (33, 9)))
    dot = "%r = stablehlo.dot %a, %b : ($a, $b) -> $r"
    compute(subject, "dot", dot, [left, right], left @ right, 1e-2)
    vector = right[:, 0].copy()
    compute(subject, "dot of vectors", dot, [vector, vector], np.dot(vector, vector), 1e-2)
    whole = random.integers(-9, 9, (8, 8)).astype(np.int32)
    compute(subject, "dot of integers", dot, [whole, whole], whole @ whole)
    batch = [random.standard_normal((3, 4, 5)).astype(np.float32) for _ in range(2)]
    body = """%r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0],
      contracting_dims = [2] x [2] : ($a, $b) -> $r"""
    compute(subject, "dot_general", body, batch, batch[0] @ batch[1].transpose(0, 2, 1), 1e-2)


def _convolved(image: Array, kernel: Array, stride: int) -> Array:
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[:2], axis=(1, 2))
    found: Array = np.einsum("nhwcij,ijco->nhwo", view[:, ::stride, ::stride], kernel)
    return found.astype(np.float32)


@case("execute", "convolutions agree with NumPy", contract=RUNS, deadline=60)
def convolutions(subject: Subject) -> None:
    takes_programs(subject)
    random = np.random.default_rng(7)
    image = random.standard_normal((2, 8, 8, 3)).astype(np.float32)
    kernel = random.standard_normal((3, 3, 3, 4)).astype(np.float32)
    for stride in (1, 2):
        body = f"""%r = stablehlo.convolution(%a, %b)
          dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
          window = {{stride = [{stride}, {stride}], pad = [[1, 1], [1, 1]]}}
          {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ($a, $b) -> $r"""
        expected = _convolved(image, kernel, stride)
        compute(subject, f"convolution, {stride=}", body, [image, kernel], expected, 1e-2)


@case("execute", "gather and scatter move rows as NumPy does", contract=RUNS, deadline=60)
def gather_and_scatter(subject: Subject) -> None:
    takes_programs(subject)
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    rows = np.array([[4], [0], [4], [2]], np.int32)
    body = """%r = "stablehlo.gather"(%a, %b) {
        dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
          start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 4>, indices_are_sorted = false } : ($a, $b) -> $r"""
    compute(subject, "gather", body, [table, rows], table[rows[:, 0]])
    updates = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = table.copy()
    np.add.at(expected, rows[:, 0], updates)
    body = f""" %r = "stablehlo.scatter"(%a, %b, %c) {_reducer("add", "f32")} {{
        scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
          inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
        indices_are_sorted = false, unique_indices = false }} : ($a, $b, $c) -> $r"""
    compute(subject, "scatter", body, [table, rows, updates], expected)


@case("execute", "sorting agrees with NumPy, and carries other arrays along", contract=RUNS)
def sorting(subject: Subject) -> None:
    takes_programs(subject)
    random = np.random.default_rng(8)
    keys = random.integers(0, 5, (3, 40)).astype(np.int32)
    order = np.argsort(keys, axis=1, kind="stable")
    carried = np.broadcast_to(np.arange(40, dtype=np.int32), keys.shape)
    body = """%x:2 = "stablehlo.sort"(%a, %b) ({
        ^bb0(%p: tensor<i32>, %q: tensor<i32>, %u: tensor<i32>, %v: tensor<i32>):
          %l = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %l : tensor<i1>
      }) {dimension = 1 : i64, is_stable = true} : ($a, $b) -> ($a, $b)
      %r = stablehlo.add %x#0, %x#0 : $a
      %s = stablehlo.add %x#1, %x#1 : $a"""
    expected = [2 * np.take_along_axis(keys, order, 1), 2 * order.astype(np.int32)]
    compute(subject, "a stable sort", body, [keys, np.ascontiguousarray(carried)], expected)


@case("execute", "loops, branches and calls of functions run as written", contract=RUNS)
def control_flow(subject: Subject) -> None:
    takes_programs(subject)
    fibonacci = """%zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %w:3 = stablehlo.while(%i = %zero, %p = %zero, %q = %one) : $a, $a, $a
        cond { %l = stablehlo.compare LT, %i, %a : ($a, $a) -> tensor<i1>
               stablehlo.return %l : tensor<i1> }
        do { %j = stablehlo.add %i, %one : $a
             %n = stablehlo.add %p, %q : $a
             stablehlo.return %j, %q, %n : $a, $a, $a }
      %r = func.call @twice(%w#1) : ($a) -> $a"""
    twice = """func.func private @twice(%x: tensor<i32>) -> tensor<i32> {
      %0 = stablehlo.add %x, %x : tensor<i32> return %0 : tensor<i32> }"""
    for count, number in ((0, 0), (1, 1), (20, 6765)):
        given = [np.int32(count)]
        compute(subject, "a loop", fibonacci, given, np.int32(2 * number), more=twice)
    branch = """%r = "stablehlo.if"(%a) ({ stablehlo.return %b : $b }, {
        %n = stablehlo.negate %b : $b
        stablehlo.return %n : $b }) : ($a) -> $r"""
    for truth in (True, False):
        compute(subject, "if", branch, [np.array(truth), M], M if truth else -M)
    several = """%r = "stablehlo.case"(%a) ({ stablehlo.return %b : $b }, {
        %n = stablehlo.negate %b : $b
        stablehlo.return %n : $b }, {
        %n = stablehlo.add %b, %b : $b
        stablehlo.return %n : $b }) : ($a) -> $r"""
    for number, expected in ((0, M), (1, -M), (2, M + M), (-1, M + M), (9, M + M)):
        compute(subject, f"case {number}", several, [np.int32(number), M], expected)


@case("execute", "Fourier transforms agree with NumPy", contract=RUNS)
def fourier_transforms(subject: Subject) -> None:
    takes_programs(subject)
    if not is_held(subject, "complex64"):
        not_applicable("it holds no complex64")
    real = np.random.default_rng(9).standard_normal((3, 16)).astype(np.float32)
    z = (real + 1j * real[::-1]).astype(np.complex64)
    for name, source, expected in (
        ("FFT", z, np.fft.fft(z)),
        ("IFFT", z, np.fft.ifft(z)),
        ("RFFT", real, np.fft.rfft(real)),
    ):
        body = f"%r = stablehlo.fft %a, type = {name}, length = [16] : ($a) -> $r"
        compute(subject, name, body, [source], expected.astype(np.complex64), 1e-3)


@case("execute", "triangular systems and Cholesky factors agree with NumPy", contract=RUNS)
def factors(subject: Subject) -> None:
    takes_programs(subject)
    root = np.tril(np.random.default_rng(10).standard_normal((5, 5))) + 4 * np.eye(5)
    square, low = (root @ root.T).astype(np.float32), root.astype(np.float32)
    right = np.arange(10, dtype=np.float32).reshape(5, 2)
    # The other half of the result is whatever the compiler leaves there.
    body = """%f = stablehlo.cholesky %a, lower = true : $a
      %r = stablehlo.multiply %f, %b : $a"""
    mask = np.tril(np.ones((5, 5), np.float32))
    expected = np.linalg.cholesky(square)
    try:
        compute(subject, "cholesky", body, [square, mask], expected.astype(np.float32), 1e-2)
    except UnimplementedError as error:
        not_applicable(f"no Cholesky factors: {error}")
    body = """%r = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true,
      unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : ($a, $b) -> $r"""
    solved = np.linalg.solve(low.astype(np.float64), right).astype(np.float32)
    compute(subject, "triangular_solve", body, [low, right], solved, 1e-2)


@case("execute", "random bits depend on nothing but their state", contract=RUNS)
def random_bits(subject: Subject) -> None:
    takes_programs(subject)
    if not is_held(subject, "uint64"):
        not_applicable("it holds no uint64, which states are")
    state, bits = np.array([1, 2], np.uint64), np.zeros((64,), np.uint32)
    body = """%s, %r = stablehlo.rng_bit_generator %a, algorithm = THREE_FRY : ($a) -> ($s, $r)"""
    executable = compiled(subject, program(body, [state], [bits, state]))
    made = []
    for seed in (state, state, state + np.uint64(1)):
        buffer = subject.client.buffer_from_pyval(seed, subject.device)
        made.append([np.asarray(result) for result in executable.execute([buffer])])
    expect_equal(made[1][0], made[0][0], "bits of the same state")
    expect_equal(bool((made[0][0] == made[2][0]).any()), False, "bits of another state are equal")
    expect_equal(len(set(made[0][0].tolist())) > 60, True, "nearly all of 64 words differ")
    expect_equal(bool((made[0][1] == state).all()), False, "the state that is returned is the old")

"""LAPACK's custom calls as jax exported them until 2025, against those that took their place."""

from __future__ import annotations

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")
pytest.importorskip("scipy", reason="needs SciPy")

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
TYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "uint8": "ui8"}
TYPES |= {"complex64": "complex<f32>", "complex128": "complex<f64>"}
BATCH, N = 2, 4
SQUARE, VECTOR = (BATCH, N, N), (BATCH, N)


def tensor(shape, dtype):
    return f"tensor<{''.join(f'{size}x' for size in shape)}{TYPES[np.dtype(dtype).name]}>"


def layout(shape, is_matrix):
    """By rows, but each of several matrices by columns."""
    order = [*range(len(shape))][::-1]
    if is_matrix:
        order[0], order[1] = order[1], order[0]
    return f"dense<{order if order else ''}> : tensor<{len(order)}xindex>"


def called(client, target, operands, results, how):
    """Return the results of one custom call; each is said by its shape, dtype, and whether it holds
    matrices."""
    ins = [tensor(a.shape, a.dtype) for a in operands]
    outs = ", ".join(tensor(shape, dtype) for shape, dtype, _ in results)
    text = f"""func.func @main({", ".join(f"%a{i}: {t}" for i, t in enumerate(ins))}) -> ({outs}) {{
  %r:{len(results)} = stablehlo.custom_call @{target}(
    {", ".join(f"%a{i}" for i in range(len(operands)))}) {{{how},
    operand_layouts = [{", ".join(layout(a.shape, a.ndim == 3) for a in operands)}],
    result_layouts = [{", ".join(layout(s, m) for s, _, m in results)}]
  }} : ({", ".join(ins)}) -> ({outs})
  return {", ".join(f"%r#{i}" for i in range(len(results)))} : {outs} }}"""
    text = text.replace("%r:1 ", "%r ").replace("return %r#0 :", "return %r :")
    executable = client.compile_and_load(text)
    found = executable.execute([client.buffer_from_pyval(a) for a in operands])
    return [np.asarray(result) for result in found]


def new(client, target, operands, results, **options):
    said = [f"{k} = {ord(v)} : ui8" for k, v in options.items() if isinstance(v, str)]
    said += [f"{k} = {v} : i32" for k, v in options.items() if isinstance(v, int)]
    how = f"api_version = 4 : i32, backend_config = {{{', '.join(said)}}}"
    return called(client, target, operands, results, how)


def old(client, target, operands, results):
    operands = [np.asarray(a, np.int32) if isinstance(a, int) else a for a in operands]
    how = 'api_version = 2 : i32, backend_config = ""'
    return called(client, target, operands, results, how)


def made(dtype, shape=SQUARE):
    random = np.random.default_rng(5)
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def cases(dtype):
    """Yield routine, leading operands, matrices, old results, new ones by number, new options."""
    is_complex, x = np.dtype(dtype).kind == "c", made(dtype)
    real = np.zeros(0, dtype).real.dtype
    positive = x @ np.swapaxes(x, -1, -2).conj() + 4 * np.eye(N, dtype=dtype)
    same, info = (SQUARE, dtype, True), ((BATCH,), "int32", False)
    work, iwork, rwork = ((64,), dtype, False), ((64,), "int32", False), ((64,), real, False)
    values, tau = (VECTOR, real, False), (VECTOR, dtype, False)
    short, short_real = ((BATCH, N - 1), dtype, False), ((BATCH, N - 1), real, False)
    yield "getrf", [BATCH, N, N], [x], [same, (VECTOR, "int32", False), info], [0, 1, 2], {}
    yield "geqrf", [BATCH, N, N, 64], [x], [same, tau, info, work], [0, 1], {}
    name = "ungqr" if is_complex else "orgqr"
    yield name, [BATCH, N, N, N, 64], [x, made(dtype, VECTOR)], [same, info, work], [0], {}
    options = {"low": 1, "high": N}
    yield "gehrd", [N, 1, N, N, BATCH, 64], [x], [same, short, info, work], [0, 1, 2], options
    for lower, uplo in ((1, "L"), (0, "U")):
        yield "potrf", [lower, BATCH, N], [positive], [same, info], [0, 1], {"uplo": uplo}
        name, options = "heevd" if is_complex else "syevd", {"mode": "V", "uplo": uplo}
        room = [work, rwork, iwork] if is_complex else [work, iwork]
        results = [same, values, info, *room]
        yield name, [lower, BATCH, N], [positive], results, [0, 1, 2], options
        name, results = "hetrd" if is_complex else "sytrd", [same, values, short_real, short, info]
        sizes = [N, lower, N, BATCH, 64]
        yield name, sizes, [positive], [*results, work], [0, 1, 2, 3, 4], {"uplo": uplo}
    room = [iwork, rwork, work] if is_complex else [iwork, work]
    for full, vectors, mode in ((1, 1, "A"), (0, 1, "S"), (1, 0, "N")):
        order = [0, 1, 2, 3, 4]
        sizes, results = [full, vectors, BATCH, N, N, 64], [same, values, same, same, info, *room]
        yield "gesdd", sizes, [x], results, order, {"mode": mode}
    v, n = np.uint8(ord("V")), np.uint8(ord("N"))
    aside, wide = ((N, N), dtype, True), (SQUARE, np.result_type(dtype, np.complex64), True)
    options = {"compute_left": "V", "compute_right": "V"}
    results = [aside, rwork, tau] if is_complex else [aside, aside, aside, tau, tau]
    order = [2, 3, 4, 5] if is_complex else [3, 4, 5, 6, 7]
    yield "geev", [BATCH, N, v, v], [x], [*results, wide, wide, info], order, options
    results = [same, rwork, tau] if is_complex else [same, tau, tau]
    order = [0, 3, 2, 4, 5] if is_complex else [0, 3, 1, 2, 4, 5]
    options = {"mode": "V", "sort": "N"}
    yield "gees", [BATCH, N, v, n], [x], [*results, same, info, info], order, options


@pytest.mark.parametrize("dtype", LETTERS)
def test_old_calls_give_what_new_ones_do(client, dtype):
    for routine, sizes, matrices, results, order, options in cases(dtype):
        name = f"lapack_{LETTERS[dtype]}{routine}"
        found = old(client, name, [*sizes, *matrices], results)
        wanted = new(client, f"{name}_ffi", matrices, [results[i] for i in order], **options)
        for i, value in zip(order, wanted, strict=True):
            is_written = options.get("mode") != "N" or i not in (2, 3)
            if is_written:
                np.testing.assert_array_equal(found[i], value, err_msg=f"{name}, result {i}")
        infos = [found[i] for i, (_, kind, _) in enumerate(results) if kind == "int32"]
        assert routine == "getrf" or any(not info.any() for info in infos)


@pytest.mark.parametrize("dtype", LETTERS)
def test_old_triangular_systems(client, dtype):
    x, y = made(dtype) + 4 * np.eye(N, dtype=dtype), made(dtype, (BATCH, N, 3))
    scale = np.asarray(2, dtype)
    for left, lower, transposed, unit in ((1, 1, 0, 0), (1, 0, 2, 1), (0, 0, 1, 0)):
        b = y if left else np.ascontiguousarray(np.swapaxes(y, -1, -2))
        sizes = [left, lower, transposed, unit, *b.shape[1:], BATCH]
        results = [(b.shape, dtype, True)]
        name = f"blas_{LETTERS[dtype]}trsm"
        (found,) = old(client, name, [*sizes, scale, x, b], results)
        options = {"side": "RL"[left], "uplo": "UL"[lower], "diag": "NU"[unit]}
        options["trans_x"] = "NTC"[transposed]
        (wanted,) = new(client, f"{name}_ffi", [x, b, scale], results, **options)
        np.testing.assert_array_equal(found, wanted)


def test_old_calls_that_do_not_fit_fail_the_execution(client):
    x, results = made("float32"), [(SQUARE, "float32", True), ((BATCH,), "int32", False)]
    for operands, message in (
        ([x], "an operand is missing"),
        ([7, BATCH, N, x], "operand 0 is out of range"),
        ([np.float32(1), BATCH, N, x], "wrong type"),
        ([1, BATCH, N, np.ones(SQUARE, np.float64)], "wrong type"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"spotrf.*{message}"):
            old(client, "lapack_spotrf", operands, results)

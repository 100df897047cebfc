"""Custom calls: LAPACK behind programs that name it, checked by what defines each result."""

from pathlib import Path

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt_cpu import _linalg
from support import python

pytestmark = pytest.mark.engine
pytest.importorskip("scipy", reason="needs SciPy")

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
TYPES = {"float32": "f32", "float64": "f64", "int32": "i32"}
TYPES |= {"complex64": "complex<f32>", "complex128": "complex<f64>"}
DTYPES = list(LETTERS)


def tensor(shape, dtype):
    dims = "".join(f"{size}x" for size in shape)
    return f"tensor<{dims}{TYPES[np.dtype(dtype).name]}>"


def column_major(shape, is_matrix):
    rank = len(shape)
    order = list(range(rank))[::-1]
    if is_matrix and rank > 1:
        order[0], order[1] = order[1], order[0]
    return f"dense<{order}> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"


def program(target, operands, results, options="", matrices=()):
    """Return a module that is one custom call. `matrices` has the indices of results that lie by
    column; of the operands, all with two dimensions and more do."""
    values = ", ".join(f"%a{i}" for i in range(len(operands)))
    ins = [tensor(a.shape, a.dtype) for a in operands]
    outs = ", ".join(tensor(*spec) for spec in results)
    layouts = ", ".join(column_major(a.shape, a.ndim >= 2 and not is_rows(a)) for a in operands)
    result_layouts = ", ".join(
        column_major(shape, i in matrices) for i, (shape, _) in enumerate(results)
    )
    names = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
    head = "%r" if len(results) == 1 else f"%r:{len(results)}"
    return f"""func.func @main({", ".join(f"%a{i}: {t}" for i, t in enumerate(ins))}) -> ({outs}) {{
  {head} = stablehlo.custom_call @{target}({values}) {{api_version = 4 : i32,
    backend_config = {{{options}}}, operand_layouts = [{layouts}],
    result_layouts = [{result_layouts}]}} : ({", ".join(ins)}) -> ({outs})
  return {names} : {outs} }}"""


class Rows(np.ndarray):
    """An operand of several vectors, not of matrices."""


def is_rows(a):
    return isinstance(a, Rows)


def run(client, *args, **kwargs):
    text = program(*args, **kwargs)
    executable = client.compile_and_load(text)
    arguments = [client.buffer_from_pyval(np.asarray(a)) for a in args[1]]
    return [np.asarray(result) for result in executable.execute(arguments)]


def make(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def adjoint(a):
    return np.swapaxes(a, -1, -2).conj()


def close(a, b):
    is_single = {np.asarray(a).dtype.name, np.asarray(b).dtype.name} & {"float32", "complex64"}
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 if is_single else 1e-12)


def real(dtype):
    return np.zeros(0, dtype).real.dtype


def byte(**options):
    return ", ".join(f"{name} = {ord(value)} : ui8" for name, value in sorted(options.items()))


@pytest.mark.parametrize("batch", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(client, dtype, batch):
    a = make((*batch, 4, 4), dtype)
    a = a @ adjoint(a) + 4 * np.eye(4, dtype=dtype)
    results = [(a.shape, dtype), (batch, "int32")]
    target = f"lapack_{LETTERS[dtype]}potrf_ffi"
    factor, info = run(client, target, [a], results, byte(uplo="L"), matrices=[0])
    lower = np.tril(factor)
    close(lower @ adjoint(lower), a)
    assert not info.any()
    if batch:
        bad = -a
        _, info = run(client, target, [bad], results, byte(uplo="L"), matrices=[0])
        assert (info == 1).all()


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_and_qr(client, dtype, shape):
    m, n = shape
    k = min(shape)
    letter = LETTERS[dtype]
    a = make((2, *shape), dtype)
    results = [(a.shape, dtype), ((2, k), "int32"), ((2,), "int32")]
    factors, pivots, _ = run(client, f"lapack_{letter}getrf_ffi", [a], results, matrices=[0])
    for one, lu, rows in zip(a, factors, pivots, strict=True):
        expected = one.copy()
        for i, row in enumerate(rows - 1):
            expected[[i, row]] = expected[[row, i]]
        close((np.tril(lu, -1) + np.eye(m, n, dtype=dtype))[:, :k] @ np.triu(lu)[:k], expected)

    packed, tau = run(
        client, f"lapack_{letter}geqrf_ffi", [a], [(a.shape, dtype), ((2, k), dtype)], matrices=[0]
    )
    name = "ungqr" if np.dtype(dtype).kind == "c" else "orgqr"
    operands = [packed[..., :k], tau.view(Rows)]
    (q,) = run(client, f"lapack_{letter}{name}_ffi", operands, [((2, m, k), dtype)], matrices=[0])
    close(adjoint(q) @ q, np.broadcast_to(np.eye(k), (2, k, k)))
    close(q @ np.triu(packed)[:, :k], a)

    c = make((2, m, 3), dtype, 1)
    name = name.replace("gqr", "mqr")
    operands = [packed[..., :k], tau.view(Rows), c]
    options = "left = true, transpose = true"
    target = f"lapack_{letter}{name}_ffi"
    (product,) = run(client, target, operands, [(c.shape, dtype)], options, matrices=[0])
    close(product[:, :k], adjoint(q) @ c)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivoted_qr(client, dtype):
    a = make((5, 3), dtype) * np.array([1, 9, 3], dtype)
    results = [(a.shape, dtype), ((3,), "int32"), ((3,), dtype)]
    operands = [a, np.zeros(3, np.int32)]
    packed, pivots, _ = run(
        client, f"lapack_{LETTERS[dtype]}geqp3_ffi", operands, results, matrices=[0]
    )
    assert pivots[0] == 2
    diagonal = np.abs(np.diag(packed))
    assert (np.diff(diagonal) <= 0).all()
    close(diagonal[0], np.linalg.norm(a[:, 1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_eigenvalues(client, dtype):
    a = make((2, 5, 5), dtype)
    a = a + adjoint(a)
    name = "heevd" if np.dtype(dtype).kind == "c" else "syevd"
    results = [(a.shape, dtype), ((2, 5), real(dtype)), ((2,), "int32")]
    options = byte(mode="V", uplo="L")
    target = f"lapack_{LETTERS[dtype]}{name}_ffi"
    vectors, values, info = run(client, target, [a], results, options, matrices=[0])
    close(a @ vectors, vectors * values[:, None, :])
    close(values, np.linalg.eigvalsh(a))
    assert not info.any()


@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
@pytest.mark.parametrize("mode", ["A", "S", "N"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_values(client, dtype, shape, mode, routine):
    m, n = shape
    k = min(shape)
    a = make((2, m, n), dtype)
    columns, rows = (m, n) if mode == "A" else (k, k)
    results = [(a.shape, dtype), ((2, k), real(dtype))]
    results += [((2, m, columns), dtype), ((2, rows, n), dtype), ((2,), "int32")]
    target = f"lapack_{LETTERS[dtype]}{routine}_ffi"
    _, values, u, vt, info = run(client, target, [a], results, byte(mode=mode), matrices=[0, 2, 3])
    close(values, np.linalg.svd(a, compute_uv=False))
    assert not info.any()
    if mode != "N":
        close(u[..., :k] * values[:, None, :] @ vt[:, :k], a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_general_eigenvalues(client, dtype):
    a = make((2, 5, 5), dtype)
    is_complex = np.dtype(dtype).kind == "c"
    both = dtype if is_complex else {"float32": "complex64", "float64": "complex128"}[dtype]
    values = [((2, 5), dtype)] * (1 if is_complex else 2)
    results = [*values, (a.shape, both), (a.shape, both), ((2,), "int32")]
    count = len(values)
    target = f"lapack_{LETTERS[dtype]}geev_ffi"
    options = byte(compute_left="V", compute_right="V")
    *parts, left, right, info = run(
        client, target, [a], results, options, matrices=[count, count + 1]
    )
    found = parts[0] if is_complex else parts[0] + 1j * parts[1]
    close(a @ right, right * found[:, None, :])
    close(adjoint(left) @ a, found[..., None] * adjoint(left))
    assert not info.any()
    a[0, 1, 1] = np.nan
    *_, info = run(client, target, [a], results, options, matrices=[count, count + 1])
    assert info.tolist() == [-4, 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(client, dtype):
    letter = LETTERS[dtype]
    is_complex = np.dtype(dtype).kind == "c"
    a = make((2, 4, 4), dtype)
    values = [((2, 4), dtype)] * (1 if is_complex else 2)
    results = [(a.shape, dtype), (a.shape, dtype), *values, ((2,), "int32"), ((2,), "int32")]
    options = byte(mode="V", sort="N")
    form, vectors, *_ = run(
        client, f"lapack_{letter}gees_ffi", [a], results, options, matrices=[0, 1]
    )
    close(vectors @ form @ adjoint(vectors), a)

    results = [(a.shape, dtype), ((2, 3), dtype), ((2,), "int32")]
    options = "high = 4 : i32, low = 1 : i32"
    packed, *_ = run(client, f"lapack_{letter}gehrd_ffi", [a], results, options, matrices=[0])
    form = np.triu(packed, -1)
    close(np.trace(form, axis1=-1, axis2=-2), np.trace(a, axis1=-1, axis2=-2))
    close(np.linalg.norm(form, axis=(-1, -2)), np.linalg.norm(a, axis=(-1, -2)))

    a = a + adjoint(a)
    results = [(a.shape, dtype), ((2, 4), real(dtype)), ((2, 3), real(dtype)), ((2, 3), dtype)]
    name = "hetrd" if is_complex else "sytrd"
    _, diagonal, beside, *_ = run(
        client,
        f"lapack_{letter}{name}_ffi",
        [a],
        [*results, ((2,), "int32")],
        byte(uplo="L"),
        matrices=[0],
    )
    for i in range(2):
        form = np.diag(diagonal[i]) + np.diag(beside[i], 1) + np.diag(beside[i], -1)
        close(np.linalg.eigvalsh(form), np.linalg.eigvalsh(a[i]))


@pytest.mark.parametrize("prefix", ["lapack", "blas"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_systems(client, dtype, prefix):
    a = make((2, 4, 4), dtype) + 4 * np.eye(4, dtype=dtype)
    y = make((2, 4, 3), dtype, 1)
    options = byte(side="L", uplo="L", trans_x="C", diag="N")
    operands = [a, y] if prefix == "lapack" else [a, y, np.asarray(2, dtype)]
    target = f"{prefix}_{LETTERS[dtype]}trsm_ffi"
    (x,) = run(client, target, operands, [(y.shape, dtype)], options, matrices=[0])
    close(adjoint(np.tril(a)) @ x, y if prefix == "lapack" else 2 * y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_systems(client, dtype):
    below, diagonal, above = (make((2, 5), dtype, i).view(Rows) for i in range(3))
    diagonal = diagonal + 8
    y = make((2, 5, 3), dtype, 3)
    results = [((2, 5), dtype)] * 3 + [(y.shape, dtype), ((2,), "int32")]
    *_, x, info = run(
        client,
        f"lapack_{LETTERS[dtype]}gtsv_ffi",
        [below, diagonal, above, y],
        results,
        matrices=[3],
    )
    for i in range(2):
        full = np.diag(diagonal[i]) + np.diag(below[i, 1:], -1) + np.diag(above[i, :-1], 1)
        close(full @ x[i], y[i])
    assert not info.any()


# What is refused.


def wait(buffers):
    for buffer in buffers:
        buffer.block_until_ready()


def test_every_handler_has_a_test():
    text = Path(__file__).read_text()
    calls = [call for call in _linalg.known_calls() if call.startswith("lapack_")]
    routines = {call.split("_")[1][1:] for call in calls}
    made = {"ormqr", "unmqr"}  # whose names are made of those of orgqr and ungqr
    assert {name for name in routines - made if name not in text} == set()


@pytest.mark.parametrize(
    ("operands", "results", "options", "message"),
    [
        ([np.eye(2)], [((2, 2), "float64")], byte(uplo="L"), "no buffer as result 1"),
        ([np.ones((2, 3))], [((2, 3), "float64"), ((), "int32")], byte(uplo="L"), "be square"),
        ([np.eye(2)], [((2, 2), "float64"), ((9,), "int32")], byte(uplo="L"), "wrong shape"),
        ([np.eye(2)], [((2, 2), "float64"), ((), "float32")], byte(uplo="L"), "wrong type"),
        ([np.ones(2)], [((2,), "float64"), ((), "int32")], byte(uplo="L"), "two dimensions"),
        ([np.eye(2)], [((2, 2), "float64"), ((), "int32")], byte(uplo="X"), "letters LU"),
        ([np.eye(2)], [((2, 2), "float64"), ((), "int32")], "", "letters LU"),
    ],
)
def test_calls_that_do_not_fit_fail_the_execution(client, operands, results, options, message):
    executable = client.compile_and_load(
        program("lapack_dpotrf_ffi", operands, results, options, matrices=[0])
    )
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        wait(executable.execute([client.buffer_from_pyval(o) for o in operands]))
    assert "lapack_dpotrf_ffi" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody_has_this", r"'nobody_has_this', which nothing.*lapack_\*_ffi of: .*potrf"),
        ("lapack_sgone", "'lapack_sgone', which nothing"),
        ("lapack_spotrf", "'lapack_spotrf', which nothing"),  # as jax wrote it until 2025
        ("xla_python_cpu_callback", "runs a Python function"),
    ],
)
def test_unknown_custom_calls_are_refused_by_name_at_compilation(client, name, message):
    text = program(name, [np.eye(2)], [((2, 2), "float64")])
    for code in (
        text,
        text.replace("api_version = 4", "api_version = 2").replace("backend_config = {}, ", ""),
    ):
        with pytest.raises(UnimplementedError, match=message):
            client.compile_and_load(code)


def test_without_lapack_the_error_names_the_extra(client, monkeypatch):
    monkeypatch.setattr(_linalg, "_addresses", lambda: None)
    text = program("lapack_dpotrf_ffi", [np.eye(2)], [((2, 2), "float64"), ((), "int32")])
    with pytest.raises(UnimplementedError, match=r'pip install "\./packages/devrt-cpu\[linalg\]"'):
        client.compile_and_load(text)


def test_a_library_without_a_routine_is_refused():
    from devrt_cpu import _ext, _library

    library = _library.choose().path
    with pytest.raises(InvalidArgumentError, match="no routine 'sgees'"):
        _ext._provide_lapack(library + "x", {})


def test_scipy_is_imported_by_programs_that_need_it_only():
    code = """
import sys
from devrt_cpu import make_cpu_client
client = make_cpu_client()
client.compile_and_load('func.func @main() { return }')
assert 'scipy' not in sys.modules
client.compile_and_load(sys.argv[1])
assert 'scipy' in sys.modules
"""
    text = program("lapack_dpotrf_ffi", [np.eye(2)], [((2, 2), "float64"), ((), "int32")], "")
    python(code, text)


def test_serialised_programs_find_their_handlers_in_another_process(tmp_path, client):
    text = program(
        "lapack_dpotrf_ffi",
        [np.eye(2)],
        [((2, 2), "float64"), ((), "int32")],
        byte(uplo="L"),
        matrices=[0],
    )
    file = tmp_path / "program"
    file.write_bytes(client.serialize_executable(client.compile_and_load(text)))
    code = """
import sys, numpy as np
from devrt_cpu import make_cpu_client
client = make_cpu_client(num_devices=2)
executable = client.deserialize_executable(open(sys.argv[1], 'rb').read())
factor, _ = executable.execute([client.buffer_from_pyval(4 * np.eye(2))])
assert np.asarray(factor)[0, 0] == 2
"""
    python(code, file)


def test_the_system_library_has_every_routine_or_is_passed_over():
    from devrt_cpu import _ext

    found = _linalg._from_system(_ext._lapack_routines())
    assert found is None or all(found.values())

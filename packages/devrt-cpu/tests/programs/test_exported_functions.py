"""Functions that JAX serialised, loaded where JAX is not: their trees, names and platforms."""

from __future__ import annotations

import collections
import contextlib
from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs import load_program
from devrt.programs.exported_bytes import read_exported
from devrt.sharding import P

pytestmark = pytest.mark.engine

EXPORTS = Path(__file__).parent / "exports"
MODELS = sorted(EXPORTS.glob("model-*.jax"))
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
PARAMS = {
    "b1": np.linspace(0, 1, 8, dtype=np.float32),
    "unused": np.zeros(3, np.float32),
    "w1": np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8),
    "w2": np.linspace(0, 2, 16, dtype=np.float32).reshape(8, 2),
}
Point = collections.namedtuple("Point", ["x", "y"])


def exported(name):
    return load_program(EXPORTS / f"{name}-0.10.2.jax")


@pytest.fixture(scope="module")
def model():
    return exported("model")


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_what_each_version_of_jax_serialised_takes_and_gives_its_trees(path):
    for program in (load_program(path), load_program(bytearray(path.read_bytes()))):
        result = program(PARAMS, X, scale=3)
        hidden = np.tanh(X @ PARAMS["w1"] + PARAMS["b1"])
        assert sorted(result) == ["more", "y"]
        np.testing.assert_allclose(result["y"], 3 * hidden @ PARAMS["w2"], rtol=1e-5)
        total, (same,) = result["more"]
        assert float(total) == pytest.approx(float(hidden.sum()), rel=1e-4)
        np.testing.assert_array_equal(same, X)
        assert program.in_names == ("0['b1']", "0['w1']", "0['w2']", "1", "scale")
        trees = "{'more': (*, [*]), 'y': *}"
        assert repr(program) == f"ArrayProgram(model, devices=1, gives={trees})"
        assert repr(program.out_tree) == trees
        leaves = "{'b1': *, 'unused': *, 'w1': *, 'w2': *}"
        assert repr(program.in_tree) == f"(({leaves}, *), {{'scale': *}})"


def test_arrays_in_trees_are_passed_as_they_lie(model):
    params = devrt.device_put(PARAMS)
    x = devrt.device_put(X)
    scale = devrt.device_put(np.float32(2))
    client = model.executable.client
    before = client.engine_stats()["bytes_copied"]
    first = model(params, x, scale=scale)
    again = model(params, x, scale=scale)
    assert client.engine_stats()["bytes_copied"] == before
    np.testing.assert_array_equal(first["y"], again["y"])
    assert first["y"].sharding is model.out_shardings[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: ([p, X], {"scale": 1}), r"does not take this: argument 0 must be a dict"),
        (
            lambda p: ((p,), {"scale": 1}),
            r"takes 2 arguments by position, and 1 was given so; by name it takes 'scale'",
        ),
        (
            lambda p: ((p, X), {}),
            r"takes by name 'scale', and nothing was given by name: 'scale' is missing",
        ),
        (lambda p: ((p, X), {"scale": 1, "s": 2}), r"by name 'scale', and 'scale', 's' were"),
        (
            lambda p: (({k: v for k, v in p.items() if k != "w1"}, X), {"scale": 1}),
            r"argument 0 lacks the keys \['w1'\]",
        ),
        (
            lambda p: ((p | {"w3": X}, X), {"scale": 1}),
            r"argument 0 has the keys \['w3'\], which are not among those it must have",
        ),
        (
            lambda p: ((p | {"w1": X}, X), {"scale": 1}),
            r"argument 0\['w1'\] of program 'model' is float32\[3, 4\] and must be float32\[4, 8\]",
        ),
        (
            lambda p: ((p, X), {"scale": "big"}),
            r"argument scale of program 'model' is 'big' of type str, and must be float32\[\]",
        ),
    ],
)
def test_a_tree_that_does_not_match_is_refused_with_the_path(model, change, words):
    arguments, named = change(PARAMS)
    if isinstance(arguments, list):
        arguments = (list(PARAMS.values()), X)
    with pytest.raises(InvalidArgumentError, match=words):
        model(*arguments, **named)


def test_the_platform_s_number_is_passed_where_there_are_several():
    program = exported("platforms")
    assert len(program.in_avals) == 1
    np.testing.assert_array_equal(program(np.arange(4, dtype=np.float32)), [1, 2, 3, 4])


def test_what_gives_one_array_says_so():
    program = exported("platforms")
    assert repr(program) == "ArrayProgram(<lambda>, devices=1, gives=*)"


def test_trees_are_shown_with_their_classes():
    assert repr(exported("classes").in_tree).startswith("((Point(x=*, y=*), OrderedDict(")


def test_a_function_for_another_platform_is_refused_with_what_to_do():
    words = (
        r"'<lambda>' was exported for tpu.*platform cpu.*platforms=\['cpu'\].*get_backend\('tpu'"
    )
    with pytest.raises(InvalidArgumentError, match=words):
        exported("for_tpu")


@pytest.mark.parametrize("transform", [devrt.jit, devrt.grad])
def test_a_traced_argument_is_refused_with_what_to_do(transform):
    program = exported("platforms")
    with pytest.raises(UnimplementedError) as caught:
        transform(lambda x: program(x).sum())(np.ones(4, np.float32))
    assert "'<lambda>' cannot be called in a traced function at " in caught.value.message
    assert "argument 0 is a traced value of float32[4]" in caught.value.message
    assert "Call it outside of jit, grad" in caught.value.message


def test_a_symbolic_dimension_is_refused_by_the_argument_that_has_it():
    with pytest.raises(InvalidArgumentError, match=r"argument 1 of the symbolic shape \(b, 4\)"):
        exported("symbolic")


@pytest.mark.parametrize("is_text", [False, True])
def test_a_symbolic_dimension_of_the_program_alone_is_refused_by_its_argument(is_text):
    data = (EXPORTS / "symbolic-0.10.2.jax").read_bytes()
    code = read_exported(data).code
    if is_text:
        code = (
            "func.func @main(%a: tensor<4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {"
            "return %b : tensor<?x4xf32>}"
        )
    with pytest.raises(InvalidArgumentError, match=r"symbolic shape \(\?, 4\)") as caught:
        load_program(code)
    assert "\n" not in str(caught.value)


def test_a_program_that_was_cut_is_not_blamed_on_its_version():
    code = read_exported((EXPORTS / "platforms-0.10.2.jax").read_bytes()).code
    with pytest.raises(InvalidArgumentError, match="cut short") as caught:
        load_program(code[:-49])
    assert "earlier version" not in str(caught.value)


@pytest.mark.parametrize("path", sorted(EXPORTS.glob("sharded-*.jax")), ids=lambda p: p.stem)
def test_a_function_over_two_devices_is_divided_as_it_was_exported(path):
    program = load_program(path)
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    y = program(x)
    np.testing.assert_array_equal(y, x + x)
    assert len(y.addressable_shards) == 2
    assert [len(sharding.spec) for sharding in program.in_shardings] == [1]


def test_the_mesh_of_the_program_names_its_shardings():
    assert exported("sharded").in_shardings[0].spec == P("rows")


def test_named_tuples_and_ordered_dicts_come_back_alike():
    program = exported("classes")
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)
    rest = collections.OrderedDict(b=one, a=two)
    point, turned = program(Point(one, two), rest)
    assert (type(point).__name__, point._fields) == ("Point", ("x", "y"))
    np.testing.assert_array_equal(point.x, two)
    assert list(turned) == ["b", "a"]
    with pytest.raises(
        InvalidArgumentError, match="argument 0 must be a named tuple Point of x, y"
    ):
        program((one, two), rest)


def test_donated_leaves_are_deleted():
    program = exported("donating")
    state = devrt.device_put({"n": np.zeros(4, np.float32)})
    one = devrt.device_put(np.ones(4, np.float32))
    first = state["n"]
    for _ in range(3):
        state = program(state, one)
    np.testing.assert_array_equal(state["n"], [3] * 4)
    assert first.is_deleted()


def test_bytes_that_were_cut_are_refused_with_what_to_do():
    data = (EXPORTS / "model-0.10.2.jax").read_bytes()
    for size in (len(data) - 20, len(data) // 2, 300):
        with pytest.raises(InvalidArgumentError, match=r"cannot be read"):
            load_program(data[:size])


@pytest.mark.parametrize("seed", range(8))
def test_damaged_bytes_end_in_a_typed_error_or_a_program(seed):
    data = bytearray((EXPORTS / "classes-0.10.2.jax").read_bytes())
    random = np.random.default_rng(seed)
    for _ in range(20):
        changed = bytearray(data)
        module = changed.find(b"ML\xefR")
        at = int(random.integers(0, len(data)))
        if module <= at < module + 900:
            continue  # the compiler's own bytes
        changed[at] ^= int(random.integers(1, 256))
        with contextlib.suppress(InvalidArgumentError, UnimplementedError):
            load_program(bytes(changed))


@pytest.mark.parametrize(
    ("convention", "error"), [(8, UnimplementedError), (11, UnimplementedError)]
)
def test_another_calling_convention_is_refused(convention, error):
    data = (EXPORTS / "model-0.10.2.jax").read_bytes()
    from devrt.programs import exported_bytes
    from devrt.wire.flatbuffers import root

    at = root(data)._place(exported_bytes._Field.CONVENTION)
    changed = data[:at] + convention.to_bytes(2, "little") + data[at + 2 :]
    with pytest.raises(error, match=f"calling convention {convention} of jax.export"):
        load_program(changed)


def test_a_file_may_hold_text_bytecode_or_an_executable(tmp_path):
    text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {return %a : tensor<2xf32>}"
    path = tmp_path / "program"
    path.write_text(text)
    program = load_program(str(path))
    (y,) = program([1, 2])
    np.testing.assert_array_equal(y, [1, 2])
    path.write_bytes(program.executable.serialize())
    (y,) = load_program(path)([1.5, 2])
    np.testing.assert_array_equal(y, [1.5, 2])


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("missing.mlir", InvalidArgumentError, "'missing.mlir' cannot be read .* No such file"),
        (Path("missing"), InvalidArgumentError, "'missing' cannot be read"),
        (b"PK\x03\x04 and more", InvalidArgumentError, r"torch\.export\.load"),
        (b"\0\1\2 nothing", InvalidArgumentError, "neither"),
        (3, InvalidTypeError, r"of type int\. It takes StableHLO"),
        ([1, 2], InvalidTypeError, r"of type list\. It takes StableHLO"),
        (len, InvalidTypeError, r"Export it: jax\.export\.export"),
    ],
)
def test_what_is_no_program_is_refused_with_what_to_pass(given, error, words):
    with pytest.raises(error, match=words):
        load_program(given)

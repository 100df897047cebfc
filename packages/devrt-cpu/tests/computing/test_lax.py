"""`devrt.lax`: each function by itself and in a trace gives what jax gives."""

import collections
import enum
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt import lax, tree_util
from devrt.errors import InvalidArgumentError
from devrt.programs.jit import jit
from devrt.tracing import trace_graph

pytestmark = pytest.mark.engine

FOLDER = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("lax_cases", FOLDER / "lax_cases.py")
lax_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lax_cases)
NAMES = lax_cases.names(lax)
TEXTS = [text for group in lax_cases.CASES.values() for text in group]


@pytest.fixture(scope="module")
def expected():
    """Return dtype, weakness and elements of each result of each call."""
    found = collections.defaultdict(list)
    with np.load(FOLDER / "lax_cases.npz") as file:
        for name, array in file.items():
            text, _, dtype, weak = name.rsplit("|", 3)
            found[text].append((dtype, bool(int(weak)), array))
    return found


def check(results, expected):
    leaves = tree_util.tree_leaves(results)
    assert len(leaves) == len(expected)
    for leaf, (dtype, weak, array) in zip(leaves, expected, strict=True):
        given = np.asarray(leaf)
        assert (given.dtype.name, getattr(leaf, "weak_type", False)) == (dtype, weak)
        assert given.shape == array.shape
        if array.dtype.kind in "fc":
            given = given.astype(array.dtype)
            np.testing.assert_allclose(given, array, rtol=2e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(given, array)


@pytest.mark.parametrize("text", TEXTS)
def test_a_call_by_itself(text, expected):
    check(eval(text, NAMES), expected[text])


@pytest.mark.parametrize("group", lax_cases.CASES)
def test_calls_in_one_program(group, expected):
    texts = lax_cases.CASES[group]
    results = jit(lambda: [eval(text, NAMES) for text in texts])()
    for text, given in zip(texts, results, strict=True):
        dtypes = [dtype for dtype, *_ in expected[text]]
        leaves = tree_util.tree_leaves(given)
        assert [np.asarray(leaf).dtype.name for leaf in leaves] == dtypes, text
        for leaf, (_, _, array) in zip(leaves, expected[text], strict=True):
            exact = array.dtype.kind not in "fc"
            given = np.asarray(leaf).astype(array.dtype)
            limits = {"rtol": 0, "atol": 0} if exact else {"rtol": 2e-5, "atol": 2e-6}
            np.testing.assert_allclose(given, array, **limits, err_msg=text)


def test_every_function_has_a_case():
    elsewhere = {"cond", "switch", "while_loop", "fori_loop", "scan", "map", "broadcast_shapes"}
    elsewhere |= {
        "conv_dimension_numbers",
        "empty",
        "padtype_to_pads",
        "approx_max_k",
        "approx_min_k",
    }
    modules = {
        "control_flow",
        "conversions",
        "convolutions",
        "cumulative",
        "elementwise",
        "indexing",
        "products",
        "reductions",
        "scans",
        "shaping",
        "slicing",
        "sorting",
        "windows",
    }
    stub = Path(lax.__file__).with_suffix(".pyi").read_text()
    rows = [line.split() for line in stub.splitlines()]
    named = {row[3] for row in rows if row[1].rpartition(".")[2] in modules}
    functions = {name for name in named if not isinstance(getattr(lax, name), type)}
    used = {name for name in functions if any(f"lax.{name}" in text for text in TEXTS)}
    assert functions - used == elsewhere


F, I = lax_cases.F, lax_cases.I  # noqa: E741
BAD = {
    "lax.add(F, I)": r"one dtype, not float32\[3,4\] and int32\[3,4\]",
    "lax.add(F, 1)": "one dtype",
    "lax.add(F, F[0])": "as many dimensions",
    "lax.add(F, F[:2])": r"\(3, 4\) and \(2, 4\) do not broadcast",
    "lax.exp(I)": r"takes floats, complex, not int32\[3,4\]",
    "lax.neg(True)": "takes integers",
    "lax.select(F > 0, F, F[:1])": "cases have one shape",
    "lax.clamp(0, F, 1)": "one dtype",
    "lax.concatenate([F, I], 0)": "one dtype",
    "lax.concatenate([F, F[:, :2]], 0)": "shapes differ in no dimension but 0",
    "lax.reshape(F, (5,))": r"has 12 elements",
    "lax.transpose(F, (0, 0))": "no order of the dimensions",
    "lax.squeeze(F, (0,))": "not all of size 1",
    "lax.broadcast_in_dim(F, (3, 5), (0, 1))": "does not go into",
    "lax.pad(F, 0, [(0, 0, 0)] * 2)": "one dtype",
    "lax.pad(F, 0.0, [(0, 0, 0)])": "takes 2 triples",
    "lax.slice(F, (2, 0), (1, 4))": "there is no part",
    "lax.index_in_dim(F, 3)": "out of bounds",
    "lax.dynamic_slice(F, (0, 0), (4, 1))": "there is no part",
    "lax.dynamic_slice(F, (0.5, 0), (1, 1))": "integer scalar",
    "lax.dynamic_slice(F, (0,), (1, 1))": "takes 2 starts, not 1",
    "lax.dynamic_update_slice(F, I, (0, 0))": "one dtype",
    "lax.dynamic_update_slice(F, F[0], (0, 0))": "is no part of",
    "lax.dot(F, F)": r"differ in the size",
    "lax.dot_general(F, F, (((0,), (1,)), ((), ())))": "differ in size",
    "lax.dot(F, F.T, precision='best')": "precision is default",
    "lax.conv(F, F, (1, 1), 'SAME')": "strides and dilations are 0 numbers",
    "lax.conv(IMAGES, KERNEL[:, :2], (1, 1), 'SAME')": "has 3 features in 1 group.* takes 2",
    "lax.conv(IMAGES, KERNEL, (1, 1), 'FULL')": "padding is SAME",
    "lax.conv_general_dilated(IMAGES, KERNEL, (1, 1), 'SAME', dimension_numbers=('NCHW', 'OIHW', "
    "'NCHH'))": "once each",
    "lax.reduce(F, 0, lambda a, b: a > b, (0,))": "takes float32.* and returns bool",
    "lax.reduce_sum(F, (2,))": "axis 2 is none",
    "lax.reduce_sum(F, (0, 0))": "repeats an axis",
    "lax.sort((F, I[:1]))": "one shape",
    "lax.top_k(F, 5)": "not 5 elements",
    "lax.gather(F, F, lax.GatherDimensionNumbers((), (0,), (0,)), (1,))": "indices are integers",
    "lax.associative_scan(lambda a, b: (a, b), F)": "returns a tree",
    "lax.full((2,), F)": "the value is a scalar",
}


@pytest.mark.parametrize("text", BAD)
def test_operands_that_do_not_fit_are_refused_with_the_line(text):
    with pytest.raises(InvalidArgumentError, match=BAD[text]) as caught:
        trace_graph(lambda: eval(text, NAMES), (), outermost=True)
    assert " at <string>:1" in str(caught.value)


def test_static_arguments_may_be_lists():
    assert lax.reshape(F, [6, 2]).shape == (6, 2)
    assert lax.reshape(F, new_sizes=np.array([2, 6])).shape == (2, 6)
    assert lax.transpose(devrt.device_put(F), permutation=[1, 0]).shape == (4, 3)


def test_precisions_are_names_pairs_and_members_of_any_enumeration():
    theirs = enum.Enum("Precision", "DEFAULT HIGH HIGHEST")  # jax.lax's has these
    for given in ("highest", "float32", lax.Precision.HIGHEST, theirs.HIGHEST, ["highest"] * 2):
        text = devrt.jit(lambda x, given=given: lax.dot(x, x.T, precision=given)).lower(F).as_text()
        assert text.count("precision HIGHEST") == 2, given


def test_names_of_dimensions_become_numbers():
    numbers = lax.conv_dimension_numbers((2, 7, 6, 3), (3, 2, 3, 4), ("NWHC", "HWIO", "NHWC"))
    assert numbers == ((0, 3, 2, 1), (3, 2, 0, 1), (0, 3, 1, 2))
    assert lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), None).lhs_spec == (0, 1, 2)
    assert lax.broadcast_shapes((3, 1), (1, 4), (4,)) == (3, 4)
    assert lax.empty((2,), "float32").shape == (2,)
    assert lax.padtype_to_pads((7, 6), (3, 2), (2, 1), "SAME") == [(1, 1), (0, 1)]

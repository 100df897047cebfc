"""Layouts: what they say, their text form, and what is no layout."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.layout import Layout, PjRtLayout, row_major, storage_order

TILES = st.lists(st.lists(st.integers(1, 4096), min_size=1, max_size=3).map(tuple), max_size=3)


@st.composite
def layouts(draw):
    order = draw(st.permutations(range(draw(st.integers(0, 6)))))
    return Layout(order, draw(TILES), draw(st.sampled_from([0, 2, 4, 8, 32])))


@given(layouts())
def test_text_and_back(layout):
    assert Layout.from_string(layout.to_string()) == layout
    assert Layout.from_string(f" {layout} ") == layout
    assert eval(repr(layout), {"Layout": Layout}) == layout
    assert PjRtLayout(str(layout)) == PjRtLayout(layout)


@given(layouts())
def test_bytes_and_back(layout):
    for value in (layout, PjRtLayout(layout)):
        back = pickle.loads(pickle.dumps(value))
        assert back == value
        assert hash(back) == hash(value)
        assert type(back) is type(value)


@given(layouts(), layouts())
def test_equal_layouts_are_those_of_equal_text(first, second):
    assert (first == second) == (str(first) == str(second))
    assert (PjRtLayout(first) == PjRtLayout(second)) == (first == second)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout(()), "{}"),
        (Layout((0,)), "{0}"),
        (Layout((1, 0)), "{1,0}"),
        (Layout((1, 0), ((8, 128),)), "{1,0:T(8,128)}"),
        (Layout((0, 1), ((8, 128), (2, 1)), 4), "{0,1:T(8,128)(2,1)E(4)}"),
        (Layout((0, 1), (), 4), "{0,1:E(4)}"),
    ],
)
def test_the_text_is_that_of_xla(layout, text):
    assert layout.to_string() == str(layout) == text
    assert str(PjRtLayout(layout)) == text


def test_what_a_layout_says():
    layout = Layout(np.array([0, 1]), [[8, 128]], 4)
    assert layout.minor_to_major() == (0, 1)
    assert layout.tiling() == [(8, 128)]
    assert layout.element_size_in_bits() == 4
    assert PjRtLayout(layout)._xla_layout() is layout
    assert row_major(3) == Layout((2, 1, 0))
    assert Layout((0,)) != "{0}"
    assert PjRtLayout("{0}") != Layout((0,))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((0, 0),), "each of the 2 dimensions once"),
        (((1,),), "from 0"),
        (((-1, 0),), "minor_to_major"),
        (((0,), ((0,),)), "at least 1"),
        (((0,), ((),)), "at least one extent"),
        (((0,), (), -1), "negative"),
    ],
)
def test_what_is_no_layout(arguments, words):
    with pytest.raises(InvalidArgumentError, match=words):
        Layout(*arguments)


@pytest.mark.parametrize(
    "arguments", [(1,), (("1", "0"),), ((0.5,),), (None,), ((0,), 3), ((0,), "8"), ((0,), (), None)]
)
def test_types_that_are_no_layout(arguments):
    with pytest.raises(InvalidTypeError):
        Layout(*arguments)


@pytest.mark.parametrize("value", [None, 3, (1, 0), b"{0}"])
def test_a_pjrt_layout_is_made_of_a_layout(value):
    with pytest.raises(InvalidTypeError):
        PjRtLayout(value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "1,0", "{1,0", "{a}", "{1,0:}", "{1,0:S(1)}", "{0:T()}", "{0:T}", "{0:E(-1)}", "{1}"],
)
def test_texts_that_are_no_layout(text):
    with pytest.raises(InvalidArgumentError):
        Layout.from_string(text)


@given(st.text("{}0123456789,:TES()- ", max_size=20))
def test_any_text_is_refused_or_a_layout(text):
    try:
        layout = Layout.from_string(text)
    except InvalidArgumentError:
        return
    assert Layout.from_string(str(layout)) == layout


def test_the_order_that_host_memory_can_have():
    assert storage_order(Layout((0, 1)), 2, np.dtype("float32")) == (0, 1)
    assert storage_order(PjRtLayout("{0,1}"), 2, np.dtype("float32")) == (0, 1)
    assert storage_order("{0,1:E(32)}", 2, np.dtype("float32")) == (0, 1)
    for layout in ("{0}", "{0,1:T(8,128)}", "{0,1:E(4)}"):
        with pytest.raises(InvalidArgumentError, match="layout"):
            storage_order(layout, 2, np.dtype("float32"))
    with pytest.raises(InvalidTypeError, match="a layout must be"):
        storage_order(5, 2, np.dtype("float32"))


@given(layouts())
def test_jaxlib_prints_the_same_where_it_is_installed(layout):
    xla_client = pytest.importorskip("jaxlib.xla_client")
    order, tiling, bits = layout.minor_to_major(), layout.tiling(), layout.element_size_in_bits()
    theirs = xla_client.Layout(order, tiling, bits)
    assert theirs.to_string() == layout.to_string()
    assert theirs.minor_to_major() == order
    assert math.prod(map(math.prod, theirs.tiling())) == math.prod(map(math.prod, tiling))

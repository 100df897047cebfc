"""Versions of distributions, compared as pip compares them, with package packaging and without."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.plugins.loading.versions import _matches_release, is_specifier, matches

NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda n: ".".join(map(str, n)))
CLAUSES = st.one_of(
    st.tuples(st.sampled_from(["==", "!=", "<=", ">=", "<", ">"]), NUMBERS).map("".join),
    st.tuples(st.sampled_from(["==", "!="]), NUMBERS, st.just(".*")).map("".join),
    NUMBERS.filter(lambda n: "." in n).map(lambda n: f"~={n}"),
)


@given(NUMBERS, st.lists(CLAUSES, min_size=1, max_size=3).map(",".join))
def test_without_packaging_releases_compare_alike(version, specifier):
    assert is_specifier(specifier)
    assert _matches_release(version, specifier) == matches(version, specifier)


def test_without_packaging_at_all(monkeypatch):
    monkeypatch.setitem(sys.modules, "packaging.specifiers", None)
    assert matches("1.5", ">=1,<2")
    assert not matches("2.1rc1", "<2.1")
    assert not matches("unknown", "<2.1")
    monkeypatch.undo()
    assert matches("2.1rc1", "<2.2,!=2.1")


@pytest.mark.parametrize("text", ["old", "<", "2", "=1", "<2,", "<2;", "~1"])
def test_what_is_no_specifier(text):
    assert not is_specifier(text)

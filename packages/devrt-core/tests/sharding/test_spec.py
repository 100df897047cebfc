"""PartitionSpec: entries, equality, tuple-likeness, pickling."""

import pickle

import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import P, PartitionSpec, UnreducedKind


def test_is_like_a_tuple_of_its_entries():
    spec = P("x", None, ("y", "z"))
    assert list(spec) == ["x", None, ("y", "z")]
    assert len(spec) == 3
    assert spec[0] == "x"
    assert spec[-1] == ("y", "z")
    assert spec[:2] == ("x", None)
    assert spec.index(None) == 1
    assert spec.count("x") == 1
    assert "x" in spec
    assert spec.partitions == ("x", None, ("y", "z"))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (P(), "PartitionSpec()"),
        (P("data", None), "PartitionSpec('data', None)"),
        (P(("x", "y")), "PartitionSpec(('x', 'y'),)"),
        (P(P.UNCONSTRAINED, "x"), "PartitionSpec(UNCONSTRAINED, 'x')"),
    ],
)
def test_repr(spec, text):
    assert repr(spec) == text


def test_equality_sees_through_tuples_of_one_and_of_none():
    assert P(("x",)) == P("x")
    assert hash(P(("x",))) == hash(P("x"))
    assert P(()) == P(None)
    assert P(["x", "y"]) == P(("x", "y"))


def test_equality_keeps_trailing_none_and_other_types_apart():
    assert P("x") != P("x", None)
    assert P("x") != ("x",)
    assert P() != ()
    assert P("x") != P("y")


def test_concatenation():
    assert P("x") + P(None) == P("x", None)
    spec, more, others = P("x"), ("y",), ["y"]
    assert spec + more == P("x", "y")
    assert more + spec == P("y", "x")
    with pytest.raises(TypeError):
        spec + others
    with pytest.raises(TypeError):
        others + spec


@pytest.mark.parametrize("spec", [P(), P("x", None, ("y", "z")), P(P.UNCONSTRAINED)])
def test_pickles(spec):
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert hash(again) == hash(spec)


def test_unconstrained_is_one_object_also_after_pickling():
    assert pickle.loads(pickle.dumps(P(P.UNCONSTRAINED)))[0] is PartitionSpec.UNCONSTRAINED


def test_has_no_place_for_other_attributes():
    with pytest.raises(AttributeError):
        P("x").colour = 1
    with pytest.raises(AttributeError):
        P("x").partitions = ()


@pytest.mark.parametrize("entry", [1, 1.5, b"x", ("x", ("y",)), ("x", None), object()])
def test_rejects_what_is_no_entry(entry):
    with pytest.raises(InvalidTypeError, match="entry of a PartitionSpec") as caught:
        P("x", entry)
    assert caught.value.entry == entry


def test_what_unreduced_values_are_joined_by():
    assert P("x").unreduced_kind is None
    plain = P("x", unreduced={"y"})
    largest = P("x", unreduced={"y"}, unreduced_kind=UnreducedKind.max)
    assert plain.unreduced_kind is UnreducedKind.sum
    assert plain == P("x", unreduced={"y"}, unreduced_kind=UnreducedKind.sum) != largest
    assert hash(plain) != hash(largest)
    assert repr(largest) == "PartitionSpec('x', unreduced={'y'}, unreduced_kind=max)"
    assert pickle.loads(pickle.dumps(largest)) == largest
    assert largest.update(("z",)).unreduced_kind is UnreducedKind.max
    assert largest.update(unreduced=set()).unreduced_kind is None
    assert (largest + P("z")).unreduced_kind is UnreducedKind.max


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: P(unreduced_kind=UnreducedKind.max), InvalidArgumentError),
        (lambda: P(unreduced={"x"}, unreduced_kind="max"), InvalidTypeError),
        (
            lambda: P(unreduced={"x"}) + P(unreduced={"y"}, unreduced_kind=UnreducedKind.min),
            InvalidTypeError,
        ),
    ],
)
def test_kinds_that_do_not_fit_are_refused(make, error):
    with pytest.raises(error, match="unreduced_kind"):
        make()

"""Records against data classes: the same in everything that a user of either sees."""

import copy
import dataclasses
import inspect
import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt import records
from devrt._support.record import fields, record, replaced
from devrt.plugins import PluginRef


@record(frozen=True, slots=True, order=True)
class Point:
    x: int
    y: int = 0
    tags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Twin:
    x: int
    y: int = 0
    tags: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Named:
    name: str
    size: int = 1


values = st.tuples(
    st.integers(-2, 2), st.integers(-2, 2), st.lists(st.text(), max_size=2).map(tuple)
)


@given(values, values)
def test_they_compare_hash_and_print_as_data_classes_do(left, right):
    ours, theirs = (Point(*left), Point(*right)), (Twin(*left), Twin(*right))
    for compare in ("__eq__", "__lt__", "__le__", "__gt__", "__ge__"):
        assert getattr(ours[0], compare)(ours[1]) == getattr(theirs[0], compare)(theirs[1])
    assert (hash(ours[0]) == hash(ours[1])) >= (ours[0] == ours[1])
    assert repr(ours[0]) == repr(theirs[0]).replace("Twin", "Point")


@given(values)
def test_copies_of_every_kind_are_equal(given_values):
    point = Point(*given_values)
    for copied in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (copied, type(copied)) == (point, Point)
    assert replaced(point, y=7) == dataclasses.replace(point, y=7) == Point(point.x, 7, point.tags)


ARGUMENTS = [
    ((1,), {}),
    ((1, 2, ("a",)), {}),
    ((1,), {"tags": ("b",)}),
    ((), {"x": 1}),
    ((), {}),
    ((1, 2, (), 4), {}),
    ((1,), {"x": 2}),
    ((1,), {"z": 2}),
]


@pytest.mark.parametrize(("given_values", "named"), ARGUMENTS)
def test_the_constructor_takes_and_refuses_the_same(given_values, named):
    try:
        expected = dataclasses.astuple(Twin(*given_values, **named))
    except TypeError:
        with pytest.raises(TypeError, match="Point"):
            Point(*given_values, **named)
    else:
        assert dataclasses.astuple(Point(*given_values, **named)) == expected


def test_keyword_only():
    assert Named(name="a").size == 1
    with pytest.raises(TypeError, match="positional"):
        Named("a")


def test_they_do_not_change_and_have_no_other_attributes():
    point = Point(1)
    for name in ("x", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(point, name, 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_other_types_are_neither_equal_nor_ordered():
    assert Point(1) != Twin(1)
    assert Point(1) != (1, 0, ())
    with pytest.raises(TypeError):
        assert Point(1) < (1, 0, ())


def test_dataclasses_and_inspect_take_them_for_data_classes():
    for one, other in itertools.combinations((Point, Twin), 2):
        assert dataclasses.is_dataclass(one)
        assert [f.name for f in dataclasses.fields(one)] == [
            f.name for f in dataclasses.fields(other)
        ]
        assert (
            inspect.signature(one).parameters.keys() == inspect.signature(other).parameters.keys()
        )
        assert str(inspect.signature(one)) == str(inspect.signature(other)).replace("Twin", "Point")
    assert dataclasses.asdict(Point(1)) == dataclasses.asdict(Twin(1))
    assert [name for name, _, optional in fields(Point) if optional] == ["y", "tags"]
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("name", [n for n in records.__all__ if n[0].isupper()])
def test_what_plugins_use_is_a_data_class_to_them(name):
    kind = getattr(records, name)
    if isinstance(kind, type):
        assert dataclasses.is_dataclass(kind)
        assert kind.__doc__
        assert set(inspect.signature(kind).parameters) == {f.name for f in dataclasses.fields(kind)}


def test_methods_and_properties_stay():
    assert PluginRef("cpu", "d", "1").name == "cpu@d"
    assert sorted([PluginRef("b", "d"), PluginRef("a", "d")])[0].platform == "a"

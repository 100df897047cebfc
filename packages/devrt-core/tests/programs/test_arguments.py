"""Which arguments are static or donated, by number and by name, and what errors call them."""

import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.arguments import Arguments


def made(function, static_argnums=None, static_argnames=None, donate_argnums=None, names=None):
    return Arguments(function, static_argnums, static_argnames, donate_argnums, names)


def f(x, y, *, z=1):
    return x, y, z


def test_names_follow_from_numbers_and_numbers_from_names():
    assert made(f, static_argnums=1).static_names == {"y"}
    assert made(f, static_argnames="y").static_nums == {1}
    assert made(f, static_argnames=("y", "z")).static_nums == {1}
    assert made(f, static_argnums=-1).static_nums == {1}
    both = made(f, static_argnums=0, static_argnames="z")
    assert (both.static_nums, both.static_names) == ({0}, {"z"})


@pytest.mark.parametrize("call", [((1, 2), {"z": 3}), ((1,), {"y": 2, "z": 3}), ((1, 2), {})])
def test_a_call_is_put_together_again(call):
    args, kwargs = call
    arguments = made(f, static_argnames="y")
    apart = arguments.taken_apart(args, kwargs)
    assert 2 not in apart.leaves
    assert arguments.put_together(apart.leaves, apart.tree, apart.statics) == (list(args), kwargs)


def test_equal_static_values_of_two_types_differ():
    arguments = made(f, static_argnums=0)
    one, other = arguments.taken_apart((1, 2), {}), arguments.taken_apart((True, 2), {})
    assert one.kinds != other.kinds


def test_paths_name_arguments_as_the_function_does():
    def g(a, b, *rest, **more):
        return a, b, rest, more

    arguments = made(g, static_argnums=0)
    call = arguments.taken_apart((0, {"w": [1, 2]}, 3), {"k": (4,)})
    paths = arguments.paths(call.tree, call.statics)
    assert paths == ["b['w'][0]", "b['w'][1]", "args[2]", "k[0]"]


def test_donated_leaves_are_those_of_the_argument():
    arguments = made(f, static_argnums=0, donate_argnums=1)
    call = arguments.taken_apart((0, {"a": 1, "b": 2}), {"z": 3})
    assert arguments.donated(call.tree, call.statics) == [True, True, False]
    call = arguments.taken_apart((0,), {"y": 1, "z": 3})
    assert arguments.donated(call.tree, call.statics) == [True, False]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"static_argnums": 2}, r"name 2, and f takes x, y, z"),
        ({"static_argnames": "w"}, r"name 'w', and f takes x, y, z"),
        ({"donate_argnums": 7}, r"donate_argnums.*name 7"),
        ({"static_argnums": 0, "donate_argnums": 0}, r"as static and as donated"),
        ({"static_argnums": "x"}, r"argument numbers are integers"),
        ({"static_argnames": [1]}, r"argument names are strings"),
    ],
)
def test_what_the_function_does_not_take_is_refused(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        made(f, **options)


def test_an_unhashable_static_value_is_named():
    arguments = made(f, static_argnums=1)
    call = arguments.taken_apart((1, [2]), {})
    with pytest.raises(InvalidTypeError, match=r"static argument y of f is \[2\] of type list"):
        arguments.refuse_unhashable(call.statics, TypeError())


def test_a_function_without_a_signature_takes_what_is_named():
    assert made(max, static_argnums=3).static_nums == {3}

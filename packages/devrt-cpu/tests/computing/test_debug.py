"""Python that traced functions call while they run: prints, callbacks, functions of the host."""

import re

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P, errors, lax
from devrt.programs.host_functions import answer_calls
from devrt.programs.jit import jit
from devrt.tracing import HOST_TARGET

pytestmark = pytest.mark.engine
X = np.arange(4, dtype=np.float32)


def ran(function, *arguments):
    """Call a traced function, and wait for what it does."""
    return devrt.block_until_ready(jit(function)(*arguments))


def test_print_formats_arrays_numbers_and_trees(capsys):
    def shown(x):
        devrt.debug.print("{} of {pair[1]:.1f}, {} and {!r}", x, "text", None, pair=(x, x[1]))
        return x

    ran(shown, X)
    shown(devrt.device_put(X))
    line = "[0. 1. 2. 3.] of 1.0, text and None\n"
    assert capsys.readouterr().out == 2 * line


def test_ordered_prints_come_in_order_across_loops_and_branches(capsys):
    def shown(x):
        devrt.debug.print("begin", ordered=True)

        def body(i, carry):
            devrt.debug.print("{}", i, ordered=True)
            return carry + i

        x = lax.fori_loop(0, 3, body, x)
        devrt.debug.print("{}", lax.cond(x[0] > 0, lambda: x[0], lambda: x[1]), ordered=True)
        return x

    ran(shown, X)
    assert capsys.readouterr().out == "begin\n0\n1\n2\n3.0\n"


def test_an_ordered_print_has_the_one_before_as_operand():
    def shown(x):
        devrt.debug.print("first", ordered=True)
        devrt.debug.print("second", ordered=True)
        devrt.debug.print("third")
        return x

    text = devrt.jit(shown).lower(X).as_text()
    calls = re.findall(r'(%\d+) = "stablehlo.custom_call"\(%\d+(?:, (%\d+))?\)', text)
    (first, none), (_, before), (_, of_third) = calls
    assert (none, before, of_third) == ("", first, "")


def test_a_print_in_a_branch_prints_when_that_runs(capsys):
    def shown(x):
        lax.cond(x > 0, lambda: devrt.debug.print("positive"), lambda: devrt.debug.print("no"))
        return x

    ran(shown, np.float32(1))
    assert capsys.readouterr().out == "positive\n"


@pytest.fixture
def mesh():
    devices = devrt.devices()
    if len(devices) < 4:
        pytest.skip("needs 4 devices")
    return devrt.make_mesh((2, 2), ("a", "b"), devices=devices[:4])


def test_several_devices_print_whole_arrays_once(mesh, capsys):
    def shown(x):
        devrt.debug.print("{}", x)
        return x

    ran(shown, devrt.device_put(X, NamedSharding(mesh, P("a"))))
    assert capsys.readouterr().out == "[0. 1. 2. 3.]\n"


@pytest.mark.parametrize("axes", [{"a", "b"}, {"a"}])
def test_in_shard_map_each_device_prints_its_own(mesh, capsys, axes):
    def shown(x):
        devrt.debug.print("{}", x)
        return x

    mapped = devrt.shard_map(shown, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names=axes)
    ran(mapped, devrt.device_put(X, NamedSharding(mesh, P("a"))))
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == ["[0. 1.]", "[0. 1.]", "[2. 3.]", "[2. 3.]"]


def test_a_callback_gets_arrays_and_its_error_is_that_of_the_results():
    seen = []

    def watched(x):
        devrt.debug.callback(lambda a, *, scale: seen.append((a.sum(), scale)), x, scale="whole")
        return x

    ran(watched, X)
    watched(X)
    assert seen == [(6, "whole"), (6, "whole")]

    def failing(a):
        raise ArithmeticError("no such luck")

    with pytest.raises(errors.DevrtError, match="no such luck"):
        ran(lambda x: [devrt.debug.callback(failing, x), x][1], X)


def test_pure_callback_gives_what_python_makes():
    spec = {"y": devrt.ShapeDtypeStruct((4,), np.float32), "n": devrt.ShapeDtypeStruct((), int)}

    def made(x):
        return devrt.pure_callback(lambda a: {"y": np.sin(a), "n": np.int64(a.size)}, spec, x)

    for result in (ran(made, X), made(X)):
        np.testing.assert_array_equal(result["y"], np.sin(X))
        assert int(result["n"]) == 4


def test_pure_callback_within_a_loop_and_without_use():
    calls = []

    def double(a):
        calls.append(1)
        return a * 2

    spec = devrt.ShapeDtypeStruct((4,), np.float32)

    def made(x):
        devrt.pure_callback(double, spec, x)  # nothing depends on it
        return lax.fori_loop(0, 3, lambda i, c: devrt.pure_callback(double, spec, c), x)

    np.testing.assert_array_equal(ran(made, X), X * 8)
    assert len(calls) == 3


def test_results_of_another_type_are_refused():
    spec = devrt.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(errors.InvalidTypeError, match=r"must return .*float32\[3\].*float32\[4\]"):
        devrt.pure_callback(lambda a: a, spec, X)
    with pytest.raises(errors.DevrtError, match=r"must return .*float32\[3\]"):
        ran(lambda x: devrt.pure_callback(lambda a: a, spec, x), X)


@pytest.mark.parametrize(
    ("arguments", "fields", "message"),
    [
        (("{} {}", 1), {}, r"no argument for \{1\}"),
        (("{}", 1, 2), {}, r"no field for the argument\(s\) 1"),
        (("{x}",), {"y": 1}, r"no argument for \{x\}"),
        ((X,), {}, "takes a format string first"),
    ],
)
def test_a_format_that_does_not_fit_is_refused_with_the_line(arguments, fields, message):
    with pytest.raises(errors.InvalidArgumentError, match=message) as caught:
        devrt.debug.print(*arguments, **fields)
    assert __file__ in str(caught.value)


def test_a_client_without_custom_calls_says_so():
    class Plain:
        platform = "acme"

        def register_custom_call(self, name, function, *, kind="host"):
            raise errors.UnimplementedError("it takes no custom calls.")

    with pytest.raises(errors.UnimplementedError, match=r"acme client cannot.*debug\.print"):
        answer_calls(f"custom_call @{HOST_TARGET}", Plain())
    assert answer_calls("no calls", Plain()) == "no calls"


def test_gradients_go_past_prints_and_not_through_callbacks(capsys):
    spec = devrt.ShapeDtypeStruct((), np.float32)

    def square(x):
        devrt.debug.print("{}", x)
        return x * x

    assert float(devrt.grad(square)(np.float32(3))) == 6
    assert capsys.readouterr().out == "3.0\n"

    def nested(x):
        def body(carry, _):
            devrt.debug.print("step {}", carry, ordered=True)
            lax.cond(carry > 2, lambda: square(carry), lambda: carry)
            return carry + x, carry

        last, steps = lax.scan(body, x, None, length=2)
        return lax.cond(last > 0, lambda: square(last), lambda: last) + steps.sum()

    for function in (devrt.grad(nested), devrt.grad(devrt.checkpoint(nested))):
        assert float(function(np.float32(2))) == 39
        assert capsys.readouterr().out == "step 2.0\nstep 4.0\n4.0\n6.0\n"
    with pytest.raises(errors.UnimplementedError, match=r"no gradient of devrt\.host_call"):
        devrt.grad(lambda x: devrt.pure_callback(np.sin, spec, x))(np.float32(1))

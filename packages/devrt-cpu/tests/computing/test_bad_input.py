"""What is wrong is refused before anything runs: with both sides, the user's line and nothing else.

Each case is as a user would write it. Its error has a class, says certain things, and names the
line of this file that the traceback ends with.
"""

import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P, lax
from devrt import numpy as jnp
from devrt.errors import (
    ConcretizationTypeError,
    DeletedError,
    InvalidArgumentError,
    InvalidIndexError,
    InvalidTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnboundAxisError,
    UnexpectedTracerError,
)

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("cpu")]

OWN = str(Path(devrt.__file__).parent)


def refused(error, *says):
    """Mark a case with its error's class, and with patterns of what the error says."""

    def marked(case):
        CASES[case.__name__] = case, error, says
        return case

    return marked


CASES = {}


def mesh():
    return devrt.make_mesh((4, 2), ("a", "b"))


def over(*spec):
    return NamedSharding(mesh(), P(*spec))


@refused(InvalidArgumentError, r"^add: .*\(3,\) and \(4,\)")
def shapes():
    devrt.jit(lambda x, y: x + y)(jnp.ones(3), jnp.ones(4))


@refused(InvalidArgumentError, r"^matmul: float32\[2,3\] and float32\[4,5\]", "3 columns, 4 rows")
def shapes_of_arrays():
    jnp.ones((2, 3)) @ jnp.ones((4, 5))


@refused(InvalidArgumentError, r"^concatenate: float32\[3,2\] and float32\[4,3\]")
def shapes_that_are_joined():
    devrt.jit(lambda x, y: jnp.concatenate([x, y]))(jnp.ones((3, 2)), jnp.ones((4, 3)))


@refused(
    InvalidArgumentError, r"^einsum: .*'j' is of sizes 3 and 4 in float32\[2,3\] and float32\[4"
)
def shapes_of_a_sum():
    devrt.jit(lambda x, y: jnp.einsum("ij,jk", x, y))(jnp.ones((2, 3)), jnp.ones((4, 5)))


@refused(InvalidTypeError, r"^lax.conv_general_dilated.*\[1,3,8,8\] has 3 .*\[4,5,3,3\] takes 5")
def shapes_of_a_convolution():
    image, kernel = jnp.ones((1, 3, 8, 8)), jnp.ones((4, 5, 3, 3))
    devrt.jit(lambda x, y: lax.conv_general_dilated(x, y, (1, 1), "SAME"))(image, kernel)


@refused(InvalidTypeError, r"^lax.add.*float32\[3\] and int32\[3\]", "convert_element_type")
def dtypes():
    devrt.jit(lambda x, y: lax.add(x, y))(jnp.ones(3), jnp.arange(3, dtype="int32"))


@refused(InvalidTypeError, "^bitwise_and of float32, int32", "astype")
def dtypes_of_an_operator():
    devrt.jit(lambda x: x & 1)(jnp.ones(3))


@refused(TracerBoolConversionError, r"lax\.cond", "where", "static_argnums")
def a_traced_condition():
    devrt.jit(lambda x: x if x > 0 else -x)(1.0)


@refused(ConcretizationTypeError, r"int\(\)", "astype", "static_argnums")
def a_traced_integer():
    devrt.jit(lambda x: int(x))(1)


@refused(TracerIntegerConversionError, r"range\(\)", r"lax\.fori_loop", "static_argnums")
def a_traced_range():
    devrt.jit(lambda n: list(range(n)))(1)


@refused(InvalidIndexError, r"traced int32\[\]", r"dynamic_slice_in_dim\(x, start, size\)")
def a_traced_bound_of_a_slice():
    devrt.jit(lambda x, i: x[i : i + 2])(jnp.ones(5), 1)


@refused(InvalidIndexError, "a slice's bound is a traced")
def a_traced_bound_of_an_update():
    devrt.jit(lambda x, i: x.at[i : i + 2].set(0))(jnp.ones(5), 1)


@refused(TracerArrayConversionError, r"devrt\.numpy", "static_argnums")
def an_array_of_numpy():
    devrt.jit(lambda x: np.asarray(x))(jnp.ones(3))


@refused(TracerArrayConversionError, r"devrt\.numpy", "static_argnums")
def a_ufunc_of_numpy():
    devrt.jit(lambda x: np.sin(x))(jnp.ones(3))


@refused(UnexpectedTracerError, r"float32\[3\]", r"trace of 'f', at .*test_bad_input.py:\d+ \(f\)")
def a_value_after_its_trace():
    kept = []

    @devrt.jit
    def f(x):
        kept.append(x * 2)
        return x

    f(jnp.ones(3))
    kept[0] + 1


@refused(UnexpectedTracerError, "an argument of 'f'")
def an_argument_after_its_trace():
    kept = []

    @devrt.jit
    def f(x):
        kept.append(x)
        return x

    f(jnp.ones(3))
    devrt.jit(lambda y: y + kept[0])(1.0)


@refused(InvalidTypeError, r"immutable", r"x = x\.at\[index\]\.set\(y\)")
def an_assignment_to_an_element():
    x = jnp.ones(3)
    x[0] = 2


@refused(InvalidTypeError, r"immutable", r"x = x\.at\[index\]\.set\(y\)")
def an_assignment_to_a_traced_element():
    def f(x):
        x[1:] += 2

    devrt.jit(f)(jnp.ones(3))


@refused(InvalidTypeError, r"static argument sizes of f is \[1, 2\] of type list", "Pass a tuple")
def a_static_argument_without_hash():
    @devrt.jit(static_argnames="sizes")
    def f(x, sizes):
        return x

    f(1.0, sizes=[1, 2])


@refused(DeletedError, r"argument state\['w'\] of f", "donated")
def a_donated_argument():
    @devrt.jit(donate_argnums=0)
    def f(state, x):
        return {"w": state["w"] + x}

    state = {"w": jnp.ones(3)}
    f(state, 1.0)
    f(state, 1.0)


@refused(DeletedError, "argument x of <lambda>", "deleted")
def a_deleted_argument_of_a_call_like_many():
    f, x = devrt.jit(lambda x: x + 1), jnp.ones(3)
    for _ in range(4):
        f(x)
    x.delete()
    f(x)


@refused(InvalidArgumentError, "argument x.* 'c', but the mesh has the axes 'a', 'b'")
def an_axis_that_the_mesh_has_not():
    devrt.shard_map(lambda x: x, mesh=mesh(), in_specs=P("c"), out_specs=P())(jnp.ones(8))


@refused(InvalidArgumentError, "argument x.* 'a' more than once", "has the axes 'a', 'b'")
def an_axis_used_twice():
    both = P("a", "a")
    devrt.shard_map(lambda x: x, mesh=mesh(), in_specs=both, out_specs=P())(jnp.ones((8, 8)))


@refused(UnboundAxisError, "^psum: .*'model'", "axes here are 'a', 'b'")
def an_axis_of_no_mesh():
    def f(x):
        return lax.psum(x, "model")

    devrt.shard_map(f, mesh=mesh(), in_specs=P("a"), out_specs=P())(jnp.ones(8))


@refused(UnboundAxisError, "^psum: .*'i'", "there are none here", r"devrt\.shard_map")
def an_axis_without_a_mesh():
    devrt.jit(lambda x: lax.psum(x, "i"))(jnp.ones(3))


@refused(InvalidArgumentError, r"argument tree\['w'\] of f, float32\[8\]", r"2 entries.*\(8,\)")
def a_spec_longer_than_the_rank():
    @devrt.jit(in_shardings=over("a", "b"))
    def f(tree):
        return tree

    f({"w": jnp.ones(8)})


@refused(InvalidArgumentError, r"argument x\['w'\] of f is float32\[8\]", "2 entries")
def a_spec_of_a_map_longer_than_the_rank():
    def f(x):
        return x

    specs = P("a", "b")
    devrt.shard_map(f, mesh=mesh(), in_specs=specs, out_specs=P("a"))({"w": jnp.ones(8)})


@refused(InvalidArgumentError, r"argument tree\['w'\] of f", "size 6.* 4 .*'a' .size 4")
def a_dimension_that_does_not_divide():
    @devrt.jit(in_shardings=over("a"))
    def f(tree):
        return tree

    f({"w": jnp.ones(6)})


@refused(InvalidArgumentError, "with_sharding_constraint", "size 6.* 4 .*'a' .size 4")
def a_constraint_that_does_not_divide():
    devrt.with_sharding_constraint(jnp.ones(6), over("a"))


@refused(InvalidArgumentError, "with_sharding_constraint", r"2 entries.*\(8,\)")
def a_constraint_longer_than_the_rank():
    sharding = over("a", "b")
    devrt.jit(lambda x: devrt.with_sharding_constraint(x, sharding))(jnp.ones(8))


@refused(
    InvalidArgumentError, r"result at \['loss'\] of f, float32\[\], may differ along 'a'", "psum"
)
def a_result_that_may_differ():
    def f(x):
        return {"loss": x.sum(), "x": x}

    specs = {"loss": P(), "x": P("a")}
    devrt.shard_map(f, mesh=mesh(), in_specs=P("a"), out_specs=specs)(jnp.ones(8))


@refused(InvalidArgumentError, r"params\['w'\] is on cpu:0, and argument x on cpu:1")
def arrays_on_two_devices():
    @devrt.jit
    def f(params, x):
        return params["w"] + x

    first, second = (devrt.device_put(jnp.ones(3), device) for device in devrt.devices()[:2])
    f({"w": first}, second)


@refused(InvalidArgumentError, r"argument x .*Spec\(\),.*in_shardings asks for .*Spec\('a',\)")
def an_array_that_lies_elsewhere():
    @devrt.jit(in_shardings=over("a"))
    def f(x):
        return x

    f(devrt.device_put(jnp.ones(8), over()))


@refused(InvalidTypeError, r"^lax.cond: .*false_fun is float32\[3\] and true_fun is float32\[\]")
def branches():
    devrt.jit(lambda x: lax.cond(x > 0, lambda x: x, lambda x: jnp.ones(3), x))(1.0)


@refused(InvalidTypeError, r"^lax.cond: .*false_fun is float32\[\]; true_fun is \(float32\[\], ")
def branches_of_two_trees():
    devrt.jit(lambda x: lax.cond(x > 0, lambda x: (x, x), lambda x: x, x))(1.0)


@refused(InvalidTypeError, r"^lax.while_loop: .*takes\[1\] is float32\[\] .*\[1\] is float32\[2\]")
def the_body_of_a_loop():
    def f(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.ones(2)), (0, x))

    devrt.jit(f)(1.0)


@refused(InvalidTypeError, r"^lax.scan: .*\['n'\] is int32\[\] .*\['n'\] is float32\[\]")
def the_body_of_a_scan():
    def step(carry, x):
        return {"sum": carry["sum"] + x, "n": carry["n"] * np.float32(1.5)}, x

    start = {"sum": 0.0, "n": np.int32(1)}
    devrt.jit(lambda xs: lax.scan(step, start, xs))(jnp.ones(3, "float32"))


def own_lines(error):
    """Return devrt's lines of a traceback, but for an operator's, and the user's last one."""
    rows = traceback.extract_tb(error.__traceback__)
    own = [row for row in rows if row.filename.startswith(OWN) and row.name != "operate"]
    return own, [row.lineno for row in rows if row.filename == __file__][-1]


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused(name):
    case, kind, says = CASES[name]
    with pytest.raises(kind) as caught:
        case()
    message = str(caught.value)
    for pattern in says:
        assert re.search(pattern, message), f"{pattern!r} is not in {message!r}"
    own, line = own_lines(caught.value)
    assert f" at {__file__}:{line} (" in message
    if not name.startswith("an_assignment"):  # those are of the array itself
        assert own == []
    assert caught.value.__cause__ is None


def end_by_calling(x):
    return again(x * 2)


def again(x):
    return end_by_calling(x + 1)


@pytest.mark.parametrize("limit", range(5))
def test_a_recursion_without_end_names_the_users_last_line(limit):
    # In which of devrt's lines, or of generated ones, Python's depth ends differs with the start.
    def deeper(function, n):
        return deeper(function, n - 1) if n else function()

    with pytest.raises(InvalidArgumentError) as caught:
        deeper(lambda: devrt.jit(lambda x: again(x))(1.0), limit)
    found = re.search(r"is (\d+) calls deep.* last line is (\S+):\d+ \((\w+)\)", str(caught.value))
    assert int(found[1]) > 500
    assert found[2] == __file__
    assert found[3] in ("again", "end_by_calling")
    assert own_lines(caught.value)[0] == []


def test_an_error_of_devrts_own_keeps_all_lines(monkeypatch):
    monkeypatch.setattr("devrt.programs.calls.kinds_of", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        devrt.jit(lambda x: x)(1.0)
    # It came from this file's line; in devrt's own it would be devrt's fault.
    assert own_lines(caught.value)[0] == []
    monkeypatch.setattr("devrt.programs.calls.kinds_of", None)
    with pytest.raises(TypeError) as caught:
        devrt.jit(lambda x: x)(1.0)
    assert own_lines(caught.value)[0] != []


def test_filtering_can_be_turned_off():
    runtime = devrt.default_runtime()
    with (
        runtime.config.override(traceback_filtering="off"),
        pytest.raises(InvalidArgumentError) as caught,
    ):
        shapes()
    assert len(own_lines(caught.value)[0]) > 5


def test_an_error_of_the_users_own_is_theirs_alone():
    def f(x):
        raise LookupError(str(x))

    for call in (devrt.jit(f), devrt.grad(f), devrt.pmap(f), lambda x: devrt.vjp(f, x)):
        with pytest.raises(LookupError) as caught:
            call(jnp.ones(1))
        assert own_lines(caught.value)[0] == []

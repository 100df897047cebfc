"""Calls like one before take a shorter way, and must give what the long way gives."""

import asyncio
import gc
import threading
import weakref

import numpy as np
import pytest

import devrt
from devrt.errors import DeletedError, InvalidArgumentError
from tests.support.support import run_python

X = np.arange(8, dtype=np.float32)


@pytest.fixture
def x():
    return devrt.device_put(X)


def called(f, *args, times=5, **kwargs):
    """Call a function until it takes the shortest way, and return what it gives then."""
    for _ in range(times):
        found = f(*args, **kwargs)
    return found


def test_arguments_of_another_structure_are_another_call(x):
    f = devrt.jit(lambda a, b: (a[0] if isinstance(a, tuple) else a * 2) + b)
    for _ in range(4):
        np.testing.assert_array_equal(f((x,), x), X + X)
        np.testing.assert_array_equal(f(x, x), X * 3)


def test_trees_come_back_as_the_function_returns_them(x):
    f = devrt.jit(lambda t: {"s": t["a"] + t["b"][0], "t": (t["b"][1], [None])})
    found = called(f, {"a": x, "b": [x, x]})
    assert list(found) == ["s", "t"]
    assert found["t"][1] == [None]
    np.testing.assert_array_equal(found["s"], X + X)
    with pytest.raises(KeyError):
        f({"a": x, "c": [x, x]})


def test_a_function_without_results_gives_none_each_time(x):
    calls = []
    f = devrt.jit(lambda a: calls.append(1))
    assert called(f, x) is None
    assert len(calls) == 1


def test_equal_static_values_of_two_types_are_two_programs(x):
    f = devrt.jit(lambda a, n: a + (1 if isinstance(n, bool) else 2), static_argnums=1)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, True), X + 1)
        np.testing.assert_array_equal(f(x, 1), X + 2)
        np.testing.assert_array_equal(f(x, n=1), X + 2)


def test_numbers_are_parameters_and_wide_ones_other_programs(x):
    traces = []
    f = devrt.jit(lambda a, n: traces.append(n.dtype) or a * n)
    for n in range(5):
        np.testing.assert_array_equal(f(x, n), X * n)
    np.testing.assert_array_equal(f(x, 2.5), X * 2.5)
    assert np.asarray(f(x, 2**40)).tolist() == (X * np.float32(2**40)).tolist()
    assert [str(each) for each in traces] == ["int32", "float32", "int64"]


def test_shapes_dtypes_and_places_decide(x):
    f = devrt.jit(lambda a: a + a)
    called(f, x)
    np.testing.assert_array_equal(f(devrt.device_put(X[:3])), X[:3] * 2)
    assert f(devrt.device_put(X.astype(np.int32))).dtype == np.int32
    second = devrt.devices("cpu")[1]
    assert called(f, devrt.device_put(X, second)).devices() == {second}
    assert called(f, x).devices() == {devrt.devices("cpu")[0]}


def test_the_default_device_counts_in_a_block_and_in_its_copies(x):
    f = devrt.jit(lambda a: a + 1)
    first, second = devrt.devices("cpu")[:2]
    assert called(f, 1.0).devices() == {first}

    async def body():
        with devrt.default_device(second):
            assert called(f, 1.0).devices() == {second}
            task = asyncio.ensure_future(later())
        assert called(f, 1.0).devices() == {first}
        await task

    async def later():
        await asyncio.sleep(0)
        assert called(f, 1.0).devices() == {second}

    asyncio.run(body())
    assert called(f, 1.0).devices() == {first}


def test_in_a_trace_a_call_adds_its_operations(x):
    inner = devrt.jit(lambda a: a * 3)
    called(inner, x)
    outer = devrt.jit(lambda a: inner(x) + inner(a))
    np.testing.assert_array_equal(called(outer, x), X * 6)
    assert "multiply" in outer.lower(x).as_text()


def test_one_threads_trace_is_none_of_anothers(x):
    f = devrt.jit(lambda a: a + 1)
    called(f, x)
    found = []

    def slow(a):
        thread = threading.Thread(target=lambda: found.append(called(f, x)))
        thread.start()
        thread.join()
        return a * 2

    np.testing.assert_array_equal(devrt.jit(slow)(x), X * 2)
    np.testing.assert_array_equal(found[0], X + 1)


def test_a_deleted_argument_is_named(x):
    f = devrt.jit(lambda first, other: first + other)
    called(f, x, x)
    gone = devrt.device_put(X)
    f(x, gone)
    gone.delete()
    with pytest.raises(DeletedError, match="argument other of"):
        f(x, gone)


def test_donated_arguments_are_given_once():
    f = devrt.jit(lambda a, b: a + b, donate_argnums=0)
    for _ in range(4):
        a = devrt.device_put(X)
        np.testing.assert_array_equal(f(a, devrt.device_put(X)), X * 2)
        assert a.is_deleted()
    same = devrt.device_put(X)
    with pytest.raises(InvalidArgumentError, match="as a and as b"):
        f(same, same)
    assert not same.is_deleted()


def test_cleared_caches_are_made_again(x):
    traces = []
    f = devrt.jit(lambda a: traces.append(1) or a + a)
    called(f, x)
    devrt.clear_caches()
    np.testing.assert_array_equal(called(f, x), X + X)
    f.clear_cache()
    np.testing.assert_array_equal(called(f, x), X + X)
    assert len(traces) == 3


def test_functions_that_share_programs_forget_them_together(x):
    traces = []

    def double(a):
        traces.append(1)
        return a + a

    f, same = devrt.jit(double), devrt.jit(double)
    called(f, x)
    called(same, x)
    assert len(traces) == 1
    f.clear_cache()
    np.testing.assert_array_equal(same(x), X + X)
    assert len(traces) == 2
    np.testing.assert_array_equal(f(a=x), X + X)
    np.testing.assert_array_equal(f(X), X + X)
    with pytest.raises(TypeError):
        f(x, x)


def test_the_backends_own_way_to_call_is_taken():
    """In a process of its own: an option that was ever overridden ends the shortest way."""
    code = """
import numpy as np, devrt
x = devrt.device_put(np.ones(3, np.float32)); traces = []
def double(a): return traces.append(1) or a + a
g = devrt.jit(double)
for f in g, devrt.jit(double):
    for _ in range(5): f(x)
    print(type(f.__call__).__name__)
g.clear_cache(); f(x); print(len(traces))
with devrt.default_device(devrt.devices()[0]): print(f(x))
print(f(x), f.__call__.__self__.__class__.__name__)
"""
    way = "builtin_function_or_method"
    assert run_python("-c", code).stdout.splitlines() == [
        *(way, way, "2", "[2. 2. 2.]", "[2. 2. 2.] CpuShortcut"),
    ]


def test_an_option_that_changes_ends_the_backends_own_way(x):
    first, second = devrt.devices("cpu")[:2]
    f = devrt.jit(lambda a: a + 1)
    assert called(f, x).devices() == {first}
    devrt.config.update("default_device", second)
    try:
        assert f(x).devices() == {second}
        assert called(f, x).devices() == {second}
    finally:
        devrt.config.update("default_device", None)
    assert called(f, x).devices() == {first}


def test_nothing_keeps_a_function_that_is_gone(x):
    f = devrt.jit(lambda a: a + 1)
    called(f, x)
    run, gone = f.__call__, weakref.ref(f)
    gc.disable()
    try:
        del f
        assert gone() is None
        np.testing.assert_array_equal(called(run, x), X + 1)
    finally:
        gc.enable()


def test_the_garbage_collector_frees_an_object_that_holds_its_own_jitted_method(x):
    class Model:
        def __init__(self):
            self.step = devrt.jit(self._step)

        def _step(self, a):
            return a + 1

    model = Model()
    called(model.step, x)
    gone = weakref.ref(model)
    del model
    for _ in range(100):  # where a thread of another test collects, a call does nothing
        gc.collect()
        if gone() is None:
            break
    assert gone() is None


def test_more_structures_than_are_recognised(x):
    f = devrt.jit(lambda t: sum(t))
    for n in [*range(1, 20)] * 2:
        np.testing.assert_allclose(f([x] * n), X * n)


def test_a_forked_child_is_refused():
    code = """
import os, numpy as np, devrt
from devrt.errors import ForkedError
x = devrt.device_put(np.ones(3, np.float32)); f = devrt.jit(lambda a: a + a)
for _ in range(4): f(x)
pid = os.fork()
if not pid:
    try:
        f(x)
    except ForkedError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run_python("-c", code).stdout.strip() == "7"


@pytest.mark.filterwarnings("error")
def test_a_number_beyond_the_dtype_is_infinite_in_each_call(x):
    for _ in range(4):
        assert np.isinf(np.asarray(x * 1e300)[1:]).all()
        assert np.asarray(x < 1e300).all()
    assert np.isinf(np.asarray(devrt.jit(lambda a: a * 1e300)(x))[1:]).all()

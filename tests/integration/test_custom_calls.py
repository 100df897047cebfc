"""Functions of Python and of C that programs call, with both clients that run StableHLO."""

import ctypes
import itertools
import os
import signal
import threading

import numpy as np
import pytest

from devrt import errors
from devrt.contract import DeviceCall
from support import double, make_client, together

ffi = pytest.importorskip("cffi").FFI()

_numbers = itertools.count()
X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module", params=["cpu", "loader"])
def client(request):
    """Return a client of each kind with eight devices, both of one compiler."""
    with make_client(request.param, 8) as made:
        yield made


@pytest.fixture
def name():
    """Return a name that nothing is registered under: XLA forgets none."""
    return f"both_test_call_{next(_numbers)}"


@pytest.fixture
def interrupts():
    """Let interrupts raise, which a shell has ignored in what it runs in the background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def run(client, text, value):
    executable = client.compile_and_load(text)
    return [np.asarray(out) for out in executable.execute([client.buffer_from_pyval(value)])]


def test_a_function_is_called_with_arguments_and_attributes(client, name, call_program):
    seen = {}

    def call(a, **attributes):
        seen.update(attributes, writeable=a.flags.writeable)
        return a * np.float32(attributes["scale"])

    client.register_custom_call(name, call)
    attributes = (
        'scale = 2.5 : f32, text = "hé", n = -3 : i64, yes = true, '
        "v = array<i32: 1, 2>, none = array<f64>, d = {q = 1 : i8}"
    )
    (made,) = run(client, call_program(name, attributes=attributes), X)
    np.testing.assert_array_equal(made, X * 2.5)
    assert (seen["scale"], seen["text"], seen["n"], seen["yes"]) == (2.5, "hé", -3, True)
    assert seen["d"] == {"q": 1}
    assert seen["v"].dtype == np.int32
    assert seen["v"].tolist() == [1, 2]
    assert seen["none"].shape == (0,)
    assert seen["writeable"]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("i1", "?"), ("i8", "i1"), ("ui8", "u1"), ("i16", "i2"), ("i64", "i8"), ("f16", "f2"),
     ("f64", "f8"), ("complex<f32>", "c8"), ("complex<f64>", "c16"), ("ui32", "u4")],
)  # fmt: skip
def test_dtypes_and_shapes_go_both_ways(client, name, kind, dtype, call_program):
    value = (np.arange(6) % 2).astype(dtype).reshape(2, 3)
    client.register_custom_call(
        name, lambda a: (a.T, a.sum(dtype=a.dtype) if dtype != "?" else a[0, 1])
    )
    transposed, scalar = run(
        client, call_program(name, f"2x3x{kind}", (f"3x2x{kind}", kind)), value
    )
    np.testing.assert_array_equal(transposed, value.T)
    assert transposed.dtype == value.dtype
    assert scalar == (value.sum() if dtype != "?" else value[0, 1])


def test_empty_arrays(client, name, call_program):
    client.register_custom_call(name, lambda a: a.reshape(3, 0))
    (made,) = run(client, call_program(name, "0x3xf32", ("3x0xf32",)), np.zeros((0, 3), np.float32))
    assert made.shape == (3, 0)


@pytest.mark.parametrize(
    ("raised", "kind", "expected"),
    [
        (ValueError("no good"), errors.InvalidArgumentError, "raised ValueError: no good"),
        (MemoryError("too big"), errors.OutOfMemoryError, "MemoryError: too big"),
        (TimeoutError("late"), errors.DeadlineExceededError, "late"),
        (NotImplementedError("later"), errors.UnimplementedError, "later"),
        (errors.DeviceLostError("gone"), errors.DevrtError, "DeviceLostError: gone"),
        (ZeroDivisionError("zero"), errors.InternalError, "zero"),
        (SystemExit("stop"), errors.InternalError, "stop"),
        (ValueError("nul \0 and \udcff"), errors.InvalidArgumentError, "nul"),
    ],
)
def test_what_a_function_raises_is_the_results_error(
    client, name, raised, kind, expected, call_program
):
    def call(a):
        raise raised

    client.register_custom_call(name, call)
    with pytest.raises(kind, match=expected) as caught:
        run(client, call_program(name), X)
    assert name in caught.value.message
    assert os.path.basename(__file__) in caught.value.message


@pytest.mark.parametrize("made", [X[:3], X.astype("f8"), (X, X), None, [], "text"])
def test_results_that_do_not_fit_are_refused(client, name, made, call_program):
    client.register_custom_call(name, lambda a: made)
    with pytest.raises(errors.InvalidArgumentError, match="must"):
        run(client, call_program(name), X)


def test_an_argument_is_the_functions_own(client, name, call_program):
    kept = []

    def call(a):
        kept.append(a)
        a[:] += 1
        return a

    client.register_custom_call(name, call)
    executable = client.compile_and_load(call_program(name))
    source = client.buffer_from_pyval(X)
    for _ in range(50):
        executable.execute([source])[0].block_until_ready()
    assert all((a == X + 1).all() for a in kept)
    assert (np.asarray(source) == X).all()


def test_one_function_replaces_another_and_nothing_else_does(client, name, call_program):
    client.register_custom_call(name, lambda a: a + 1)
    executable = client.compile_and_load(call_program(name))
    client.register_custom_call(name, lambda a: a + 2)
    assert np.asarray(executable.execute([client.buffer_from_pyval(X)])[0])[0] == 2
    with pytest.raises(errors.PluginError, match="cannot forget"):
        client.register_custom_call(name, print, kind="device")


def test_a_handler_of_kind_device_gets_addresses(client, name, call_program):
    seen = []

    def call(frame):
        seen.append(frame)
        (a,), (b,) = frame.arguments, frame.results
        ctypes.memmove(b.address, a.address, b.nbytes)

    client.register_custom_call(name, call, kind="device")
    (made,) = run(client, call_program(name, attributes="n = 1 : i32"), X)
    np.testing.assert_array_equal(made, X)
    (frame,) = seen
    assert isinstance(frame, DeviceCall)
    assert (frame.attributes, frame.stream) == ({"n": 1}, 0)
    assert (frame.arguments[0].shape, frame.arguments[0].dtype) == ((8,), np.float32)


def capsule_of(function):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(ctypes.cast(function, ctypes.c_void_p).value, None, None)


FORMS = {
    "ctypes": lambda f: f,
    "address": lambda f: ctypes.cast(f, ctypes.c_void_p).value,
    "cffi": lambda f: ffi.cast("void *", ctypes.cast(f, ctypes.c_void_p).value),
    "capsule": capsule_of,
}


@pytest.mark.parametrize("form", FORMS)
def test_native_code_is_called(client, name, thrice, form, call_program):
    client.register_custom_call(name, FORMS[form](thrice))
    (made,) = run(client, call_program(name), X)
    np.testing.assert_array_equal(made, X * 3)
    with pytest.raises(errors.DevrtError, match="it is negative"):
        run(client, call_program(name), X - 1)
    with pytest.raises(errors.PluginError, match="registered with"):
        client.register_custom_call(name, print)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", print), "a string"),
        ((3, print), "a string"),
        (("x", None), "a callable"),
        (("x", "text"), "a callable"),
        (("x", 0), "that of a function"),
        (("x", -1), "that of a function"),
        (("x", 4096), "that of a function"),
        (("x", True), "a callable"),
        (("x", ctypes.c_void_p(None)), "that of a function"),
        (("x", print, "both"), "'host' or 'device'"),
    ],
)
def test_what_is_no_custom_call_is_refused(client, arguments, message):
    name, function, *kind = arguments
    with pytest.raises(errors.InvalidArgumentError, match=message):
        client.register_custom_call(name, function, **({"kind": kind[0]} if kind else {}))


def test_a_name_that_nothing_answers_is_refused_and_says_how_to_register(
    client, name, call_program
):
    with pytest.raises(errors.UnimplementedError, match=f"{name}.*register_custom_call"):
        client.compile_and_load(call_program(name))


@pytest.mark.parametrize("address", [3, 4096, (1 << 47) - 1, (1 << 64) - 1, "data"])
def test_an_address_without_code_is_refused(client, name, address):
    address = X.ctypes.data if address == "data" else address
    for function in (address, ctypes.c_void_p(address), ffi.cast("void *", address)):
        with pytest.raises(errors.InvalidArgumentError, match="must be that of a function"):
            client.register_custom_call(name, function)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_reaches_the_program(client, name, call_program):
    def call(a):
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        else:
            os.kill(os.getpid(), signal.SIGINT)
        return a

    client.register_custom_call(name, call)
    executable, value = client.compile_and_load(call_program(name)), client.buffer_from_pyval(X)
    with pytest.raises((KeyboardInterrupt, errors.DevrtError)) as caught:  # noqa: PT012  whichever is first
        executable.execute([value])[0].block_until_ready()
        for _ in range(1000):
            threading.Event().wait(0.01)
    if client.runtime_type != "native":  # its functions run in the calling thread
        assert caught.type is KeyboardInterrupt
        assert isinstance(caught.value.__cause__, errors.DevrtError)
    client.register_custom_call(name, lambda a: a + 1)
    assert np.asarray(executable.execute([value])[0])[0] == 1


def test_many_threads_and_devices_call_at_once(client, name, call_program):
    client.register_custom_call(name, lambda a: a * 2)
    one = [client.compile_and_load(call_program(name), [d]) for d in client.devices()]
    short = client.compile_and_load(double())

    def work(at):
        program, device = one[at % 8], client.devices()[at % 8]
        for step in range(50):
            value = np.full(8, step, np.float32)
            (made,) = program.execute([client.buffer_from_pyval(value, device)])
            (other,) = short.execute([client.buffer_from_pyval(value)])
            assert (np.asarray(made) == 2 * step).all()
            assert (np.asarray(other) == 2 * step).all()

    together(work, range(16))

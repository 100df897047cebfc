"""The registry of custom calls, without a plugin: names, slots, and what an answer is."""

import ctypes

import numpy as np
import pytest

from devrt import dtypes, errors
from devrt.compiling.custom_call_registry import CustomCallRegistry, code_of, dtype_of
from devrt.contract import RawBuffer
from support import together


@pytest.fixture
def registry():
    return CustomCallRegistry()


@pytest.fixture
def register(registry):
    """Return a function that registers, and notes what is bound."""
    bound = []

    def bind(handler, address):
        bound.append((handler.name, address))
        return len(bound) - 1

    def call(name, function, kind="host", **named):
        registry.register(name, function, kind, bind, owner="acme", **named)

    call.bound = bound
    return call


def buffer_of(array):
    return RawBuffer(array.ctypes.data, array.shape, array.dtype)


def test_a_slot_is_answered_by_its_function(registry, register):
    register("twice", lambda a: a * 2)
    register("thrice", lambda a, by: a * by)
    x, y = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    assert registry.answer(0, lambda: ([buffer_of(x)], [buffer_of(y)], {}, 0)) is None
    assert y.tolist() == [0, 2, 4]
    assert registry.answer(1, lambda: ([buffer_of(x)], [buffer_of(y)], {"by": 3}, 0)) is None
    assert y.tolist() == [0, 3, 6]


def test_one_function_takes_anothers_place_and_binds_nothing(registry, register):
    register("name", lambda: ())
    register("name", lambda: 1 / 0)
    assert register.bound == [("name", None)]
    assert registry.answer(0, lambda: ([], [], {}, 0))[0] == errors.StatusCode.INTERNAL
    for kind, function in (("device", print), ("host", ctypes.pythonapi.Py_IsInitialized)):
        with pytest.raises(errors.PluginError, match="registered with acme already") as caught:
            register("name", function, kind, plugin="acme")
        assert caught.value.plugin == "acme"


def test_reserved_names_are_taken_and_scopes_have_names_of_their_own(register):
    with pytest.raises(errors.PluginError, match="cannot forget"):
        register("lapack", print, reserved=["lapack"])
    native = ctypes.pythonapi.Py_IsInitialized
    register("name", native, scope=1)
    register("name", native, scope=2)
    assert [name for name, address in register.bound if address] == ["name", "name"]
    with pytest.raises(errors.PluginError, match="cannot forget"):
        register("name", print, scope=1)


def test_kinds_of_clients_that_share_a_library_have_one_function_for_a_name(registry, tmp_path):
    library, link = tmp_path / "compiler.so", tmp_path / "link.so"
    library.touch()
    link.symlink_to(library)
    other = CustomCallRegistry()

    def register(where, function, path, name="name"):
        where.register(name, function, "host", lambda *_: 0, owner="acme", library=str(path))

    def refuse(*_):
        raise errors.UnimplementedError("full")

    register(registry, print, library)
    register(other, print, link)
    with pytest.raises(errors.PluginError, match=r"acme already.*link\.so"):
        register(other, repr, link)
    register(registry, repr, library)  # in the place of its own
    with pytest.raises(errors.PluginError, match="Use another name"):
        register(other, print, link)
    register(other, print, tmp_path / "another.so")
    with pytest.raises(errors.UnimplementedError):
        registry.register("x", print, "host", refuse, owner="acme", library=str(library))
    register(other, repr, library, "x")


def test_a_name_that_the_plugin_refuses_stays_free(registry, register):
    def refuse(handler, address):
        raise errors.UnimplementedError("full")

    with pytest.raises(errors.UnimplementedError, match="full"):
        registry.register("name", print, "host", refuse, owner="acme")
    register("name", print)


def test_what_it_raises_is_the_answer_with_its_place(registry, register):
    def call():
        raise ValueError("no \0 good")

    register("name", call)
    code, message = registry.answer(0, lambda: ([], [], {}, 0))
    assert code == errors.StatusCode.INVALID_ARGUMENT
    assert message.startswith("custom call 'name' (" + __file__)
    assert message.endswith("raised ValueError: no   good")


def test_an_error_of_a_backend_comes_without_a_place(registry, register):
    def call():
        raise errors.PeerLostError("process 1 is lost", processes=(1,))

    register("name", call)
    _, message = registry.answer(0, lambda: ([], [], {}, 0))
    assert message == "custom call 'name' raised PeerLostError: process 1 is lost"


def test_an_error_of_devrt_has_the_line_of_the_function(registry, register):
    def call():
        dtypes.by_name("none")

    register("name", call)
    _, message = registry.answer(0, lambda: ([], [], {}, 0))
    line = call.__code__.co_firstlineno + 1
    assert message.startswith(f"custom call 'name' ({__file__}:{line}) raised Invalid")


def test_an_error_that_cannot_say_what_it_is_is_an_answer_too(registry, register):
    class MuteError(Exception):
        def __str__(self):
            raise TypeError("no words")

    def call():
        raise MuteError

    register("name", call)
    code, message = registry.answer(0, lambda: ([], [], {}, 0))
    assert code == errors.StatusCode.INTERNAL
    assert message.endswith("raised MuteError: (its message cannot be shown)")


def test_an_interrupt_in_the_main_thread_goes_through(registry, register):
    def call():
        raise KeyboardInterrupt

    register("name", call)
    with pytest.raises(KeyboardInterrupt):
        registry.answer(0, lambda: ([], [], {}, 0))
    answers = []
    together(lambda _: answers.append(registry.answer(0, lambda: ([], [], {}, 0))), [0])
    assert "raised KeyboardInterrupt" in answers[0][1]


def test_after_the_end_it_is_cancelled(registry, register):
    register("name", print)
    registry.clear()
    code, message = registry.answer(0, lambda: ([], [], {}, 0))
    assert (code, message) == (1, "the process's Python interpreter ends")


def test_types_that_numpy_has_no_bytes_for_are_refused():
    assert dtype_of(11) == np.float32
    for number in (21, 17, 99):
        with pytest.raises(NotImplementedError, match=f"element type {number} of XLA"):
            dtype_of(number)


@pytest.mark.parametrize("name", ["", 3, "\ud800"])
def test_what_is_no_name_is_refused_before_it_is_bound(register, name):
    with pytest.raises(errors.InvalidTypeError, match="a custom call's name is"):
        register(name, print)
    assert register.bound == []


class CodeError(Exception):
    def __init__(self, code):
        self.given = code

    @property
    def code(self):
        return 1 // 0 if self.given is None else self.given


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ClosedError("shut", code=errors.StatusCode.ABORTED), errors.StatusCode.ABORTED),
        (CodeError(5), errors.StatusCode.NOT_FOUND),
        (CodeError(None), errors.StatusCode.INTERNAL),
        (CodeError(True), errors.StatusCode.INTERNAL),
        (CodeError(0), errors.StatusCode.INTERNAL),
        (CodeError(99), errors.StatusCode.INTERNAL),
        (SystemExit(3), errors.StatusCode.INTERNAL),
    ],
)
def test_only_a_status_is_read_as_one(error, status):
    assert code_of(error) is status

"""The errors: classes, codes, data, and what survives copying and pickling."""

import copy
import pickle

import pytest

from devrt import errors
from devrt._support.warn import warn
from devrt.errors import DevrtError, StatusCode, from_status

CLASSES = [
    value
    for name in errors.__all__
    if isinstance(value := getattr(errors, name), type) and issubclass(value, DevrtError)
]

PROMISES = [
    (errors.ConfigError, ValueError),
    (errors.InvalidArgumentError, ValueError),
    (errors.InvalidTypeError, ValueError),
    (errors.InvalidTypeError, TypeError),
    (errors.OutOfMemoryError, MemoryError),
    (errors.DeadlineExceededError, TimeoutError),
    (errors.UnimplementedError, NotImplementedError),
    (errors.UnknownPlatformError, errors.SelectionError),
    (errors.NoBackendError, errors.SelectionError),
    (errors.BackendUnavailableError, errors.SelectionError),
    (errors.PluginLoadError, errors.PluginError),
    (errors.PluginContractError, errors.PluginError),
    (errors.BackendInitializationError, errors.PluginError),
]

BY_CODE = {
    StatusCode.INVALID_ARGUMENT: errors.InvalidArgumentError,
    StatusCode.OUT_OF_RANGE: errors.InvalidArgumentError,
    StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    StatusCode.RESOURCE_EXHAUSTED: errors.OutOfMemoryError,
    StatusCode.UNIMPLEMENTED: errors.UnimplementedError,
    StatusCode.INTERNAL: errors.InternalError,
    StatusCode.DATA_LOSS: errors.DeviceLostError,
}

BY_REASON = {
    "deleted": errors.DeletedError,
    "closed": errors.ClosedError,
    "type": errors.InvalidTypeError,
}


def facts(error):
    return type(error), str(error), error.message, error.code, error.data


def test_the_list_of_classes_is_not_empty():
    assert len(CLASSES) == 31


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: e.fresh()])
def test_a_copy_keeps_message_code_and_data(cls, again):
    error = cls("what, on what, why", code=StatusCode.ABORTED, device="acme:1", count=3)
    copied = again(error)
    assert copied is not error
    assert facts(copied) == facts(error)
    assert (copied.device, copied.count) == ("acme:1", 3)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_message_code_and_data(cls, protocol):
    error = cls("a message", code=7, key=("a", 1))
    copied = pickle.loads(pickle.dumps(error, protocol))
    assert facts(copied) == facts(error)
    assert copied.code is StatusCode.PERMISSION_DENIED
    assert copied.key == ("a", 1)


@pytest.mark.parametrize("cls", CLASSES)
def test_each_class_has_a_code_and_needs_no_argument(cls):
    error = cls()
    assert (str(error), error.code, error.data) == ("", cls.default_code, {})
    assert isinstance(error.code, StatusCode)
    assert isinstance(error, RuntimeError)


@pytest.mark.parametrize(("cls", "base"), PROMISES)
def test_built_in_handlers_catch_it(cls, base):
    with pytest.raises(base, match="the text") as caught:
        raise cls("the text", device="acme:0")
    assert caught.value.device == "acme:0"
    assert str(caught.value) == "the text"


def test_data_cannot_be_changed_from_outside():
    error = DevrtError("text", key=1)
    error.data["key"] = 2
    assert error.data == {"key": 1}


def test_fresh_keeps_the_cause_but_no_traceback():
    with pytest.raises(DevrtError) as caught:
        raise DevrtError("text") from KeyError("cause")
    fresh = caught.value.fresh()
    assert fresh.__traceback__ is None
    assert fresh.__cause__ is caught.value.__cause__ is not None


@pytest.mark.parametrize("code", list(StatusCode))
def test_a_status_becomes_the_class_of_its_code(code):
    error = from_status(int(code), "text", operation="copy", device="")
    assert type(error) is BY_CODE.get(code, DevrtError)
    assert (error.code, error.message, error.data) == (code, "text", {"operation": "copy"})


@pytest.mark.parametrize("reason", BY_REASON)
@pytest.mark.parametrize("code", [StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION])
def test_a_reason_is_finer_than_a_code(reason, code):
    error = from_status(code, "text", reason=reason)
    assert type(error) is BY_REASON[reason]
    assert error.code is code


def test_an_unknown_reason_leaves_the_code_to_decide():
    assert type(from_status(13, "text", reason="other")) is errors.InternalError


@pytest.mark.parametrize(
    ("code", "text", "cls"),
    [
        (9, "custom call 'f' raised DeletedError: gone", errors.DeletedError),
        (9, "execute failed: call 'f' (a.py:3) raised ClosedError: shut", errors.ClosedError),
        (3, "custom call 'f' raised InvalidTypeError: no", errors.InvalidTypeError),
        (2, "custom call 'f' raised PeerLostError: Lost: process 1.", errors.PeerLostError),
        (13, "custom call 'f' raised DeletedError: gone", errors.InternalError),
        (13, "custom call 'f' raised TheirError: x raised ClosedError: y", errors.InternalError),
        (9, "custom call 'f' raised TheirError: gone", DevrtError),
    ],
)
def test_the_class_that_a_function_in_a_program_raised_is_that_of_the_program(code, text, cls):
    assert type(from_status(code, text)) is cls


@pytest.mark.parametrize("code", [17, 99, -1])
def test_a_status_of_a_foreign_number_is_unknown(code):
    error = from_status(code, "text")
    assert type(error) is DevrtError
    assert error.code is StatusCode.UNKNOWN


def test_warnings_can_be_escalated_together():
    assert issubclass(errors.UnraisableErrorWarning, errors.DevrtWarning)
    assert issubclass(errors.DevrtWarning, UserWarning)


@pytest.mark.parametrize("name", ["devrt.deep.inside", "devrt_acme.client", "devrt"])
def test_a_warning_points_past_devrt_and_its_backends(name):
    scope = {"__name__": name, "warn": warn}
    exec(compile("def inner():\n    warn('text', UserWarning)", "inner.py", "exec"), scope)
    exec(compile("def outer():\n    inner()", "outer.py", "exec"), scope)
    with pytest.warns(UserWarning, match="text") as caught:
        scope["outer"]()
    assert [warning.filename for warning in caught] == [__file__]


def test_a_caller_whose_name_only_begins_like_devrt_is_a_caller():
    scope = {"__name__": "devrtish", "warn": warn}
    exec(compile("def inner():\n    warn('text', UserWarning)", "inner.py", "exec"), scope)
    with pytest.warns(UserWarning, match="text") as caught:
        scope["inner"]()
    assert [warning.filename for warning in caught] == ["inner.py"]

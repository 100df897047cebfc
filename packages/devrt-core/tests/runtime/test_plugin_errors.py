"""What a backend does that the contract does not allow: the error names it, nothing is silent."""

import sys
import textwrap

import numpy as np
import pytest

import devrt
from devrt.errors import (
    BackendInitializationError,
    DevrtWarning,
    InvalidArgumentError,
    InvalidTypeError,
    OutOfMemoryError,
    PluginContractError,
    PluginError,
    StatusCode,
)
from devrt.probing.client_checks import problem_of
from devrt.sharding import NamedSharding, PartitionSpec

SOURCE = """
from devrt.hookspecs import hookimpl
from devrt.records import ClientFactory
from devrt_acme.client import AcmeBuffer, AcmeClient

class OwnClient(AcmeClient):
    platform = "own"
{members}

@hookimpl
def devrt_client_factories():
    return [ClientFactory(platform="own", factory=lambda context: OwnClient(2))]
"""


@pytest.fixture
def own(plugins, as_default, monkeypatch):
    """Return a function that installs a plugin whose client has these members, and its devices."""

    from devrt.arrays import checked
    from devrt.arrays import put as _put
    from devrt_acme.client import AcmeDevice

    # As in a process that has met no such device and no such buffer yet.
    monkeypatch.delitem(_put.TARGET_KINDS, AcmeDevice, raising=False)
    monkeypatch.setattr(_put.Config, "guards_are_set", False)

    def install(members):
        plugins.add("own", SOURCE.replace("{members}", textwrap.indent(members, "    ")))
        as_default(plugins.runtime())
        return devrt.devices("own")

    before = [(known, set(known)) for known in (checked.PUT, checked.SHARDED, checked.COPIED)]
    for known, _ in before:
        known.clear()
    yield install
    for known, kept in before:
        known |= kept


CLIENTS = {
    "another platform": ("platform = 'other'", "platform of its client is 'other', and its record"),
    "no devices": ("devices = lambda self: []", "its client has no devices"),
    "no device": ("devices = lambda self: [5]", "is of type int, no devrt.contract.Device"),
    "an id twice": ("devices = lambda self: [self._devices[0]] * 2", "two .* have the id 0"),
    "devices of another platform": (
        "def devices(self):\n    type(self._devices[0]).platform = 'zop'\n    return self._devices",
        "platform of its device 0 is 'zop', and that of the client 'own'",
    ),
    "an id of text": (
        "def devices(self):\n    type(self._devices[0]).id = '0'\n    return self._devices",
        "the id of one of its devices is '0', no integer",
    ),
    "a kind that is no text": (
        "def devices(self):\n    type(self._devices[0]).device_kind = 7\n    return self._devices",
        "device_kind of its device 0 is 7, no text",
    ),
    "no default memory": (
        "def devices(self):\n    type(self._devices[0]).default_memory = lambda d: None\n"
        "    return self._devices",
        "default memory of its device 0 is no devrt.contract.Memory",
    ),
    "other devices each time": (
        "devices = lambda self: [type(self._devices[0])(self, 0)]",
        "its devices are other objects each time",
    ),
    "foreign local devices": (
        "local_devices = lambda self: [type(self._devices[0])(self, 0)]",
        "one of its local_devices",
    ),
    "a wrong count": (
        "device_count = lambda self: 7",
        r"device_count\(\) is 7, and devices\(\) has",
    ),
}


@pytest.mark.parametrize("what", CLIENTS)
def test_a_client_that_breaks_the_contract_is_refused_when_it_is_made(own, monkeypatch, what):
    from devrt_acme.client import AcmeDevice

    for name in ("platform", "id", "device_kind", "default_memory"):  # to be put back
        monkeypatch.setattr(AcmeDevice, name, vars(AcmeDevice)[name])
    members, words = CLIENTS[what]
    with pytest.raises(BackendInitializationError, match=words) as caught:
        own(members)
    assert (caught.value.plugin, caught.value.platform) == ("fake-own", "own")


def test_real_clients_have_no_problem(plugins, cpu):
    ref = plugins.runtime().plugins
    assert ref.refs() == ()
    from devrt.plugins import PluginRef

    assert problem_of(PluginRef("cpu", "devrt-cpu"), cpu[0].client) == ""


OPTION = "(OptionSpec(name='num_bad', type=int, default=2, minimum=1),)"


@pytest.mark.parametrize("error", ["InvalidArgumentError", "InvalidTypeError"])
def test_an_argument_error_of_the_plugins_own_is_a_failure_like_any_other(plugins, error):
    make = f"""
    from devrt.errors import {error}
    raise {error}("it rejects itself")"""
    plugins.add("bad", priority=9, make=make, options=OPTION)
    plugins.add("good")
    with plugins.runtime() as runtime:
        with pytest.warns(DevrtWarning, match="it rejects itself"):
            assert runtime.get_backend().platform == "good"
        with pytest.raises(BackendInitializationError, match=f"{error}: it rejects") as caught:
            runtime.get_backend("bad")
        assert (caught.value.plugin, caught.value.platform) == ("fake-bad", "bad")
        with pytest.raises(InvalidArgumentError, match="it rejects"):  # a value of the caller's
            runtime.make_client("bad", {"num_bad": 3})


LOST = """
    from devrt.errors import DeviceLostError
    raise DeviceLostError("gone", operation="open", device="one:3", queue=7)"""


def test_a_failure_has_the_code_operation_and_device_of_its_cause(plugins):
    plugins.add("one", make=LOST)
    plugins.add("two", make="raise OSError('gone')")
    runtime = plugins.runtime()
    for _ in range(2):  # the second is a copy of what the first one kept
        with pytest.raises(BackendInitializationError) as caught:
            runtime.get_backend("one")
        assert caught.value.code is StatusCode.DATA_LOSS
        assert (caught.value.operation, caught.value.device) == ("open", "one:3")
        assert set(caught.value.data) == {
            *("operation", "device"),
            *("phase", "plugin", "version", "platform"),
        }
    with pytest.raises(BackendInitializationError) as caught:
        runtime.get_backend("two")
    assert caught.value.code is StatusCode.INTERNAL
    assert not hasattr(caught.value, "device")


FAILS = "{name} = lambda self, *a, **k: {{}}['gone']"
X = np.ones((4, 2), np.float32)


def over(devices):
    return NamedSharding(devrt.sharding.Mesh(np.array(devices), ("x",)), PartitionSpec("x"))


CALLS = {
    "buffer_from_pyval": lambda d: devrt.device_put(X, d[0]),
    "batched_buffer_from_pyval": lambda d: devrt.device_put(X, over(d)),
    "buffers_from_pyvals": lambda d: devrt.device_put([X, X], d[0]),
    "batched_block_until_ready": lambda d: devrt.device_put(X, over(d)).block_until_ready(),
    "batched_copy_to_host": lambda d: np.asarray(devrt.device_put(X, over(d))),
    "assemble_buffers": lambda d: devrt.device_put(devrt.device_put(X, over(d)), d[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_bare_exception_of_a_client_names_the_plugin(own, name):
    devices = own(FAILS.format(name=name))
    for _ in range(2):
        with pytest.raises(PluginError, match=r"plugin fake-own 1\.0 for .* failed in") as e:
            CALLS[name](devices)
        assert "KeyError: 'gone'" in str(e.value)
        assert isinstance(e.value.__cause__, KeyError)
        assert (e.value.plugin, e.value.version, e.value.phase) == ("fake-own", "1.0", "call")


def test_a_bare_exception_of_native_code_names_the_plugin(own):
    devices = own("buffer_from_pyval = staticmethod(divmod)")  # native code has no frames
    for _ in range(2):
        with pytest.raises(PluginError, match="failed in buffer_from_pyval: TypeError: divmod"):
            devrt.device_put(X, devices[0])


BUFFERS = {
    "__array__": np.asarray,
    "block_until_ready": devrt.block_until_ready,
    "copy_to_memory": lambda x: devrt.device_put(x, devrt.devices("own")[1]),
    "delete": lambda x: x.delete(),
    "is_ready": lambda x: x.is_ready(),
}


@pytest.mark.parametrize("name", BUFFERS)
def test_a_bare_exception_of_a_buffer_names_the_plugin(own, monkeypatch, name):
    array = devrt.device_put(X, own("pass")[0])
    made_there = vars(sys.modules["devrt_acme.client"])
    fails = eval("lambda self, *a, **k: {}['gone']", made_there)
    with monkeypatch.context() as patch:
        patch.setattr(type(array._buffers[0]), name, fails)
        with pytest.raises(PluginError, match=r"fake-own 1\.0 .* failed in .*KeyError: 'gone'"):
            BUFFERS[name](array)


def test_errors_of_devrts_stay_what_they_are(own):
    raises = "from devrt.errors import OutOfMemoryError; raise OutOfMemoryError('full')"
    devices = own(f"def buffer_from_pyval(self, *a):\n    {raises}")
    with pytest.raises(OutOfMemoryError, match=r"^full$"):
        devrt.device_put(X, devices[0])


class Mine:
    """A value of the user's own, whose own code fails within the backend's call."""

    def __init__(self, error):
        self.error = error

    def __array__(self, *args, **kwargs):
        raise self.error


@pytest.mark.parametrize(
    ("error", "wanted"), [(LookupError("mine"), LookupError), (ValueError("x"), InvalidTypeError)]
)
def test_an_error_of_the_users_own_value_names_no_plugin(own, error, wanted):
    devices = own("pass")
    with pytest.raises(wanted) as caught:
        devrt.device_put(Mine(error), devices[0])
    assert not isinstance(caught.value, PluginError)


RESULTS = {
    "another shape": (
        "buffer_from_pyval = lambda self, x, d=None, *a: OwnBuffer(x.reshape(-1), d)",
        lambda d: devrt.device_put(X, d[0]),
        r"buffer_from_pyval returned float32\[8\], and float32\[4, 2\] was requested",
    ),
    "another dtype": (
        "buffer_from_pyval = lambda self, x, d=None, *a: OwnBuffer(x.astype('f8'), d)",
        lambda d: devrt.device_put(X),
        r"buffer_from_pyval returned float64\[4, 2\], and float32\[4, 2\] was requested",
    ),
    "another block": (
        "batched_buffer_from_pyval = lambda self, x, d, *a: [OwnBuffer(x, one) for one in d]",
        lambda d: devrt.device_put(X, over(d)),
        r"batched_buffer_from_pyval returned float32\[4, 2\], and float32\[2, 2\] was",
    ),
    "too few blocks": (
        "batched_buffer_from_pyval = lambda self, x, d, *a: []",
        lambda d: devrt.device_put(X, over(d)),
        "batched_buffer_from_pyval returned 0 results, and 2 were requested",
    ),
    "too few buffers": (
        "buffers_from_pyvals = lambda self, x, *a: []",
        lambda d: devrt.device_put([X, X], d[0]),
        "buffers_from_pyvals returned 0 results, and 2 were requested",
    ),
}


ARRAYS = {
    "another shape": ("np.zeros(2, 'f4')", r"float32\[2\] for float32\[(2|4), 2\]"),
    "another dtype": ("self._data.astype('i2')", r"int16\[(2|4), 2\] for float32"),
    "a list": ("[[1.0]]", "a list, no array"),
    "None": ("None", "a NoneType, no array"),
}


def another_client():
    from devrt_acme.client import AcmeClient

    return AcmeClient(1)


READS = {
    "whole": lambda d: np.asarray(devrt.device_put(X, d[0])),
    "sharded": lambda d: np.asarray(devrt.device_put(X, over(d))),
    "bytes": lambda d: bytes(devrt.device_put(X, over(d))),
    "into": lambda d: devrt.device_get(devrt.device_put(X, d[0]), out=np.empty_like(X)),
    "staged": lambda d: devrt.device_put(devrt.device_put(X, d[0]), another_client().devices()[0]),
    "resharded": lambda d: devrt.device_put(devrt.device_put(X, over(d)), d[0]),
    "converted": lambda d: devrt.numpy.array(devrt.device_put(X, d[0]), dtype="float64"),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("what", ARRAYS)
def test_what_a_buffer_gives_to_the_host_is_checked_wherever_it_is_read(
    own, monkeypatch, what, read
):
    from devrt_acme.client import AcmeBuffer

    given, words = ARRAYS[what]
    devices = own("pass")
    monkeypatch.setattr(AcmeBuffer, "__array__", eval(f"lambda self, *a, **k: {given}", {"np": np}))
    with pytest.raises(PluginContractError, match=f"fake-own.* __array__ returned {words}"):
        READS[read](devices)


NO_BUFFERS = {
    "None": ("None", "returned None, which is no devrt.contract.Buffer"),
    "an array": ("x", "returned a ndarray, which is no devrt.contract.Buffer"),
    "elsewhere": (
        "AcmeBuffer(x, self._devices[0])",
        "returned a buffer on acme:0, and one on acme:1 was requested",
    ),
}


@pytest.mark.parametrize("what", NO_BUFFERS)
def test_every_put_says_that_its_result_is_no_buffer_there(own, what):
    given, words = NO_BUFFERS[what]
    devices = own(f"buffer_from_pyval = lambda self, x, *a: {given}")
    for put in [lambda: devrt.device_put(X, devices[1])] * 3 + [
        lambda: devrt.device_put([X, X], devices[1]),
        lambda: devrt.device_put(X, over(devices)),
    ]:
        with pytest.raises(PluginContractError, match=words) as caught:
            put()
        assert (caught.value.plugin, caught.value.phase) == ("fake-own", "call")


def test_a_right_put_on_one_device_says_nothing_of_one_over_several(own):
    devices = own("buffer_from_pyval = lambda self, x, *a: AcmeBuffer(x, self._devices[0])")
    for _ in range(2):
        assert devrt.device_put(X, devices[0]).device is devices[0]
    with pytest.raises(PluginContractError, match="acme:0, and one on acme:1 was requested"):
        devrt.device_put(X, over(devices))


@pytest.mark.parametrize(
    ("given", "words"),
    [("None", "None, which is no"), ("self", "a buffer on acme:0, and one on acme:1")],
)
def test_a_copy_that_is_none_or_elsewhere(own, monkeypatch, given, words):
    from devrt_acme.client import AcmeBuffer

    devices = own("pass")
    array = devrt.device_put(X, devices[0])
    fails = eval(f"lambda self, *a, **k: {given}")
    monkeypatch.setattr(AcmeBuffer, "copy_to_memory", fails)
    replicated = NamedSharding(over(devices).mesh, PartitionSpec())
    for target in (devices[1], devices[1], replicated):
        with pytest.raises(PluginContractError, match=f"returned {words}"):
            devrt.device_put(array, target)


@pytest.mark.parametrize("what", RESULTS)
def test_a_result_that_is_not_what_was_requested(own, what):
    members, call, words = RESULTS[what]
    devices = own(members + "\nglobal OwnBuffer\nclass OwnBuffer(AcmeBuffer): pass")
    with devrt.default_device(devices[0]):
        for _ in range(2):
            with pytest.raises(PluginContractError, match=words) as caught:
                call(devices)
            assert caught.value.plugin == "fake-own"

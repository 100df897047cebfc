"""One error for everything that a backend's classes lack."""

import pytest

from devrt._support import caches
from devrt.contract import Buffer, Client, Device, LoadedExecutable, Memory, Topology
from devrt.contract.members import lacking, members
from devrt.doctor import diagnose
from devrt.errors import BackendInitializationError, PluginContractError, UnimplementedError


def partly(kind, **own):
    """Return a class of a kind with what it needs, all of it None, and members of its own."""
    needed = {name: None for name, is_needed in members(kind).items() if is_needed}
    return type(kind)("Mine", (kind,), needed | own)


KINDS = [Client, Device, Memory, Buffer, LoadedExecutable, Topology]


@pytest.mark.parametrize("kind", KINDS)
def test_registering_what_lacks_members_names_all_of_them(kind):
    class Native:
        platform = "x"

    with pytest.raises(PluginContractError) as caught:
        kind.register(Native)
    needed = sorted(n for n, is_needed in members(kind).items() if is_needed and n != "platform")
    assert caught.value.missing == tuple(needed)
    assert f"cannot be registered as devrt.contract.{kind.__name__}" in str(caught.value)
    assert not issubclass(Native, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_registered_class_gets_the_defaults_that_it_lacks(kind):
    needed = {name: lambda self: None for name, is_needed in members(kind).items() if is_needed}
    native = type("Native", (), needed)
    assert kind.register(native) is native
    assert issubclass(native, kind)
    assert not lacking(native, kind)
    for name in members(kind):
        assert hasattr(native, name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_cannot_be_changed_needs_no_private_helpers(kind):
    helpers = [name for name, needed in members(kind).items() if name[0] == "_" and not needed]
    assert {name for name in helpers if not name.startswith("__")} <= {"_make_compile_only_devices"}


def test_a_registered_device_called_returns_itself():
    needed = {name: lambda self: None for name, is_needed in members(Device).items() if is_needed}
    device = Device.register(type("NativeDevice", (), needed))()
    assert device() is device


def test_what_a_device_says_is_an_attribute_too():
    device = partly(Device, attributes={"core_count": 7, "id": 3})()
    assert device.core_count == 7
    assert device.id is None  # what the class has comes first
    for name in ("coords", "_private"):
        with pytest.raises(AttributeError, match=f"'Mine' object has no attribute '{name}'"):
            getattr(device, name)


def test_a_device_that_cannot_say_what_it_is_lacks_attributes():
    broken = property(lambda self: self._not_made_yet)
    assert not hasattr(partly(Device, attributes=broken)(), "coords")


def test_programs_are_forgotten_when_a_client_was_closed(monkeypatch):
    happened = []
    monkeypatch.setattr(caches, "forget_closed", lambda: happened.append("forgotten"))
    client = partly(Client, close=lambda self: happened.append("closed"))()
    client.close()
    assert happened == ["closed", "forgotten"]


def test_an_executable_that_says_little_is_described_by_the_defaults():
    import numpy as np

    from devrt_acme.client import AcmeClient

    client = AcmeClient(2)
    needed = {
        name: lambda self, *_: None for name, need in members(LoadedExecutable).items() if need
    }
    own = {
        "client": client,
        "parameters": [((2, 3), np.dtype("float32")), ((), np.dtype("int8"))],
        "outputs": [((4,), np.dtype("float32"))],
        "local_devices": lambda self: client.devices(),
    }
    native = LoadedExecutable.register(type("NativeExecutable", (), needed | own))()
    assert (native.num_replicas, native.num_partitions, native.is_collective) == (1, 2, True)
    assert (native.donated_parameters, native.custom_calls) == ([], [])
    assert [str(layout) for layout in native.get_parameter_layouts()] == ["{1,0}", "{}"]
    assert [str(layout) for layout in native.get_output_layouts()] == ["{0}"]
    assert native.get_parameter_memory_kinds() == ["device", "device"]
    assert native.get_output_memory_kinds() == ["device"]
    assert native.size_of_generated_code_in_bytes() == -1
    for ask in (native.cost_analysis, native.get_compiled_memory_stats, native.serialize):
        with pytest.raises(UnimplementedError, match="not offered by the executables of the acme"):
            ask()
    with pytest.raises(UnimplementedError, match="loads no compiled programs"):
        client.deserialize_executable(b"")


def test_a_buffer_without_dlpack_says_so():
    import numpy as np

    from devrt_acme.client import AcmeClient

    buffer = AcmeClient(1).buffer_from_pyval(1.5)
    assert buffer.copy_to_host_async() is None
    with pytest.raises(UnimplementedError, match="acme backend exports no buffers through DLPack"):
        np.from_dlpack(buffer)


def test_a_class_that_takes_no_attributes_needs_all_members():
    with pytest.raises(PluginContractError, match=r"ndim.*traceback"):
        Buffer.register(int)


SOURCE = """
from devrt.contract import Buffer, Client, Device, Memory
from devrt.hookspecs import hookimpl
from devrt.records import ClientFactory

class MyBuffer(Buffer):
    shape = dtype = memory = device = None
class MyMemory(Memory):
    kind = platform = process_index = None
class MyDevice(Device):
    id = 0
class MyClient(Client):
    platform = "one"

@hookimpl
def devrt_client_factories():
    return [ClientFactory(platform="one", factory=lambda context: MyClient())]
"""
ALL = (
    "MyClient (Client) lacks buffer_from_pyval, close,",
    "MyDevice (Device) lacks addressable_memories, client,",
    "MyMemory (Memory) lacks addressable_by_devices",
    "MyBuffer (Buffer) lacks __array__, block_until_ready, clone, copy_to_memory,",
)


def test_one_error_names_the_members_of_all_classes(plugins, tmp_path):
    plugins.add("one", SOURCE)
    with plugins.runtime() as runtime:
        for _ in range(2):
            with pytest.raises(BackendInitializationError) as caught:
                runtime.get_backend("one")
            assert all(words in str(caught.value) for words in ALL)
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    finding = next(f for f in report.findings if f.subject == "one@fake-one")
    assert finding.code == "plugin-contract"
    assert all(words in finding.message for words in ALL)


LATER = """
from devrt.contract import Buffer, LoadedExecutable

class MyBuffer(Buffer):
    shape = dtype = memory = device = None

    def delete(self): ...
class MyExecutable(LoadedExecutable):
    name = client = None
"""
BASES = """
import abc
from devrt.contract import Buffer, LoadedExecutable

class OnPurpose(Buffer, abc.ABC): ...
class WithItsOwn(LoadedExecutable):
    @abc.abstractmethod
    def load(self): ...
"""


def test_classes_that_a_client_needs_later_are_seen_when_it_is_made(plugins, tmp_path):
    plugins.add("one", extra=LATER)
    words = (
        "of its classes, MyBuffer (Buffer) lacks __array__, block_until_ready, clone, "
        "copy_to_memory, is_deleted, is_ready, on_device_size_in_bytes, unsafe_buffer_pointer; "
        "MyExecutable (LoadedExecutable) lacks delete, execute, "
    )
    with plugins.runtime() as runtime:
        for _ in range(2):
            with pytest.raises(BackendInitializationError) as caught:
                runtime.get_backend("one")
            assert words in str(caught.value)
            assert caught.value.phase == "client"
        report = diagnose(runtime=runtime, root=tmp_path)
    (finding,) = (each for each in report.findings if each.code == "plugin-contract")
    assert words in finding.message


def test_a_base_that_is_abstract_on_purpose_is_none_of_them(plugins):
    plugins.add("one", extra=BASES)
    with plugins.runtime() as runtime:
        assert runtime.get_backend("one").device_count() == 2


def test_another_type_error_stays_what_it_is(plugins):
    plugins.add("one", make="raise TypeError('not so')")
    with pytest.raises(BackendInitializationError, match="TypeError: not so"):
        plugins.runtime().get_backend("one")

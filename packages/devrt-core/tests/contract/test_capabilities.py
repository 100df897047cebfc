"""What a client says that it can do, against what it does."""

import dataclasses

import numpy as np
import pytest

from devrt.contract import Capabilities, Client
from devrt.errors import UnimplementedError
from devrt.layout import Layout
from devrt_acme.client import AcmeClient, AcmeDevice
from support import double, make_client, run_python

KINDS = ["acme", pytest.param("cpu", marks=pytest.mark.engine), "loader"]


@pytest.fixture(params=KINDS)
def client(request):
    made = AcmeClient(1) if request.param == "acme" else make_client(request.param)
    yield made
    made.close()


def does(operation):
    """Return whether an operation is offered."""
    try:
        operation()
    except (UnimplementedError, BufferError):
        return False
    return True


def test_a_client_does_what_it_says_and_nothing_else(client):
    can = client.capabilities
    buffer = client.buffer_from_pyval(np.ones((2, 3), np.float32))
    device = client.local_devices()[0]
    assert can.dlpack == does(buffer.__dlpack__) == does(buffer.__dlpack_device__)
    assert can.streams == does(device.get_stream_for_external_ready_events)
    assert can.custom_calls == does(lambda: client.register_custom_call("can_call", np.copy))
    assert can.formats == client.program_formats
    assert ("stablehlo" in can.formats) == does(lambda: client.compile_and_load(double()))


def test_a_client_takes_layouts_where_it_says_so(client):
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    if not client.capabilities.layouts:
        with pytest.raises(TypeError, match="layout"):
            client.buffer_from_pyval(source, layout=Layout((1, 0)))
        return
    buffer = client.buffer_from_pyval(source, layout=Layout((1, 0)))
    np.testing.assert_array_equal(np.asarray(buffer), source)
    assert buffer.layout == Layout((1, 0))


def test_a_client_that_donates_deletes_what_a_program_takes_over(client):
    if not client.capabilities.donation:
        assert client.capabilities.formats == ()  # there is no program that could
        return
    program = client.compile_and_load(double(alias=" {tf.aliasing_output = 0 : i32}"))
    buffer = client.buffer_from_pyval(np.ones(8, np.float32))
    (out,) = program.execute([buffer])
    np.testing.assert_array_equal(np.asarray(out), np.full(8, 2, np.float32))
    assert buffer.is_deleted()


def test_what_a_class_overrides_shows_by_itself():
    class Streams(AcmeDevice):
        def get_stream_for_external_ready_events(self):
            return 7

    class Overriding(AcmeClient):
        program_formats = ("acme-ir",)

        def __init__(self):
            super().__init__(1)
            self._devices = [Streams(self, 0)]

        def register_custom_call(self, name, function, *, kind="host"):
            pass

        def buffer_from_pyval(self, argument, *rest, layout=None, **named):
            return super().buffer_from_pyval(argument, *rest, **named)

    plain, shown = AcmeClient(1), Overriding()
    assert plain.capabilities == Capabilities()
    assert shown.capabilities == Capabilities(
        formats=("acme-ir",), layouts=True, streams=True, custom_calls=True
    )
    assert shown.live_buffers() == []


def test_what_a_client_knows_takes_the_place_of_what_is_seen():
    known = {"donation": True, "layouts": True, "formats": ("acme-ir",)}
    assert Capabilities.of(AcmeClient(1), **known) == Capabilities(**known)
    with pytest.raises(TypeError, match="streems"):
        Capabilities.of(AcmeClient(1), streems=True)


def test_capabilities_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        AcmeClient(1).capabilities.dlpack = True


def test_a_registered_class_gets_the_default():
    from devrt.contract.members import members

    needed = {name: lambda self: None for name, is_needed in members(Client).items() if is_needed}
    native = Client.register(type("Native", (), {**needed, "program_formats": ("acme-ir",)}))
    assert native.capabilities is Client.capabilities


def test_a_cpu_client_without_a_compiler_promises_no_programs(monkeypatch):
    devrt_cpu = pytest.importorskip("devrt_cpu")
    monkeypatch.setenv("DEVRT_CPU_ENGINE", "no-such-engine")
    with devrt_cpu.make_cpu_client() as client, devrt_cpu.make_cpu_client(False) as waiting:
        can = Capabilities(dlpack=True, asynchronous=True, layouts=True)
        assert client.capabilities == can
        assert waiting.capabilities == dataclasses.replace(can, asynchronous=False)


def test_asking_loads_no_compiler():
    pytest.importorskip("devrt_cpu")
    code = (
        "import devrt\n"
        "print(devrt.get_backend('cpu').capabilities)\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'pjrt' not in maps, maps"
    )
    assert "dlpack=True" in run_python("-c", code).stdout

"""Kernels and collectives of simulated devices that are given what they do not take."""

import numpy as np
import pytest

import devrt
from devrt.errors import (
    BackendUnavailableError,
    DevrtError,
    InvalidArgumentError,
    InvalidTypeError,
    OutOfMemoryError,
)
from devrt.runtime import default_runtime
from gpu_library import Driver, Gated
from support import python, xla_cpu_library

SOURCE = 'extern "C" __global__ void f() {}'


@pytest.fixture
def client(devices):
    return devices[0].client


@pytest.fixture
def group(client):
    return client.collectives()


def put(devices, value=1):
    return [devrt.device_put(np.full(4, value, np.float32), device) for device in devices]


@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        (None, {}, "NoneType"),
        (5, {}, "not of type int"),
        (SOURCE, {"options": "-lineinfo"}, "options must be a list"),
        (SOURCE, {"options": [5]}, "options must be a list"),
        (SOURCE, {"options": 5}, "options must be a list"),
        (SOURCE, {"name_expressions": "f"}, "name_expressions must be a list"),
        (SOURCE, {"grid": 1}, "no option 'grid'"),
        (SOURCE, {"devices": 5}, "devices must be a list"),
    ],
)
def test_what_is_no_source_or_option_is_refused(client, source, more, says):
    with pytest.raises(InvalidTypeError, match=says):
        client.compile(source, format="cuda", **more)


@pytest.mark.parametrize(
    ("source", "says"),
    [("\ud800", "UTF-8"), (b"\xff", "not UTF-8"), (SOURCE + "\0 never read", "NUL")],
)
def test_a_source_that_a_compiler_would_not_read_whole_is_refused(client, source, says):
    with pytest.raises(InvalidArgumentError, match=says):
        client.compile(source, format="cuda")


def test_an_image_is_any_bytes(client):
    for image in (b"none", bytearray(b"none"), memoryview(b"none"), np.frombuffer(b"none", "u1")):
        with pytest.raises(InvalidArgumentError, match="written for the simulator"):
            client.compile(image, format="cubin")


@pytest.mark.parametrize("chosen", [5, 0.5])
def test_a_group_is_made_of_a_list_of_devices(client, chosen):
    with pytest.raises(InvalidTypeError, match="devices must be a list"):
        client.collectives(chosen)


def test_a_set_has_no_order_of_ranks(client, devices):
    with pytest.raises(InvalidTypeError, match="devices must be a list"):
        client.collectives(set(devices))


@pytest.mark.parametrize("timeout", ["a", None, -1, 0, float("nan"), float("inf")])
def test_a_timeout_is_checked_where_nothing_is_waited_for(client, timeout):
    with pytest.raises((InvalidTypeError, InvalidArgumentError), match="timeout must be"):
        client.collectives(timeout=timeout)


def test_a_group_is_made_of_any_iterable_of_devices(client, devices):
    assert client.collectives(np.array(devices)).devices == tuple(devices)
    assert client.collectives(iter(devices)).size == len(devices)


@pytest.mark.parametrize(
    "call",
    [
        lambda group, x: group.all_reduce(None),
        lambda group, x: group.all_gather(5),
        lambda group, x: group.broadcast(x, "0"),
        lambda group, x: group.broadcast(x, 0.5),
        lambda group, x: group.broadcast(x, True),
        lambda group, x: group.all_gather(x, tiled="x"),
        lambda group, x: group.reduce_scatter(x, tiled=5),
        lambda group, x: group.permute(x, None),
        lambda group, x: group.permute(x, [(0,)]),
        lambda group, x: group.permute(x, [(0.7, 1)]),
        lambda group, x: group.permute(x, [("0", 1)]),
        lambda group, x: group.permute(x, [0, 1]),
    ],
)
def test_a_collective_refuses_what_is_no_rank_or_list(group, devices, call):
    with pytest.raises(InvalidTypeError, match="failed: "):
        call(group, put(devices))


def test_an_array_of_another_client_is_named_as_that(group, devices):
    with default_runtime().make_client("cuda", {"mock": True, "mock_gpu_topology": "2"}) as other:
        mixed = [*put(devices[:1]), *put(other.local_devices()[1:])]
        with pytest.raises(InvalidArgumentError, match="rank 1 is another client's"):
            group.all_reduce(mixed)
    assert np.asarray(group.all_reduce(put(devices))[0]).tolist() == [len(devices)] * 4


def test_an_empty_variable_names_no_library(client, monkeypatch):
    monkeypatch.setenv("DEVRT_CUDA_COLLECTIVES", "")
    client.collectives().barrier()


def test_the_variable_that_names_no_library_is_named(client, monkeypatch, tmp_path):
    monkeypatch.setenv("DEVRT_CUDA_COLLECTIVES", str(tmp_path / "none.so"))
    with pytest.raises(DevrtError, match=r"none\.so.*DEVRT_CUDA_COLLECTIVES names it"):
        client.collectives()


def test_source_code_for_gpus_is_not_for_simulated_devices(client):
    try:
        with pytest.raises(InvalidArgumentError, match="Simulated devices run no code for GPUs"):
            client.compile(SOURCE, format="cuda")
    except BackendUnavailableError:
        pytest.skip("there is no NVRTC")


@pytest.mark.parametrize("address", [-1, 1 << 64, "there", None])
def test_an_address_of_more_than_64_bits_is_refused(devices, address):
    class Foreign:
        __cuda_array_interface__ = {  # noqa: RUF012  as other libraries have it
            "shape": (4,), "typestr": "<f4", "data": (address, True), "version": 3
        }  # fmt: skip

    with pytest.raises(InvalidTypeError, match="no number of 64 bits"):
        devrt.device_put(Foreign(), devices[0])


LOSS = """
import sys

import numpy as np

import devrt
from devrt.errors import DeviceLostError
from devrt.runtime import default_runtime

client = default_runtime().make_client("cuda", {"mock": True, "mock_gpu_topology": sys.argv[1]})
devices = client.local_devices()
values = [devrt.device_put(np.ones(4), device) for device in devices]
group = client.collectives()
try:
    while True:
        np.asarray(devrt.device_put(np.ones(4), devices[0]))
except DeviceLostError:
    pass
def shown(call):
    try:
        print(np.asarray(call()).sum())
    except DeviceLostError as error:
        print(error.device, "cuda_visible_devices" in str(error))
"""


def after_loss(code, devices=2):
    lost = {"DEVRT_GPU_SIMULATOR": "delay=0 lose=0:20"}
    done = python(LOSS + code, str(devices), options=(), clean=("DEVRT_", "JAX_"), **lost)
    return done.stdout.splitlines()


def test_a_first_collective_with_a_lost_device_is_an_error():
    code = """
try:
    group.all_reduce(values)
except DeviceLostError as error:
    print("cuda:0" in str(error))
print(np.asarray(values[1]).sum())
"""
    assert after_loss(code) == ["True", "4.0"]


@pytest.mark.engine
def test_a_first_program_after_a_loss_runs_on_the_other_devices():
    code = """
for each in values[1:]:
    shown(lambda: each + 1)
shown(lambda: values[0] + 1)
mesh = devrt.Mesh(np.array(devices[1:]), ("x",))
halves = devrt.NamedSharding(mesh, devrt.PartitionSpec("x"))
shown(lambda: devrt.jit(lambda a: a.sum() + a)(devrt.device_put(np.ones(4), halves)))
"""
    xla_cpu_library()
    assert after_loss(code, 3) == ["8.0", "8.0", "cuda:0 False", "20.0"]


@pytest.mark.engine
def test_a_first_program_without_another_device_names_the_lost_one():
    xla_cpu_library()
    assert after_loss("shown(lambda: values[0] + 1)", 1) == ["cuda:0 True"]


class Shown:
    """What another library shows of memory that a client has."""

    def __init__(self, array, **more):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **more}


@pytest.fixture
def own_device(devices):
    with default_runtime().make_client("cuda", {"mock": True, "mock_gpu_topology": "1"}) as made:
        yield made.local_devices()[0]


def test_a_client_that_the_caller_made_takes_memory_of_its_devices(own_device):
    array = devrt.device_put(np.arange(4.0), own_device)
    taken = devrt.device_put(Shown(array), own_device)
    assert taken.device is own_device
    assert np.asarray(taken).tolist() == [0, 1, 2, 3]
    assert devrt.dlpack.from_dlpack(array, device=own_device).device is own_device


def test_what_is_not_dense_is_copied_where_it_may_be_shared(own_device):
    array = devrt.device_put(np.arange(4.0), own_device)
    shown = Shown(array, strides=(16,), shape=(2,))
    for may_alias in (True, None, False):
        taken = devrt.device_put(shown, own_device, may_alias=may_alias)
        assert np.asarray(taken).tolist() == [0, 2]
    shared = devrt.device_put(Shown(array), own_device, may_alias=True)
    assert shared.unsafe_buffer_pointer() == array.unsafe_buffer_pointer()


class Lent:
    """What another library lends by DLPack of memory that a client has."""

    def __init__(self, array):
        self.__dlpack__, self._where = array.__dlpack__, array.__dlpack_device__()

    def __dlpack_device__(self):
        return self._where


@pytest.mark.parametrize("lend", [Shown, Lent])
@pytest.mark.parametrize(
    "place",
    [
        lambda x, d: devrt.device_put(x, d.memory("device")),
        lambda x, d: devrt.device_put(x, d.memory("pinned_host")),
        lambda x, d: devrt.device_put(x, devrt.sharding.SingleDeviceSharding(d)),
        lambda x, d: devrt.numpy.asarray(x, device=d),
    ],
)
def test_targets_of_that_client_take_it(own_device, lend, place):
    array = devrt.device_put(np.arange(4.0), own_device)
    taken = place(lend(array), own_device)
    assert taken.device is own_device
    assert np.asarray(taken).tolist() == [0, 1, 2, 3]


def test_a_client_that_the_caller_made_is_found_without_a_target():
    code = """
        import numpy as np

        import devrt
        from devrt.runtime import default_runtime

        client = default_runtime().make_client("cuda", {"mock": True})
        x = devrt.device_put(np.arange(4.0), client.local_devices()[0])

        class Shown:
            __cuda_array_interface__ = x.__cuda_array_interface__

        class Lent:
            __dlpack__, __dlpack_device__ = x.__dlpack__, x.__dlpack_device__

        Lent.__dlpack__ = lambda self, **given: x.__dlpack__(**given)
        Lent.__dlpack_device__ = lambda self: x.__dlpack_device__()
        for y in (devrt.device_put(Shown()), devrt.device_put(Lent()),
                  devrt.dlpack.from_dlpack(Lent())):
            print(float(np.asarray(y).sum()))
    """
    done = python(code, options=(), clean=("DEVRT_", "JAX_"), DEVRT_PLATFORMS="cpu")
    assert done.stdout.split() == ["6.0"] * 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_version": 5}, "max_version=5 is not a tuple"),
        ({"max_version": (0,)}, "max_version=(0,) is not a tuple"),
        ({"dl_device": (1,)}, "dl_device=(1,) is not a tuple"),
        ({"stream": 10**30}, f"stream={10**30} is no stream's handle"),
        ({"stream": "x"}, "stream must be None, an int, or an object with __cuda_stream__"),
        ({"stream": 0}, "stream 0 is none of"),
    ],
    ids=str,
)
def test_dlpack_refuses_what_it_does_not_take_by_a_typed_error(own_device, given, says):
    array = devrt.device_put(np.arange(4.0), own_device)
    with pytest.raises(InvalidArgumentError) as caught:
        array.__dlpack__(**given)
    assert str(caught.value).startswith(f"__dlpack__ of the array float64[4] on {own_device} ")
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["nope", "", "\ud800"])
def test_a_kernel_that_is_not_there_is_an_invalid_argument(client, image, name):
    module = client.compile(image.read_bytes(), format="cubin")
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="kernel"):
        _ = module[name]


@pytest.mark.parametrize("more", [{"stream": 0}, {"stream": "a"}, {"stream": -5}])
def test_a_stream_that_is_none_is_refused(own_device, more):
    array = devrt.device_put(np.arange(4.0), own_device)
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="stream"):
        devrt.device_put(Shown(array, **more), own_device)


@pytest.mark.parametrize("number", [3, 12345678, 1 << 40])
def test_a_number_that_is_no_streams_handle_is_named(own_device, number):
    array = devrt.device_put(np.arange(4.0), own_device)
    with pytest.raises(InvalidArgumentError, match=f"The stream {number} .*none of cuda:0's"):
        devrt.device_put(Shown(array, stream=number), own_device)


def test_a_number_that_is_no_stream_is_named_where_it_would_wait(devices):
    units = Gated(Driver("cuda"), 1 << 10)
    x = devrt.device_put(units, may_alias=True)
    try:
        with pytest.raises(InvalidArgumentError, match="The stream 12345 is none of cuda:0's"):
            x.__dlpack__(stream=12345)
        assert not x.is_ready()
    finally:
        units.gate.set()
        x.block_until_ready()


@pytest.mark.parametrize("kind", ["device", "pinned_host"])
def test_a_full_memory_is_named(own_device, kind):
    huge = np.broadcast_to(np.float32(1), (1 << 40,))
    with pytest.raises(OutOfMemoryError, match=f"It is the {kind} memory of cuda:0"):
        devrt.device_put(huge, own_device.memory(kind))


@pytest.mark.parametrize("donate", ["x", None])
def test_a_collectives_donate_is_true_or_false(group, devices, donate):
    with pytest.raises(InvalidTypeError, match="donate must be True or False"):
        group.all_reduce(put(devices), donate=donate)


def test_operands_of_two_clients_are_named_as_that(devices, own_device):
    x, y = (devrt.device_put(np.ones(4, np.float32), each) for each in (devices[0], own_device))
    says = "two clients: .*cuda:0 of one client, and .*cuda:0 of another.*of the other client"
    with pytest.raises(InvalidArgumentError, match=says):
        x + y
    assert np.asarray(devrt.device_put(x, own_device) + y).tolist() == [2] * 4


@pytest.mark.parametrize("more", [{"donate": 5}, {"may_alias": "x"}])
@pytest.mark.parametrize("make", [np.ones, lambda count: [np.ones(count)]])
def test_a_puts_flags_are_true_or_false(own_device, make, more):
    with pytest.raises(InvalidTypeError, match=r"takes True or False for (donate|may_alias), not"):
        devrt.device_put(make(4), own_device, **more)

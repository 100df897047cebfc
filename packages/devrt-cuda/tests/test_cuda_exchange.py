"""Memory that is shared with another library on simulated devices: what waits for what.

Gates hold streams back until the host opens them. A call that waited on the host for work behind a
gate would not return. The simulator reports accesses that nothing orders, whatever the timing.
"""

import ctypes
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import devrt
import gpu_library
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError, NoInterfaceError
from gpu_library import Stream, Tensor, allocate

COUNT = 1 << 20  # float32: more than the arena in front of the driver's pool takes
BYTES = 4 * COUNT
OF_NUMBER = {"small": 1 << 10, "large": COUNT}


class Foreign:
    """An array of the other library, which its stream fills."""

    def __init__(self, stream, count=COUNT, *, waits=True):
        self.stream, self.count, self.waits = stream, count, waits
        self.address = allocate(stream.driver, 4 * count)
        self.is_released = False

    def fill(self):
        self.stream.fill(self.address, 4 * self.count)

    def interface(self, **changes):
        stream = self.stream.handle if self.waits else None
        return {"shape": (self.count,), "typestr": "<i4", "data": (self.address, False),
                "version": 3, "stream": stream, **changes}  # fmt: skip


class ByInterface(Foreign):
    @property
    def __cuda_array_interface__(self):
        return self.interface()


class ByDlpack(Foreign):
    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None):
        """Lend the memory of an array of devrt's own, whose address stands for this one's."""
        if self.waits:
            self.stream.wait_for(int(stream))
        return make_capsule(self)


_living = {}


def make_capsule(foreign):
    """Return a capsule of a one-dimensional tensor of int32."""
    words = (ctypes.c_int64 * 12)()
    shape = (ctypes.c_int64 * 1)(foreign.count)

    def delete(address):
        foreign.is_released = True
        _living.pop(address)

    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete)
    words[0], words[1] = foreign.address, 2  # on CUDA's device 0
    words[2] = 1 | (0 | 32 << 8 | 1 << 16) << 32  # one dimension; int, 32 bits, one lane
    words[3], words[4], words[5] = ctypes.addressof(shape), 0, 0
    words[7] = ctypes.cast(deleter, ctypes.c_void_p).value
    _living[ctypes.addressof(words)] = words, shape, deleter
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(words), gpu_library._CAPSULE, None)


def pending(driver, devices):
    """Return an array that is not ready before its gate is opened."""
    stream = Stream(driver)
    gate = stream.gate()
    foreign = ByInterface(stream)
    foreign.fill()
    return devrt.device_put(foreign, may_alias=True), gate


def read_by(stream, address, count=BYTES):
    stream.copy(allocate(stream.driver, count), address, count)


@pytest.mark.parametrize("how", ["handle", "object", "default"])
def test_the_consumers_stream_waits_and_the_host_does_not(driver, devices, how):
    x, gate = pending(driver, devices)
    consumer = Stream(driver, 1 if how == "default" else None)
    given = {"handle": consumer.handle, "object": consumer, "default": None}[how]
    tensor = Tensor(x.__dlpack__(stream=given))
    read_by(consumer, tensor.address)
    assert not x.is_ready()
    gate.set()
    consumer.synchronize()
    tensor.release()


def test_without_the_wait_the_access_is_reported(driver, devices):
    x, gate = pending(driver, devices)
    consumer = Stream(driver)
    tensor = Tensor(x.__dlpack__(stream=-1))
    read_by(consumer, tensor.address)
    gate.set()
    consumer.synchronize()
    x.block_until_ready()  # what fills it is the second access, where the gate was closed
    tensor.release()
    assert driver.reports() != []


RELEASE = """
import ctypes
import sys
import devrt
import numpy as np
from gpu_library import Driver, Stream, Tensor, allocate

count, is_known = int(sys.argv[1]), sys.argv[2] == "True"
device = devrt.devices("cuda")[0]
x = devrt.device_put(np.ones(count, np.float32), device).block_until_ready()
driver = Driver()
consumer = Stream(driver)
tensor = Tensor(x.__dlpack__(stream=consumer if is_known else consumer.handle))
target = allocate(driver, 4 * count)
gate = consumer.gate()
consumer.copy(target, tensor.address, 4 * count)
tensor.release()
x.delete()
again = [devrt.device_put(np.zeros(count, np.float32), device) for _ in range(3)]
gate.set()
driver._library.cuStreamSynchronize(ctypes.c_void_p(consumer.handle))
print(len(driver.reports()), flush=True)
import os
os._exit(0)  # a device that is lost ends in no order
"""


@pytest.mark.parametrize("size", OF_NUMBER)
@pytest.mark.parametrize("is_known", [True, False])
def test_memory_is_used_again_after_a_stream_that_is_known_to_be_there(devices, is_known, size):
    # In a child: the simulated device is lost where its memory is read after it was freed.
    environ = os.environ | {"PYTHONPATH": os.path.dirname(gpu_library.__file__)}
    arguments = [str(OF_NUMBER[size]), str(is_known)]
    command = [sys.executable, "-W", "ignore", "-c", RELEASE, *arguments]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert (int(ran.stdout) == 0) == is_known


@pytest.mark.parametrize("kind", [ByInterface, ByDlpack])
@pytest.mark.parametrize("waits", [True, False])
def test_what_is_taken_over_is_used_after_its_owners_work(driver, devices, kind, waits):
    stream = Stream(driver)
    gate = stream.gate()
    foreign = kind(stream, waits=waits)
    foreign.fill()
    x = devrt.device_put(foreign, may_alias=True)
    there = devrt.device_put(x, devices[1])
    assert not x.is_ready() or not waits
    gate.set()
    there.block_until_ready()
    stream.synchronize()
    assert (driver.reports() == []) == waits
    if waits:
        assert np.asarray(there)[0] == 0x01010101


def test_the_owners_memory_is_held_until_uses_of_it_have_ended(driver, devices):
    stream = Stream(driver)
    foreign = ByDlpack(stream)
    foreign.fill()
    gate = stream.gate()
    x = devrt.dlpack.from_dlpack(foreign)
    copied = x.copy()
    x.delete()
    assert not foreign.is_released
    gate.set()
    copied.block_until_ready()
    devrt.device_put(0, devices[0])  # a call releases what other threads queued
    for device in devices:
        device.client.defragment()
    _wait_for(lambda: foreign.is_released, devices)


def _wait_for(condition, devices):
    for _ in range(1000):
        if condition():
            return
        devrt.device_put(np.zeros(4), devices[0]).block_until_ready()
    raise AssertionError("it did not come true")


def test_device_put_copies_and_waits_since_the_source_may_change(driver, devices):
    foreign = ByInterface(Stream(driver), 4)
    foreign.fill()
    x = devrt.device_put(foreign, devices[0])
    assert x.is_ready()
    assert x.unsafe_buffer_pointer() != foreign.address
    assert np.asarray(x).tolist() == [0x01010101] * 4
    shared = devrt.device_put(foreign, may_alias=True)
    assert shared.unsafe_buffer_pointer() == foreign.address


def test_strides_of_the_interface_are_obeyed(driver, devices):
    y = devrt.device_put(np.arange(24, dtype=np.int32), devices[0]).block_until_ready()
    address = y.__cuda_array_interface__["data"][0]
    for strides, shape, wanted in (
        ((4, 8), (2, 3), [[0, 2, 4], [1, 3, 5]]),
        ((-8,), (3,), [23, 21, 19]),
        ((0, 4), (2, 2), [[0, 1], [0, 1]]),
    ):
        foreign = ByInterface(Stream(driver), 1)
        begin = address + (23 * 4 if strides[0] < 0 else 0)
        changes = {"shape": shape, "strides": strides, "data": (begin, True)}
        shown = foreign.interface(**changes)
        foreign.interface = lambda shown=shown: shown
        assert np.asarray(devrt.numpy.asarray(foreign)).tolist() == wanted


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((1 << 15,), (0,)),
        ((3, 1000), (4, 0)),
        ((1000, 3), (0, 4)),
        ((7, 5, 6), (0, 4, 0)),
        ((5, 2, 5, 3), (0, 16, 0, 4)),
        ((5000,), (-4,)),
        ((5000, 3), (4, 4)),
        ((2, 3000, 2), (0, -4, 0)),
        ((60, 50), (4, 240)),
        ((10, 20, 30), (4, 1200, 40)),
    ],
)
def test_any_strides_take_few_calls(driver, devices, shape, strides):
    host = np.arange(1 << 14, dtype=np.int32)
    y = devrt.device_put(host, devices[0]).block_until_ready()
    first = 8000
    foreign = ByInterface(Stream(driver), 1)
    changes = {"shape": shape, "strides": strides, "stream": None}
    address = y.unsafe_buffer_pointer() + 4 * first
    foreign.interface = lambda: Foreign.interface(foreign, data=(address, True), **changes)
    before = driver.calls()
    x = devrt.device_put(foreign, devices[0]).block_until_ready()
    assert driver.calls() - before < 1200
    wanted = np.lib.stride_tricks.as_strided(host[first:], shape, strides)
    np.testing.assert_array_equal(np.asarray(x), wanted)


def test_columns_first_is_a_layout_and_needs_no_copy(driver, devices):
    x = devrt.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), devices[0])
    foreign = ByInterface(Stream(driver), 1)
    changes = {"shape": (3, 2), "strides": (4, 12), "typestr": "<f4"}
    address = x.block_until_ready().unsafe_buffer_pointer()
    foreign.interface = lambda: Foreign.interface(foreign, data=(address, True), **changes)
    y = devrt.device_put(foreign, may_alias=True)
    assert y.unsafe_buffer_pointer() == address
    assert np.asarray(y).tolist() == np.asarray(x).T.tolist()
    assert y.__cuda_array_interface__["strides"] == (4, 12)


def test_an_array_that_is_ready_is_shown_without_a_call_of_the_driver(driver, devices):
    x = devrt.device_put(np.ones(8, np.float32), devices[0]).block_until_ready()

    def shown_in_calls():
        before = driver.calls_here()
        shown, capsule = x.__cuda_array_interface__, x.__dlpack__(stream=1)
        count = driver.calls_here() - before
        Tensor(capsule).release()
        return count, shown

    # The fewest: this thread also releases what earlier tests left, whenever that has ended.
    count, shown = min([shown_in_calls() for _ in range(5)], key=lambda each: each[0])
    assert count == 0
    assert shown == {"shape": (8,), "typestr": "<f4", "data": (x.unsafe_buffer_pointer(), True),
                     "strides": None, "stream": None, "version": 3}  # fmt: skip


def test_an_array_that_is_not_ready_names_the_stream_to_wait_for(driver, devices):
    x, gate = pending(driver, devices)
    shown = x.__cuda_array_interface__
    consumer, ours = Stream(driver), Stream(driver, shown["stream"])
    ours.wait_for(consumer.handle)
    read_by(consumer, shown["data"][0])
    gate.set()
    consumer.synchronize()


def test_streams_of_execution_streams_differ_and_say_what_they_are(devices):
    first = devices[0].get_stream_for_external_ready_events()
    assert first.__cuda_stream__() == (0, first)
    with devrt.contract.execution_stream_id(1):
        assert devices[0].get_stream_for_external_ready_events() != first
    assert devices[1].get_stream_for_external_ready_events() != first


def test_what_cannot_be_shown_says_so(driver, devices):
    x = devrt.device_put(np.ones(8, np.float32), devices[0])
    for stream, error in ((0, InvalidArgumentError), ("x", InvalidTypeError)):
        with pytest.raises(error):
            x.__dlpack__(stream=stream)
    bfloat16 = devrt.device_put(np.ones(8, ml_dtypes.bfloat16), devices[0])
    host = devrt.device_put(np.ones(8), devrt.devices("cpu")[0])
    mesh = devrt.sharding.Mesh(np.array(devices), "x")
    spec = devrt.sharding.NamedSharding(mesh, devrt.sharding.PartitionSpec("x"))
    assert not hasattr(bfloat16._buffers[0], "__cuda_array_interface__")
    for y in (bfloat16, host, devrt.device_put(np.ones(8), spec)):
        assert not hasattr(y, "__cuda_array_interface__")
        with pytest.raises(NoInterfaceError):
            _ = y.__cuda_array_interface__
    x.delete()
    with pytest.raises(DeletedError):
        _ = x.__cuda_array_interface__


def test_an_interface_that_is_wrong_is_refused(driver, devices):
    foreign = ByInterface(Stream(driver), 4)
    for change, error in (
        ({"mask": 1}, InvalidTypeError),
        ({"typestr": "<V2"}, InvalidTypeError),
        ({"typestr": None}, InvalidTypeError),
        ({"version": "3"}, InvalidTypeError),
        ({"version": 0}, InvalidTypeError),
        ({"version": 99}, InvalidTypeError),
        ({"version": 1 << 70}, InvalidTypeError),
        ({"stream": 0}, InvalidArgumentError),
        ({"data": None}, InvalidTypeError),
        ({"strides": (4, 4)}, InvalidTypeError),
    ):
        foreign.interface = lambda change=change: Foreign.interface(foreign, **change)
        with pytest.raises(error):
            devrt.device_put(foreign, devices[0])


@pytest.mark.parametrize("may_alias", [True, None])
@pytest.mark.parametrize(
    ("change", "reach"),
    [
        ({"shape": (5,)}, "0 to 20"),
        ({"shape": (1 << 20,)}, f"0 to {4 << 20}"),
        ({"strides": (8,)}, "0 to 28"),
        ({"strides": (-4,)}, "-12 to 4"),
        ({"shape": (2, 2), "strides": (-4, 8)}, "-4 to 12"),
        ({"strides": (1 << 62,)}, f"0 to {(1 << 63) - 1}"),
        ({"strides": (-(1 << 63),)}, f"-{(1 << 63) - 1} to 4"),
    ],
)
def test_an_interface_that_reaches_out_of_its_memory_is_refused(
    driver, devices, change, reach, may_alias
):
    foreign = ByInterface(Stream(driver), 4)
    shown = {"shape": (4,), **change}
    foreign.interface = lambda: Foreign.interface(foreign, **shown)
    says = rf"bytes {reach} from .*on cuda:0, has bytes 0 to 16[.]"
    with pytest.raises(InvalidArgumentError, match=says):
        devrt.device_put(foreign, devices[0], may_alias=may_alias)


@pytest.mark.parametrize("is_null", [True, False])
def test_an_interface_with_an_address_of_no_device_is_refused_as_that(devices, is_null):
    of_host = np.zeros(4)
    address = 0 if is_null else of_host.ctypes.data

    class Exporter:
        __cuda_array_interface__ = {  # noqa: RUF012  as other libraries have it
            "shape": (4,), "typestr": "<f8", "data": (address, False), "version": 3,
        }  # fmt: skip

    with pytest.raises(InvalidTypeError, match="is on no device of this process's clients"):
        devrt.device_put(Exporter(), devices[0])


@pytest.mark.parametrize("reported", [(1, 0), (2, 1)])
def test_a_tensor_that_lies_elsewhere_than_its_exporter_says_is_refused(devices, reported):
    array = devrt.device_put(np.arange(4), devices[0])

    class Exporter:
        def __dlpack_device__(self):
            return reported

        def __dlpack__(self, **_):
            return array.__dlpack__()

    with pytest.raises(InvalidTypeError, match=r"lies on device \(2, 0\).*says \(.*at fault"):
        devrt.device_put(Exporter(), devices[1])
    assert np.asarray(array).tolist() == [0, 1, 2, 3]

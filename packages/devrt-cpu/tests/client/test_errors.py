"""What cannot be done is refused with a typed error, and leaves nothing behind."""

import datetime

import numpy as np
import pytest

from devrt import errors
from devrt.runtime import default_runtime
from devrt_cpu import make_cpu_client


def test_an_option_that_no_cpu_client_has():
    with pytest.raises(errors.InvalidArgumentError, match=r"no option 'bogus'.* cpu_memory_limit"):
        default_runtime().make_client("cpu", {"num_cpu_devices": 1, "bogus": 1})


@pytest.mark.parametrize(
    "value",
    [None, "text", [1, 2], (1,), {}, object(), datetime.date(2000, 1, 1), lambda: 0],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_array(client, value):
    with pytest.raises(errors.InvalidTypeError, match=type(value).__name__) as caught:
        client.buffer_from_pyval(value)
    assert isinstance(caught.value, TypeError)
    assert ("x.encode()" if type(value) is str else "numpy.asarray") in str(caught.value)
    assert client.live_buffers() == []


@pytest.mark.parametrize(
    "dtype", ["O", "U3", "S2", "M8[s]", "m8[ns]", "V4", [("a", "i4")], np.longdouble]
)
def test_dtypes_that_no_device_holds(client, dtype):
    with pytest.raises(errors.InvalidTypeError, match="dtype"):
        client.buffer_from_pyval(np.zeros(2, dtype))


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_ints_that_fit_nothing(client, value):
    with pytest.raises(errors.InvalidArgumentError, match="64 bits"):
        client.buffer_from_pyval(value)


def test_targets_of_another_client(client):
    with make_cpu_client() as other:
        device = other.devices()[0]
        for target in (device, device.memory("pinned_host")):
            with pytest.raises(errors.InvalidArgumentError, match="another client"):
                client.buffer_from_pyval(1, target)
        with pytest.raises(errors.InvalidArgumentError, match="another client"):
            client.batched_buffer_from_pyval(np.zeros(1), [device], [(0,)], (1,))
        with pytest.raises(errors.InvalidArgumentError, match="another client"):
            client.buffer_from_pyval(1).copy_to_memory(device.default_memory())


@pytest.mark.parametrize("target", ["cpu", 0, object()])
def test_targets_that_are_none(client, target):
    with pytest.raises(errors.InvalidTypeError, match=type(target).__name__):
        client.buffer_from_pyval(1, target)
    with pytest.raises(errors.InvalidTypeError, match="None"):
        client.buffer_from_pyval(1).copy_to_memory(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("semantics", [-1, 4])
def test_unknown_semantics(client, semantics):
    with pytest.raises(errors.InvalidArgumentError, match="host_buffer_semantics"):
        client.buffer_from_pyval(1, None, False, semantics)


def test_unknown_kind_lists_those_there_are(client):
    with pytest.raises(errors.InvalidArgumentError, match="device, pinned_host, unpinned_host"):
        client.devices()[0].memory("hbm")
    with pytest.raises(errors.InvalidArgumentError, match="hardware id 7"):
        client.device_from_local_hardware_id(7)


@pytest.mark.parametrize(
    "options",
    [
        {"num_devices": 0},
        {"num_devices": 100_000},
        {"num_nodes": 0},
        {"node_id": 1},
        {"node_id": -1, "num_nodes": 2},
    ],
)
def test_impossible_clients(options):
    with pytest.raises(errors.InvalidArgumentError, match=next(iter(options))):
        make_cpu_client(**options)


def test_classes_are_not_made_by_hand():
    from devrt_cpu import _ext

    for cls in (_ext.CpuClient, _ext.CpuDevice, _ext.CpuMemory, _ext.CpuBuffer):
        with pytest.raises(TypeError):
            cls()

"""Device assignments and the protocol-buffer message that XLA knows them by."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from devrt.compiling.device_assignment import DeviceAssignment
from devrt.errors import InvalidArgumentError

# What jaxlib 0.7.1 writes: DeviceAssignment.create(numpy.array(ids)).serialize().
KNOWN = [
    ([[0]], b"\x08\x01\x10\x01\x1a\x03\n\x01\x00"),
    ([[0, 1], [2, 3]], b"\x08\x02\x10\x02\x1a\x04\n\x02\x00\x02\x1a\x04\n\x02\x01\x03"),
    (
        [[5, 300], [7, 70000], [1, 2]],
        b"\x08\x03\x10\x02\x1a\x05\n\x03\x05\x07\x01\x1a\x08\n\x06\xac\x02\xf0\xa2\x04\x02",
    ),
    (
        [[2147483647, 0]],
        b"\x08\x01\x10\x02\x1a\x07\n\x05\xff\xff\xff\xff\x07\x1a\x03\n\x01\x00",
    ),
]

arrays = hnp.arrays(
    np.int64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.integers(0, 2**63 - 1),
    unique=True,
)


@pytest.mark.parametrize(("ids", "data"), KNOWN, ids=lambda value: str(value)[:20])
def test_the_bytes_are_those_of_xla(ids, data):
    assignment = DeviceAssignment.create(np.array(ids))
    assert assignment.serialize() == data
    assert DeviceAssignment.deserialize(data) == assignment


@given(arrays)
def test_bytes_and_back(array):
    assignment = DeviceAssignment.create(array)
    again = DeviceAssignment.deserialize(assignment.serialize())
    assert again == assignment
    assert hash(again) == hash(assignment)
    assert (again.replica_count(), again.computation_count()) == array.shape
    assert repr(again) == f"DeviceAssignment({array.tolist()})"
    assert pickle.loads(pickle.dumps(again)) == assignment


def jaxlib_assignment():
    return pytest.importorskip("jaxlib.xla_client").DeviceAssignment


@given(hnp.arrays(np.int32, (3, 2), elements=st.integers(0, 2**31 - 1), unique=True))
def test_jaxlib_writes_the_same_where_it_is_installed(array):
    theirs = jaxlib_assignment().create(array).serialize()
    assert DeviceAssignment.create(array).serialize() == theirs


@given(arrays, st.data())
def test_cut_off_bytes_are_refused(array, data):
    whole = DeviceAssignment.create(array).serialize()
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(InvalidArgumentError, match="no DeviceAssignmentProto"):
        DeviceAssignment.deserialize(whole[:length])


def read_or_refuse(data):
    try:
        assignment = DeviceAssignment.deserialize(data)
    except InvalidArgumentError:
        return
    assert assignment.replica_count() > 0
    assert assignment.computation_count() > 0
    assert DeviceAssignment.deserialize(assignment.serialize()) == assignment


@given(arrays, st.data())
def test_changed_bytes_are_refused_or_still_an_assignment(array, data):
    changed = bytearray(DeviceAssignment.create(array).serialize())
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(bytes(changed))


@given(st.binary(max_size=40))
def test_any_bytes_are_refused_or_an_assignment(data):
    read_or_refuse(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x08\x00\x10\x00",
        b"\x10\x02\x1a\x00\x1a\x00",
        b"\x08\x00\x10\x02\x1a\x00\x1a\x00",
        b"\x08\x01\x10\x01\x18\xff\xff\xff\xff\xff\xff\xff\x7f",  # a number where a message is due
        b"\x08\x01\x10\x01\x18\x80\x94\xeb\xdc\x03",
        b"\x08\x02\x10\x01\x1a\x03\n\x01\x00",  # counts that do not fit
        b"\x08\x01\x10\x02\x1a\x04\n\x02\x00\x01\x1a\x03\n\x01\x02",  # ragged
        b"\x08\x01\x10\x01\x1a\x0c\n\x0a" + b"\xff" * 9 + b"\x01",  # minus one
        b"\x08\x01\x10\x01\x1d\x00\x00\x00\x00",  # a wire type that is not expected
        b"\x80" * 20,
        "text",
        None,
        5,
    ],
    ids=lambda data: repr(data)[:40],
)
def test_what_is_no_assignment(data):
    with pytest.raises(InvalidArgumentError, match="no DeviceAssignmentProto"):
        DeviceAssignment.deserialize(data)


def test_unpacked_and_unknown_fields_are_read_as_protocol_buffers_ask():
    unpacked = b"\x08\x02\x10\x01\x1a\x04\x08\x05\x08\x07\x22\x01x\x28\x01"
    assert DeviceAssignment.deserialize(unpacked) == DeviceAssignment([[5], [7]])


@pytest.mark.parametrize(
    ("array", "words"),
    [
        ([0, 1], r"two-dimensional array of integers.*shape \(2,\)"),
        ([[[0]]], "two-dimensional"),
        ([[0.0, 1.0]], "float64"),
        ([[True, False]], "bool"),
        ([[]], "two-dimensional"),
        (np.zeros((2, 0), int), "two-dimensional"),
        ([[0, 1], [1, 2]], "each device once"),
        ([[0, -1]], "each device once"),
    ],
    ids=str,
)
def test_arrays_that_are_no_assignment(array, words):
    with pytest.raises(InvalidArgumentError, match=words):
        DeviceAssignment.create(np.array(array))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "rows of one length"),
        ([[], []], "rows of one length"),
        ([[0], [1, 2]], "rows of one length"),
        ([[0], [0]], "each device once"),
        ([[0], [-1]], "each device once"),
        ([[0.5]], "rows of device ids"),
        ([["0"]], "rows of device ids"),
        ([0, 1], "rows of device ids"),
        (None, "rows of device ids"),
    ],
    ids=str,
)
def test_rows_that_are_no_assignment(rows, words):
    with pytest.raises(InvalidArgumentError, match=words):
        DeviceAssignment(rows)


def test_bytes_that_name_a_device_twice_are_refused():
    twice = b"\x08\x02\x10\x01\x1a\x04\n\x02\x00\x00"
    with pytest.raises(InvalidArgumentError, match=r"no DeviceAssignmentProto.*each device once"):
        DeviceAssignment.deserialize(twice)


def test_it_compares_with_its_like_only():
    one = DeviceAssignment([[0, 1]])
    assert one == DeviceAssignment.create(np.array([[0, 1]], np.uint8))
    assert one != DeviceAssignment([[1, 0]])
    assert one != [[0, 1]]

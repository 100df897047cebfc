"""What a serialised executable keeps of its options where its bytes do not show them."""

import functools

import pytest

from devrt.compiling.loading import read_to_load
from devrt.compiling.options import CompileOptions
from devrt.compiling.serialized import Serialized, with_checksum
from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import bytes_field, int_field

read = functools.partial(Serialized.read, operation="deserialize_executable")
SHOWN = CompileOptions(num_replicas=2, device_assignment=[[1], [0]])


@pytest.mark.parametrize("data", [b"\xff", b"of a plugin's own format", bytes_field(2, b"text")])
def test_counts_that_the_bytes_do_not_show_must_be_given(data):
    with pytest.raises(InvalidArgumentError, match="Give num_replicas and num_partitions too"):
        read_to_load(data, None, CompileOptions(memory_fitting_effort=1), read)
    assert read_to_load(data, None, CompileOptions(), read) == (Serialized(data), None)
    counted = CompileOptions(num_replicas=1, num_partitions=2)
    for devices, given in ((None, counted), ([object()], CompileOptions())):
        assert read_to_load(data, devices, given, read) == (Serialized(data), given)


def test_options_beside_the_bytes_replace_those_within():
    within = bytes_field(2, CompileOptions(num_replicas=4).serialize())
    data = with_checksum(within, SHOWN.serialize())
    _, found = read_to_load(data, None, CompileOptions(memory_fitting_effort=1), read)
    assert found is not None
    assert found.assignment() == SHOWN.assignment()
    assert found.memory_fitting_effort == 1


def test_numbers_of_devices_are_read_as_ids():
    data = bytes_field(2, SHOWN.serialize())
    given = CompileOptions(memory_fitting_effort=1)
    _, found = read_to_load(data, None, given, read, {0: 6, 1: 7})
    assert repr(found.assignment()) == "DeviceAssignment([[7], [6]])"
    with pytest.raises(InvalidArgumentError, match="device number 1, which is not here"):
        read_to_load(data, None, given, read, {0: 6})


def test_what_was_compiled_for_any_device_stays_so():
    portable = CompileOptions(compile_portable_executable=True)
    data = bytes_field(2, portable.serialize())
    _, found = read_to_load(data, None, CompileOptions(memory_fitting_effort=1), read)
    assert found.compile_portable_executable
    _, found = read_to_load(data, [object()], CompileOptions(), read)
    assert not found.compile_portable_executable


def whole(build):
    return bytes_field(1, b"code") + bytes_field(2, bytes_field(3, build))


COUNTS = int_field(4, 1) + int_field(5, 1)


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (b"", "do not show how many replicas"),
        (int_field(4, 1), "do not show how many replicas"),
        (int_field(4, 0) + int_field(5, 1), "do not show how many replicas"),
        (int_field(4, -1) + int_field(5, 1), "do not show how many replicas"),
        (COUNTS + int_field(1, -2), "name no device"),
        (COUNTS + bytes_field(9, b""), "no DeviceAssignmentProto"),
        (COUNTS + bytes_field(9, int_field(1, 1) + int_field(2, 1)), "no DeviceAssignmentProto"),
    ],
)
def test_unchecked_options_that_end_the_process_are_refused(build, what):
    with pytest.raises(InvalidArgumentError, match=what):
        read_to_load(whole(build), None, CompileOptions(), read)


def test_unchecked_bytes_that_are_cut_off_are_refused():
    given = whole(COUNTS)
    for cut in (2, 4, 6, len(given) - 1):  # 6 is behind the code
        with pytest.raises(InvalidArgumentError, match="cut off" if cut != 6 else "do not show"):
            read_to_load(given[:cut], None, CompileOptions(), read)


def test_unchecked_options_of_other_makers_are_taken():
    given = whole(COUNTS + bytes_field(9, SHOWN.assignment().serialize()))
    before = bytes_field(1, bytes_field(3, COUNTS)) + bytes_field(2, b"code")
    for data in given, before:
        assert read_to_load(data, None, CompileOptions(), read) == (Serialized(data), None)


def test_the_format_of_another_plugin_is_its_own_affair():
    data = b"\n\x7fnot XLA's"  # field 1, cut
    with pytest.raises(InvalidArgumentError, match="cut off or damaged"):
        read_to_load(data, None, CompileOptions(), read)
    assert read_to_load(data, None, CompileOptions(), read, is_host_code=False)[1] is None

"""Compile options as plugins take them, and what a compiler says of shardings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt._compile_options import CompileOptions
from devrt._device_assignment import DeviceAssignment
from devrt._op_sharding import OpSharding
from devrt.errors import InvalidArgumentError, InvalidTypeError


def fields(data):
    """Return the fields of a message, without knowing what they mean."""
    found = []
    position = 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        elif key & 7 == 1:
            found.append((key >> 3, data[position : position + 8]))
            position += 8
        else:
            size = varint()
            found.append((key >> 3, data[position : position + size]))
            position += size
    return found


def test_the_least_options_are_what_was_measured():
    build = dict(fields(dict(fields(CompileOptions().serialize()))[3]))
    assert build == {4: 1, 5: 1, 6: 0, 19: 0}


def test_partitions_turn_spmd_on():
    options = CompileOptions(num_partitions=4, use_shardy_partitioner=True)
    build = dict(fields(dict(fields(options.serialize()))[3]))
    assert build == {4: 1, 5: 4, 6: 1, 19: 1}


def test_a_device_assignment_is_that_of_xla():
    options = CompileOptions(num_partitions=2, device_assignment=[[1, 0]])
    build = dict(fields(dict(fields(options.serialize()))[3]))
    assert build[9] == DeviceAssignment([[1, 0]]).serialize()


@given(
    st.dictionaries(
        st.text("abcdefgh_", min_size=1),
        st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    )
)
def test_overrides_survive(overrides):
    import struct

    data = CompileOptions(env_option_overrides=overrides).serialize()
    found = {}
    for number, payload in fields(data):
        if number != 7:
            continue
        (_, key), (_, value) = fields(payload)
        ((kind, raw),) = fields(value)
        read = {
            1: lambda raw: raw.decode(),
            2: bool,
            3: lambda raw: raw - (1 << 64) if raw >> 63 else raw,
            4: lambda raw: struct.unpack("<d", raw)[0],
        }
        found[key.decode()] = read[kind](raw)
    assert found == overrides
    assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in overrides.items()}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_partitions": -1}, InvalidArgumentError),
        ({"num_partitions": 1.0}, InvalidArgumentError),
        ({"use_shardy_partitioner": "yes"}, InvalidArgumentError),
        ({"env_option_overrides": []}, InvalidArgumentError),
        ({"other": 1}, InvalidArgumentError),
    ],
)
def test_options_that_cannot_be_are_refused(options, error):
    with pytest.raises(error, match=next(iter(options))):
        CompileOptions.of(options)


def test_overrides_that_cannot_be_written_are_refused():
    with pytest.raises(InvalidTypeError, match="xla_a"):
        CompileOptions(env_option_overrides={"xla_a": None}).serialize()


def test_an_assignment_must_fit_the_counts():
    with pytest.raises(InvalidArgumentError, match="1 replicas of 2 partitions"):
        CompileOptions(num_partitions=3, device_assignment=[[0, 1]]).assignment()


def test_tiles_of_partitions():
    by_columns = OpSharding(3, (1, 2, 2), (0, 2, 1, 3), True)
    assert by_columns.partitions == (1, 2)
    assert [by_columns.tile_of(p) for p in range(4)] == [(0, 0), (0, 1), (0, 0), (0, 1)]
    assert not by_columns.is_replicated
    assert OpSharding().is_replicated
    assert OpSharding(3, (1, 1, 4), (0, 1, 2, 3), True).is_replicated

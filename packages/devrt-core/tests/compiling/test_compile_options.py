"""Compile options as plugins take them, and what a compiler says of shardings."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.compiling.device_assignment import DeviceAssignment
from devrt.compiling.options import CompileOptions
from devrt.contract.op_sharding import OpSharding
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.wire.protobuf import bool_field, fields, int_field, packed


def build_options(options):
    """Return the executable's build options, by field number."""
    return dict(fields(dict(fields(options.serialize()))[3]))


def test_the_least_options_are_what_was_measured():
    # executable_build_options: device ordinal -1, one replica, one partition
    assert CompileOptions().serialize() == bytes.fromhex("1a0f08ffffffffffffffffff0120012801")


def test_partitions_turn_spmd_on():
    options = CompileOptions(num_partitions=4, use_shardy_partitioner=True)
    assert options.serialize().endswith(bytes.fromhex("200128043001980101"))
    assert build_options(options) == {1: (1 << 64) - 1, 4: 1, 5: 4, 6: 1, 19: 1}


def test_a_device_assignment_is_that_of_xla():
    options = CompileOptions(num_partitions=2, device_assignment=[[1, 0]])
    assert build_options(options)[9] == DeviceAssignment([[1, 0]]).serialize()
    made = CompileOptions(num_replicas=2, num_partitions=2, device_assignment=[[0, 1], [2, 3]])
    # DeviceAssignmentProto: 2 replicas, 2 computations, devices {0, 2} and {1, 3}
    assert build_options(made)[9] == bytes.fromhex("080210021a040a0200021a040a020103")


def test_every_option_has_its_field():
    options = CompileOptions(
        parameter_is_tupled_arguments=True,
        compile_portable_executable=True,
        allow_spmd_sharding_propagation_to_parameters=[True, False],
        allow_spmd_sharding_propagation_to_output=(True,),
        exec_time_optimization_effort=0.5,
        memory_fitting_effort=-1,
        device_memory_size=1 << 40,
    )
    whole = dict(fields(options.serialize()))
    assert whole.keys() == {2, 3, 4}
    build = build_options(options)
    assert (bytes(build[12]), bytes(build[18]), build[15]) == (b"\1", b"\1\0", 1 << 40)
    assert struct.unpack("<ff", bytes(build[20]) + bytes(build[21])) == (0.5, -1.0)


@given(
    st.dictionaries(
        st.text("abcdefgh_", min_size=1),
        st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    )
)
def test_overrides_survive(overrides):
    data = CompileOptions(env_option_overrides=overrides).serialize()
    found = {}
    for number, payload in fields(data):
        if number != 7:
            continue
        (_, key), (_, value) = fields(payload)
        ((kind, raw),) = fields(value)
        read = {
            1: lambda raw: bytes(raw).decode(),
            2: bool,
            3: lambda raw: raw - (1 << 64) if raw >> 63 else raw,
            4: lambda raw: struct.unpack("<d", raw)[0],
        }
        found[bytes(key).decode()] = read[kind](raw)
    assert found == overrides
    assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in overrides.items()}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_partitions": -1}, InvalidArgumentError),
        ({"num_partitions": 0}, InvalidArgumentError),
        ({"num_replicas": True}, InvalidArgumentError),
        ({"num_replicas": "2"}, InvalidArgumentError),
        ({"compile_portable_executable": 1}, InvalidArgumentError),
        ({"memory_fitting_effort": 2}, InvalidArgumentError),
        ({"exec_time_optimization_effort": True}, InvalidArgumentError),
        ({"device_memory_size": -1}, InvalidArgumentError),
        ({"allow_spmd_sharding_propagation_to_output": 1}, InvalidArgumentError),
        ({"device_assignment": [[0, 0]], "num_partitions": 2}, InvalidArgumentError),
        ({"device_assignment": [[0], [1, 2]]}, InvalidArgumentError),
        ({"device_assignment": [[0]], "num_partitions": 2}, InvalidArgumentError),
        ({"device_assignment": 3}, InvalidArgumentError),
        ({"env_option_overrides": {"--xla_dump": "x"}}, InvalidArgumentError),
        ({"env_option_overrides": {"xla_a": None}}, InvalidTypeError),
        ({"num_partitions": 1.0}, InvalidArgumentError),
        ({"use_shardy_partitioner": "yes"}, InvalidArgumentError),
        ({"env_option_overrides": []}, InvalidArgumentError),
        ({"other": 1}, InvalidArgumentError),
    ],
)
def test_options_that_cannot_be_are_refused(options, error):
    with pytest.raises(error, match=next(iter(options))):
        CompileOptions.of(options)


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


@st.composite
def iotas(draw):
    dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    return dims, draw(st.permutations(range(len(dims))))


@given(iotas())
def test_devices_that_an_iota_stands_for(iota):
    dims, order = iota
    data = int_field(1, 3) + packed(3, dims) + packed(9, dims) + packed(10, order)
    wanted = np.arange(np.prod(dims)).reshape(dims).transpose(order).flatten()
    assert OpSharding.parse(data).devices == tuple(wanted)


def test_a_sharding_with_its_devices_is_read():
    data = int_field(1, 3) + packed(3, [2, 1, 2]) + packed(4, [0, 2, 1, 3]) + bool_field(6, True)
    assert OpSharding.parse(data) == OpSharding(3, (2, 1, 2), (0, 2, 1, 3), True)
    assert OpSharding.parse(b"") == OpSharding()
    with pytest.raises(InvalidArgumentError):
        OpSharding.parse(b"\x0a\xff")


def test_options_are_read_back():
    given = CompileOptions(
        num_replicas=2,
        num_partitions=3,
        device_assignment=[[0, 1, 2], [3, 4, 5]],
        use_spmd_partitioning=True,
        use_shardy_partitioner=True,
        parameter_is_tupled_arguments=True,
        compile_portable_executable=True,
        allow_spmd_sharding_propagation_to_parameters=(True, False),
        allow_spmd_sharding_propagation_to_output=(True,),
        exec_time_optimization_effort=0.5,
        memory_fitting_effort=-0.25,
        device_memory_size=1 << 40,
        env_option_overrides={"a": "text", "b": True, "c": -5, "d": 0.5},
    )
    found = CompileOptions.deserialize(given.serialize())
    assert found == given.replace(device_assignment=given.assignment())
    assert found.serialize() == given.serialize()


def test_bytes_that_are_no_options_are_refused():
    with pytest.raises(InvalidArgumentError, match="protobuf"):
        CompileOptions.deserialize(b"\x0b\xff")

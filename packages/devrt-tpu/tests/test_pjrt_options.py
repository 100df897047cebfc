"""Options of compilations and of clients: how they are written, and what is refused."""

import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_tpu import pjrt
from devrt_tpu.pjrt import CompileOptions


def test_the_smallest_options_are_as_they_are_known():
    # executable_build_options: device ordinal -1, one replica, one partition
    assert CompileOptions().serialize() == bytes.fromhex("1a0f08ffffffffffffffffff0120012801")


def test_four_partitions_with_shardy():
    made = CompileOptions(num_partitions=4, use_shardy_partitioner=True).serialize()
    assert made.endswith(bytes.fromhex("200128043001980101"))


def test_an_assignment_is_written_column_by_column():
    made = CompileOptions(num_replicas=2, num_partitions=2, device_assignment=[[0, 1], [2, 3]])
    # DeviceAssignmentProto: 2 replicas, 2 computations, devices {0, 2} and {1, 3}
    assert bytes.fromhex("080210021a040a0200021a040a020103") in made.serialize()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_partitions": 0}, "num_partitions"),
        ({"num_replicas": True}, "num_replicas"),
        ({"num_replicas": "2"}, "num_replicas"),
        ({"compile_portable_executable": 1}, "compile_portable_executable"),
        ({"use_spmd_partitioning": "yes"}, "use_spmd_partitioning"),
        ({"memory_fitting_effort": 2}, "memory_fitting_effort"),
        ({"device_memory_size": -1}, "device_memory_size"),
        ({"device_assignment": [[0, 0]], "num_partitions": 2}, "device_assignment"),
        ({"device_assignment": [[0]], "num_partitions": 2}, "device_assignment"),
        ({"device_assignment": 3}, "device_assignment"),
        ({"flags": [1]}, "flags"),
        ({"flags": {"--xla_dump": "x"}}, "without dashes"),
        ({"flags": {"xla_dump": object()}}, "xla_dump"),
        ({"partitions": 2}, "no compile option 'partitions'"),
    ],
)
def test_options_that_are_not_valid(xla_cpu, options, said, add_text):
    with pytest.raises(InvalidArgumentError, match=said):
        xla_cpu.compile_and_load(add_text, **options)


def test_flags_reach_the_compiler(xla_cpu, add_text):
    flags = {"xla_cpu_enable_fast_math": True, "xla_llvm_disable_expensive_passes": True}
    assert xla_cpu.compile_and_load(add_text, flags=flags).name == "add"
    with pytest.raises(Exception, match="xla_nobody_knows"):
        xla_cpu.compile_and_load(add_text, flags={"xla_nobody_knows": "1"})


@pytest.mark.parametrize("options", [{"cpu_device_count": "4"}, {"cpu_device_count": True}])
def test_client_options_of_a_wrong_type_would_end_the_process(xla_cpu_library, options):
    library = pjrt.library_for("options", xla_cpu_library)
    with pytest.raises(InvalidArgumentError, match="would end the process"):
        pjrt.make_client(library, "options", options)
    with pytest.raises(InvalidTypeError, match="must be"):
        pjrt.make_client(library, "options", {"anything": object()})

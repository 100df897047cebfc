"""How simulated devices of a GPU client are requested, and how many that are."""

import pytest

from devrt._support.partitions import MOST_NODES
from devrt.errors import ConfigError, InvalidArgumentError, UnimplementedError
from devrt.native.engines import engine_of
from devrt.native.gpu_given import allocation, nodes_of, partition_of
from devrt.native.gpu_simulation import MockTopology, mock_topology
from devrt.xla_client import GpuAllocatorConfig

REQUESTS = {
    "nothing": ({}, None),
    "an empty option": ({"acme_mock": "", "mock_gpu_topology": ""}, None),
    "a number alone asks for nothing": ({"mock_num_gpus": 4}, None),
    "mock": ({"mock": True}, (1, 1, 1)),
    "mock with a number": ({"mock": True, "mock_num_gpus": 8}, (1, 1, 8)),
    "JAX's name of it": ({"use_mock_gpu_client": True, "mock_num_gpus": 2}, (1, 1, 2)),
    "devices": ({"mock_gpu_topology": "8"}, (1, 1, 8)),
    "nodes": ({"mock_gpu_topology": "2x4"}, (2, 1, 4)),
    "slices": ({"mock_gpu_topology": "2x3x4"}, (2, 3, 4)),
    "blanks and capitals": ({"mock_gpu_topology": " 2 X 4 "}, (2, 1, 4)),
    "the configured option": ({"acme_mock": "2x4"}, (2, 1, 4)),
    "a call before the configuration": ({"mock_gpu_topology": "1x2", "acme_mock": "8"}, (1, 1, 2)),
    "a call's number before the configuration": (
        {"mock": True, "mock_num_gpus": 3, "acme_mock": "2x4"},
        (1, 1, 3),
    ),
    "the configuration's number": ({"mock": True, "acme_mock": "2x4"}, (2, 1, 4)),
    "a topology before a number": ({"mock_gpu_topology": "4", "mock_num_gpus": 2}, (1, 1, 4)),
    "a call before everything": ({"mock": False, "acme_mock": "2x4"}, None),
    "as many as there may be": ({"mock_gpu_topology": "65536x1024"}, (65536, 1, 1024)),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_what_is_requested(case):
    options, expected = REQUESTS[case]
    made = mock_topology(options, "acme")
    assert made == (expected and MockTopology(*expected))


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "2x",
        "x4",
        "2*4",
        "-4",
        "0",
        "2x0",
        "0x2",
        "4.0",
        "1025",
        "65537x1",
        "2x2x2x2",
        "\u0664",
        "a",
    ],
)
def test_what_is_no_topology(text):
    with pytest.raises(InvalidArgumentError):
        mock_topology({"mock_gpu_topology": text}, "acme")
    with pytest.raises(ConfigError, match=r"'acme_mock' \(DEVRT_ACME_MOCK\)"):
        mock_topology({"acme_mock": text}, "acme")


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_a_number_out_of_range(count):
    with pytest.raises(InvalidArgumentError, match="mock_num_gpus must give at least 1"):
        mock_topology({"mock": True, "mock_num_gpus": count}, "acme")


def test_no_simulated_devices_of_a_topology():
    with pytest.raises(InvalidArgumentError, match="mock=False and mock_gpu_topology='2'"):
        mock_topology({"mock": False, "mock_gpu_topology": "2"}, "acme")


def test_nodes_that_contradict_the_topology():
    assert nodes_of({"num_nodes": 2, "node_id": 1}, 2) == (1, 2)
    with pytest.raises(InvalidArgumentError, match="num_nodes is 3, and the simulated devices are"):
        nodes_of({"num_nodes": 3}, 2)


def test_nodes_are_in_partitions():
    topology = mock_topology({"mock_gpu_topology": "2x3x4"}, "acme")
    assert [topology.partition_of(node) for node in range(topology.nodes)] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"slice_index": 0}, 0),
        ({"partition_index": 2, "slice_index": 2}, 2),
        ({"partition_index": 1, "slice_index": None}, 1),
    ],
)
def test_the_partition_of_a_process(options, expected):
    assert partition_of(options) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition_index": -1}, "partition_index must be at least 0"),
        ({"slice_index": 1 << 30}, "slice_index must be at least 0"),
        ({"slice_index": 1, "partition_index": 2}, r"not in 2 \(partition_index\), 1 \(slice_ind"),
    ],
)
def test_what_is_no_partition(options, words):
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        partition_of(options)
    assert caught.value.data["option"] in options


def test_nodes_and_partitions_have_one_bound():
    assert partition_of({"partition_index": MOST_NODES - 1}) == MOST_NODES - 1 == (1 << 30) - 1
    assert nodes_of({"num_nodes": MOST_NODES}) == (0, 1 << 30)
    with pytest.raises(InvalidArgumentError, match="out of range"):
        nodes_of({"num_nodes": MOST_NODES + 1})


def test_another_partition_than_the_simulated_one():
    assert partition_of({"slice_index": 1}, 1) == 1
    with pytest.raises(InvalidArgumentError, match=r"0 \(slice_index\), 1 \(mock_gpu_topology\)"):
        partition_of({"slice_index": 0}, 1)


CONFIGS = {
    "nothing given": (GpuAllocatorConfig(), {}),
    "a default's value": (GpuAllocatorConfig(preallocate=True), {"preallocate": True}),
    "by position": (GpuAllocatorConfig(2, 0.75), {"memory_fraction": 0.75}),
    "none of it": (GpuAllocatorConfig(preallocate=False), {"preallocate": False}),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_what_a_configuration_gives_counts_though_it_is_a_default(case):
    config, expected = CONFIGS[case]
    made = allocation({"allocator": config})
    assert {name: made[name] for name in made if name != "allocator"} == expected


def test_a_configuration_and_an_option_that_contradict_each_other():
    config = GpuAllocatorConfig(memory_fraction=0.75)
    assert allocation({"allocator": config, "memory_fraction": 0.75})["memory_fraction"] == 0.75
    with pytest.raises(InvalidArgumentError, match=r"=0[.]5 and memory_fraction=0[.]75"):
        allocation({"allocator": config, "memory_fraction": 0.5})


def test_clients_of_a_vendor_that_has_no_compiler_of_programs_say_so():
    class AcmeClient:
        platform = "acme"

    with pytest.raises(UnimplementedError, match="acme client has no compiler"):
        engine_of(AcmeClient())

"""The GPU options that come from the environment, and the allocator's configuration."""

import copy
import pickle

import pytest

from devrt.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from devrt.xla_client import GpuAllocatorConfig, generate_pjrt_gpu_plugin_options

ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
FRACTION = "XLA_CLIENT_MEM_FRACTION"
OLD_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
COLLECTIVE = "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB"
ABORT = "XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE"
TFRT = "XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT"

GOOD = [
    {},
    {ALLOCATOR: "bfc"},
    {ALLOCATOR: "PLATFORM", FRACTION: ".5"},
    {ALLOCATOR: "cuda_async", OLD_FRACTION: "0.25"},
    {FRACTION: "1.5", OLD_FRACTION: ""},
    {PREALLOCATE: "false"},
    {PREALLOCATE: "False"},
    {PREALLOCATE: "0"},
    {PREALLOCATE: "true", COLLECTIVE: "64"},
    {PREALLOCATE: "1", COLLECTIVE: "0"},
    {ABORT: "1", TFRT: "1"},
]

BAD = [
    ({ALLOCATOR: "malloc"}, ALLOCATOR, "bfc"),
    ({FRACTION: "half"}, FRACTION, "0.75"),
    ({FRACTION: "0"}, FRACTION, "above 0"),
    ({FRACTION: "-1"}, FRACTION, "above 0"),
    ({FRACTION: "nan"}, FRACTION, "above 0"),
    ({OLD_FRACTION: "inf"}, OLD_FRACTION, "above 0"),
    ({FRACTION: "0.5", OLD_FRACTION: "0.5"}, OLD_FRACTION, "Unset"),
    ({PREALLOCATE: "yes please"}, PREALLOCATE, "true, false"),
    ({COLLECTIVE: "1.5"}, COLLECTIVE, "whole number"),
    ({COLLECTIVE: "-1"}, COLLECTIVE, "whole number"),
    ({COLLECTIVE: "9" * 12}, COLLECTIVE, "whole number"),
    ({ABORT: "2"}, ABORT, "1 or 0"),
]


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch):
    for name in (ALLOCATOR, FRACTION, OLD_FRACTION, PREALLOCATE, COLLECTIVE, ABORT, TFRT):
        monkeypatch.delenv(name, raising=False)


def _set(monkeypatch, values):
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_without_variables_the_plugin_decides():
    options = generate_pjrt_gpu_plugin_options()
    assert options["allocator"] == "default"
    assert not {"memory_fraction", "preallocate", "collective_memory_size"} & set(options)


def test_every_variable_is_read(monkeypatch):
    _set(monkeypatch, {ALLOCATOR: "BFC", FRACTION: "0.5", PREALLOCATE: "0", COLLECTIVE: "3"})
    options = generate_pjrt_gpu_plugin_options()
    assert options["allocator"] == "bfc"
    assert options["memory_fraction"] == 0.5
    assert options["preallocate"] is False
    assert options["collective_memory_size"] == 3 * 2**20


@pytest.mark.parametrize("values", GOOD, ids=str)
def test_jaxlib_reads_the_same_where_it_is_installed(monkeypatch, values):
    theirs = pytest.importorskip("jaxlib.xla_client")
    _set(monkeypatch, values)
    assert generate_pjrt_gpu_plugin_options() == theirs.generate_pjrt_gpu_plugin_options()


@pytest.mark.parametrize("values", GOOD, ids=str)
def test_values_of_the_right_form_are_taken(monkeypatch, values):
    _set(monkeypatch, values)
    generate_pjrt_gpu_plugin_options()


@pytest.mark.parametrize(("values", "name", "form"), BAD, ids=str)
def test_a_malformed_value_is_named_with_the_form_it_must_have(monkeypatch, values, name, form):
    _set(monkeypatch, values)
    with pytest.raises(ConfigError, match=name) as caught:
        generate_pjrt_gpu_plugin_options()
    assert form in str(caught.value)
    assert "vmm" not in str(caught.value)  # no client of devrt has it
    assert isinstance(caught.value, ValueError)


def test_the_allocators_configuration():
    config = GpuAllocatorConfig()
    assert config.kind is GpuAllocatorConfig.Kind.DEFAULT
    assert (config.memory_fraction, config.preallocate) == (0.75, True)
    assert config.collective_memory_size == 0
    given = GpuAllocatorConfig(
        kind=GpuAllocatorConfig.Kind.CUDA_ASYNC,
        memory_fraction=0.5,
        preallocate=False,
        collective_memory_size=1 << 20,
    )
    assert given == GpuAllocatorConfig(3, 0.5, False, 1 << 20)
    assert [kind.name for kind in GpuAllocatorConfig.Kind] == [
        "DEFAULT",
        "PLATFORM",
        "BFC",
        "CUDA_ASYNC",
    ]


def test_a_configuration_knows_what_it_was_given():
    given = GpuAllocatorConfig(0, preallocate=True)
    assert given.given() == {"kind": GpuAllocatorConfig.Kind.DEFAULT, "preallocate": True}
    assert given == GpuAllocatorConfig()
    for kept in (pickle.loads(pickle.dumps(given)), copy.copy(given)):
        assert kept.given() == given.given()


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"kind": 9}, InvalidArgumentError),
        ({"kind": "bfc"}, InvalidArgumentError),
        ({"memory_fraction": 0.0}, InvalidArgumentError),
        ({"memory_fraction": float("nan")}, InvalidArgumentError),
        ({"memory_fraction": "0.5"}, InvalidTypeError),
        ({"memory_fraction": True}, InvalidTypeError),
        ({"preallocate": 1}, InvalidTypeError),
        ({"collective_memory_size": -1}, InvalidArgumentError),
        ({"collective_memory_size": 1.5}, InvalidTypeError),
    ],
)
def test_a_configuration_that_cannot_be(values, error):
    with pytest.raises(error, match=next(iter(values))):
        GpuAllocatorConfig(**values)

"""Options of a client with values that it does not take, from a program and the environment."""

import json
import os

import numpy as np
import pytest

from devrt.errors import DevrtWarning, InvalidArgumentError, InvalidTypeError
from devrt.runtime import default_runtime
from devrt.xla_client import GpuAllocatorConfig
from support import python, run_python

WRONG_TYPES = {
    "partition_index": ["0", 1.0, True, np.array([3]), np.array([1, 2])],
    "slice_index": [[0]],
    "mock": ["false", 0, 1],
    "preallocate": ["false", 1, []],
    "memory_fraction": ["x", "0.5", True, [0.5]],
    "collective_memory_size": ["64", 0.5, False],
    "node_id": ["0", 0.0, True],
    "num_nodes": ["1", [1]],
    "platform_name": [5],
    "get_local_topology_timeout_minutes": ["soon"],
    "allowed_devices": ["0", b"\0", [True], [0.0]],
    "distributed_client": ["localhost:1"],
}
WRONG_VALUES = {
    "partition_index": [-1, 2**30, 2**70],
    "slice_index": [-1],
    "allocator": ["", "vmm", 1, []],
    "collective_memory_size": [-1],
    "memory_fraction": [0, -1, float("nan"), float("inf"), 10**400, 1.5, 1e9, 1e-300],
    "platform_name": ["rocm", "cpu", ""],
    "mock_gpu_topology": [0, "0", "2x", True, []],
    "node_id": [-1, 1, 2**40, 2**70],
    "num_nodes": [0, -1, 2**40],
    "allowed_devices": [[], [-1], [1], [2**70]],
    "cuda_visible_devices": [0, "x", "-1"],
    "cuda_mock": [4],
    "mock_num_gpus": [0, "many", 10**6],
    "traceback_in_buffers": [5, "some"],
    "enable_compilation_cache": ["maybe", 7],
    "compilation_cache_max_size": ["2 G"],
    "use_mock_gpu_client": ["x"],
    "bogus": [1],
}


def client(**options):
    given = {"mock": True, "mock_gpu_topology": "1"} | options
    if "cuda_mock" in options:
        del given["mock_gpu_topology"]
    return default_runtime().make_client("cuda", given)


def pairs(table):
    return [pytest.param(n, v, id=f"{n}={str(v)[:12]}") for n in table for v in table[n]]


@pytest.mark.parametrize(("name", "value"), pairs(WRONG_TYPES))
def test_an_option_of_another_type_is_refused(name, value):
    with pytest.raises(InvalidTypeError, match=name):
        client(**{name: value})


@pytest.mark.parametrize(("name", "value"), pairs(WRONG_VALUES))
def test_an_option_that_is_out_of_range_is_refused(name, value):
    with pytest.raises(InvalidArgumentError, match=name):
        client(**{name: value})


@pytest.mark.parametrize("name", ["cuda", "CUDA", "gpu", None])
def test_the_clients_own_platform_may_be_named(name):
    with client(platform_name=name) as made:
        assert made.platform == "cuda"


def test_numbers_and_truth_values_of_numpy_are_taken():
    with client(
        mock=np.bool_(True), memory_fraction=np.float32(0.5), allowed_devices=[np.int64(0)]
    ) as made:
        assert made.local_devices()[0].memory_stats()["bytes_limit"] == 1 << 29


@pytest.mark.parametrize("text", ["0, 0", " 0", "all", " all "])
def test_numbers_of_devices_may_have_blanks_between_them(text, monkeypatch):
    monkeypatch.setenv("JAX_CUDA_VISIBLE_DEVICES", text)
    with client() as made:
        assert made.device_count() == 1


@pytest.mark.parametrize("text", ["zero", "0,-1", "1.0", "\uff11"])
def test_the_variable_that_names_no_devices_is_named(text, monkeypatch):
    monkeypatch.setenv("JAX_CUDA_VISIBLE_DEVICES", text)
    with pytest.raises(InvalidArgumentError, match=r"(?i)cuda_visible_devices must be numbers"):
        client()


@pytest.mark.parametrize("number", ["1", ","])
def test_the_option_that_names_no_device_of_these_is_named(number):
    with pytest.raises(InvalidArgumentError, match=r"^cuda_visible_devices (names|leaves)"):
        client(cuda_visible_devices=number)


@pytest.mark.parametrize("name", ["DEVRT_CUDA_VISIBLE_DEVICES", "JAX_CUDA_VISIBLE_DEVICES"])
def test_the_variable_that_names_a_device_which_is_not_there_is_named(name):
    code = """
        import devrt
        try:
            devrt.devices("cuda")
        except devrt.errors.InvalidArgumentError as error:
            print(error)
    """
    environ = {"DEVRT_CUDA_MOCK": "2", name: "2"}
    ran = python(code, options=("-W", "ignore"), clean=("DEVRT_", "JAX_"), **environ)
    assert "cuda_visible_devices names device 2" in ran.stdout
    assert f"{name}='2'" in ran.stdout


def test_a_wrong_variable_of_simulated_devices_is_an_error_of_the_configuration():
    code = """
        import devrt
        try:
            devrt.devices("cuda")
        except devrt.errors.ConfigError as error:
            print(error, error.option)
    """
    environ = {"DEVRT_CUDA_MOCK": "many"}
    ran = python(code, options=("-W", "ignore"), clean=("DEVRT_", "JAX_"), **environ)
    assert "(DEVRT_CUDA_MOCK)" in ran.stdout
    assert "is written 8, 2x8" in ran.stdout
    assert ran.stdout.endswith("cuda_mock\n")


def test_the_variable_with_an_allocator_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "vmm")
    with pytest.raises(InvalidArgumentError, match="'vmm' of XLA_PYTHON_CLIENT_ALLOCATOR"):
        client()


def test_the_variable_of_the_simulator_is_known():
    environ = {"DEVRT_CUDA_MOCK": "1", "DEVRT_GPU_SIMULATOR": "delay=0"}
    code = "import devrt, warnings\n" \
           "with warnings.catch_warnings(record=True) as seen: devrt.devices('cuda')\n" \
           "print([w for w in map(str, seen) if 'DEVRT_GPU_SIMULATOR' in w])"  # fmt: skip
    assert python(code, options=(), clean=("DEVRT_", "JAX_"), **environ).stdout == "[]\n"


FAILURES = {
    "driver_version=9000": "FAILED_PRECONDITION load_driver None",
    "missing=cuStreamCreateWithPriority": "FAILED_PRECONDITION load_driver None",
    "fail=cuInit:1:no_device": "UNAVAILABLE load_driver None",
    "fail=cuDevicePrimaryCtxRetain:1:device_lost": "DATA_LOSS context_retain cuda:0",
    "fail=cuDevicePrimaryCtxRetain:1:out_of_memory": "RESOURCE_EXHAUSTED context_retain cuda:0",
}


@pytest.mark.parametrize("setting", FAILURES)
def test_a_client_that_cannot_be_made_says_which_operation_failed_on_which_device(setting):
    code = """
        import devrt
        try:
            devrt.devices("cuda")
        except devrt.errors.BackendInitializationError as error:
            print(error.code.name, error.operation, getattr(error, "device", None))
    """
    environ = {"DEVRT_CUDA_MOCK": "2", "DEVRT_GPU_SIMULATOR": setting}
    ran = python(code, options=("-W", "ignore"), clean=("DEVRT_", "JAX_"), **environ)
    assert ran.stdout.strip() == FAILURES[setting]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_is_forked_has_no_driver_and_says_so():
    code = """
        import os, warnings
        from devrt.errors import ForkedError
        from devrt.runtime import default_runtime

        def client():
            return default_runtime().make_client("cuda", {"mock": True})

        parent = client()
        warnings.simplefilter("ignore")  # of Python's own about forking with threads
        if not (child := os.fork()):
            try:
                client()
            except ForkedError as error:
                os._exit(40 if f"process {os.getppid()} after" in str(error) else 41)
            os._exit(42)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 40
        client().close()
    """
    python(code, clean=("DEVRT_", "JAX_"))


PREALLOCATED = {"allocator": "platform", "preallocate": True}
IN_CONFIG = GpuAllocatorConfig(kind=GpuAllocatorConfig.Kind.PLATFORM, preallocate=True)


@pytest.mark.parametrize("options", [PREALLOCATED, {"allocator": IN_CONFIG}], ids=["both", "one"])
def test_the_allocator_that_keeps_nothing_does_not_preallocate(options):
    with pytest.raises(InvalidArgumentError, match=r"allocator='platform'.*preallocate=True"):
        client(**options)


@pytest.mark.parametrize("given", [(), ("allocator",), ("preallocate",)], ids=str)
def test_a_variable_that_asks_for_preallocation_where_there_is_none_is_named(given, monkeypatch):
    for name, value in PREALLOCATED.items():
        if name not in given:
            monkeypatch.setenv(f"XLA_PYTHON_CLIENT_{name.upper()}", str(value).lower())
    with pytest.warns(DevrtWarning, match="XLA_PYTHON_CLIENT_PREALLOCATE.*XLA_PYTHON_CLIENT_ALL"):
        made = client(**{name: PREALLOCATED[name] for name in given})
    with made:
        assert made.local_devices()[0].memory_stats()["bytes_in_use"] == 0


def test_an_allocator_that_keeps_nothing_says_nothing_where_it_need_not():
    kind = GpuAllocatorConfig.Kind.PLATFORM
    for options in ({"allocator": "platform"}, {"allocator": GpuAllocatorConfig(kind=kind)}):
        client(**options).close()


@pytest.mark.parametrize("variable", ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"])
@pytest.mark.parametrize("fraction", ["1.5", "1e-300"])
def test_a_fraction_of_the_environment_is_refused_by_its_variable(variable, fraction, monkeypatch):
    monkeypatch.setenv(variable, fraction)
    says = f"{variable} must be at least 1e-09 and at most 1, .*, not '{fraction}'[.]"
    with pytest.raises(InvalidArgumentError, match=says):
        client()
    client(memory_fraction=0.5).close()  # which comes first


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "7"),
        ("XLA_CLIENT_MEM_FRACTION", "half"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "none"),
    ],
)
def test_the_doctor_names_the_variable_and_not_the_wheel(variable, value):
    command = ("-m", "devrt", "doctor", "--json", "--platform", "cuda")
    environ = {"DEVRT_CUDA_MOCK": "1", variable: value}
    report = json.loads(
        run_python(*command, status=None, clean=("DEVRT_", "JAX_"), **environ).stdout
    )
    (finding,) = [f for f in report["findings"] if f["code"] == "env-malformed"]
    assert f"{variable} must be" in finding["message"]
    assert f"{value!r}" in finding["message"]
    assert finding["remedy"] == "Correct the value, or unset it."
    assert finding["command"] == ""


@pytest.mark.parametrize("node", [2, -1])
def test_a_node_that_is_not_there_is_refused_before_the_simulated_devices_are_counted(node):
    says = f"node_id must be at least 0 and below num_nodes, 2, not {node}"
    with pytest.raises(InvalidArgumentError, match=says):
        client(mock_gpu_topology="2x512", node_id=node)

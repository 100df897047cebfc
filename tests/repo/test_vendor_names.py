"""The core and the PJRT loader name no vendor: not in code, docstrings, comments or file names."""

import re
from fnmatch import fnmatch

import pytest

_VENDORS = """
amd amdgpu apple ascend cann cublas cuda cudnn cufft cupti cusolver cusparse gaudi google
graphcore habana hip hipcc hiprtc huawei intel ipu libcuda libtpu musa nccl neuron nvcc nvidia
nvml nvrtc oneapi qualcomm radeon rccl rocm tenstorrent tpu trainium xpu
"""
VENDOR_WORDS = frozenset(_VENDORS.split())

JAXLIB_NAMES = {
    "make_tpu_client",
    "make_tfrt_tpu_c_api_device_topology",
    "make_pjrt_tpu_topology",
    "CUDA_ASYNC",
    "tpu",  # the platform of those functions
}

EXCEPTIONS = {
    # Protocols of Python's libraries, which those for every vendor's GPUs have by these names.
    "*": {"__cuda_array_interface__", "__cuda_stream__"},
    # Names that jaxlib's users write, and that devrt offers under the same names.
    "xla_client/*": JAXLIB_NAMES,
    "xla_bridge/*": {
        *("_get_tpu_library_path", "get_tpu_library_path", "make_pjrt_tpu_topology"),
        *("make_tpu_client", "tpu_client_timer_callback", "TPU_LIBRARY_PATH"),
    },
    "_config/gpu_options.py": {"CUDA_ASYNC", "cuda", "cuda_async"},
    "native/gpu_given.py": {"cuda_async"},
    "compiling/gpu_target.py": {"enable_mock_nccl"},  # XLA's option, for GPUs of every vendor
    "distributed/state.py": {"tpu"},  # what `cluster_detection_method` takes
    "distributed/protocol/messages.py": {"google"},  # where protobuf's modules lie
    "native/src/gpu/options.cpp": {"cuda_async"},
    # The registry's names of JAX, and its configuration's, which devrt accepts as aliases.
    "runtime/pjrt_questions.py": {"make_pjrt_tpu_topology", "TPU_LIBRARY_PATH", "tpu"},
    "runtime/*": {"make_pjrt_tpu_topology"},
    "__init__.py": {"make_pjrt_tpu_topology"},
    # The wheel that has the loader.
    "devrt_pjrt/library/library.py": {"tpu"},
    "_config/layers.py": {
        "jax_cuda_visible_devices",
        "jax_rocm_visible_devices",
        "cuda_visible_devices",
        "rocm_visible_devices",
    },
    # The variables of others that the doctor shows.
    "doctor/environment.py": {
        "TPU_",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    },
}
"""The whole identifiers in which a vendor's name is let pass, by file."""

DATA = {
    "_clusters/data/*.toml": "the variables of what starts processes",
    "plugins/discovery/data/*.toml": "what the machine's hardware and others' wheels are called",
}
"""Folders of tables that name vendors, with what they hold: no line of the core's code does."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def vendor_words(text, allowed):
    """Yield the vendors' names in a text, also as part of an identifier in any spelling."""
    for identifier in _IDENTIFIER.findall(text):
        if identifier not in allowed:
            for word in _WORD.findall(identifier):
                if word.lower() in VENDOR_WORDS:
                    yield word.lower()


def vendor_findings(path, text):
    """Return the lines of one file, and its name, that name a vendor."""
    allowed = {name for glob, names in EXCEPTIONS.items() if fnmatch(path, glob) for name in names}
    lines = [path, *text.splitlines()]
    return [
        f"{path}:{number}: names a vendor ({word})"
        for number, line in enumerate(lines)
        for word in dict.fromkeys(vendor_words(line, allowed))
    ]


@pytest.mark.parametrize(
    ("folder", "under"),
    [
        ("packages/devrt-core/src/devrt/", ""),
        ("packages/devrt-tpu/src/devrt_pjrt/", "devrt_pjrt/"),
        ("packages/devrt-tpu/native/", "native/"),
    ],
)
def test_the_core_and_the_loader_name_no_vendor(checkout, folder, under):
    found = []
    for name, text in checkout.texts():
        path = under + name.removeprefix(folder)
        if name.startswith(folder) and not any(fnmatch(path, pattern) for pattern in DATA):
            found += vendor_findings(path, text)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "import cuda",
        '"""Works on NVIDIA GPUs."""',
        "def make_cuda_client(): ...",
        "class CudaClient: ...",
        "priority = {'rocm': 200}",
        "# as libtpu does",
        "RUN_ON_TPU = 1",
        "cuda13 = 1",
        "x = 'amd-gpu'",
        "hipError_t e;",
    ],
)
def test_a_vendors_name_is_reported(line):
    assert vendor_findings("arrays/array.py", f"\n{line}\n")[0].startswith("arrays/array.py:2:")


@pytest.mark.parametrize("path", ["native/include/devrt/gpu/cuda.hpp", "_rocm.py"])
def test_a_vendors_name_in_a_files_name_is_reported(path):
    assert vendor_findings(path, "")


@pytest.mark.parametrize(
    "line", ["ship = 1", "a chip", "barracuda", "amdahl", "intelligent", "gpu", "x86_64", "PjRt"]
)
def test_other_words_are_not(line):
    assert vendor_findings("arrays/array.py", line) == []


def test_an_exception_holds_for_its_file_and_its_whole_name_only():
    assert vendor_findings("xla_client/__init__.py", "make_tpu_client()") == []
    assert vendor_findings("arrays/array.py", "make_tpu_client()")
    assert vendor_findings("xla_client/__init__.py", "make_tpu_clients()")
    assert vendor_findings("xla_client/__init__.py", "a TPU")


@pytest.mark.parametrize("pattern", DATA)
def test_a_place_for_data_is_used(checkout, pattern):
    names = [name.removeprefix("packages/devrt-core/src/devrt/") for name, _ in checkout.texts()]
    assert any(fnmatch(name, pattern) for name in names)

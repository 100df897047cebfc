"""GPUs that are described by name, and what their compiler lacks."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError
from devrt_cuda import _tools
from devrt_cuda._topology import GPUS, expand, target_config
from devrt_cuda.traits import CUDA


def field(text, name):
    return float(re.search(rf"\b{name}: ([0-9.]+)", text).group(1))


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_has_figures_that_can_be(name):
    text = target_config(name)
    assert text.count("{") == text.count("}")
    assert field(text, "threads_per_warp") == 32
    assert 10 < field(text, "core_count") < 200
    assert field(text, "threads_per_core_limit") % field(text, "threads_per_warp") == 0
    assert 10 << 30 < field(text, "device_memory_size") < 300 << 30
    shared = field(text, "shared_memory_per_block_optin")
    assert field(text, "shared_memory_per_block") <= shared
    assert shared <= field(text, "shared_memory_per_core")
    # Two operations for each lane and cycle: between 8 (a T4) and 100 (an L40S) teraflops.
    lanes = field(text, "core_count") * field(text, "fpus_per_core")
    assert 8e3 < 2 * lanes * field(text, "clock_rate_ghz") < 1e5
    expand(name, {})


@pytest.mark.parametrize(
    ("name", "shape"),
    [("h100", "1x1x1"), ("h100:8", "1x1x8"), ("h100:2x8", "1x2x8"), ("a100_80:4x2x8", "4x2x8")],
)
def test_a_name_stands_for_a_shape(name, shape):
    options = expand(name, {})
    assert options["topology"] == shape
    assert options["target_config"] == target_config(name.partition(":")[0])


def test_options_go_before_the_name():
    options = expand("h100:8", {"topology": "1x1x2"})
    assert options["topology"] == "1x1x2"


@pytest.mark.parametrize(
    "name",
    ["h100:0x1x1", "h100:1x1x1x1", "h100:", "h100:x", "h100:-1x1x1", "h100:1000000x1x1", "H100",
     "q9", "q9:1x1x1", "h100:1x100x10000", "h100:99999999999999999999"],
)  # fmt: skip
def test_a_name_that_the_library_does_not_survive_is_refused(name):
    with pytest.raises(InvalidArgumentError, match="GPU"):
        expand(name, {})


@pytest.mark.parametrize("shape", ["", "1x1", "0x1x1", "-1x1x1", "axb", "1x1x99999", "1x1x1 "])
def test_a_shape_that_the_library_does_not_survive_is_refused(shape):
    with pytest.raises(InvalidArgumentError, match="PARTITIONSxHOSTSxDEVICES"):
        expand("", {"topology": shape, "target_config": target_config("h100")})


@pytest.mark.parametrize("missing", ["threads_per_warp", "core_count", "fpus_per_core"])
@pytest.mark.parametrize("value", ["", "{}: 0"])
def test_a_configuration_that_the_compiler_divides_by_is_refused(missing, value):
    text = re.sub(rf"{missing}: [0-9]+", value.format(missing), target_config("t4"))
    with pytest.raises(InvalidArgumentError, match=missing):
        expand("", {"topology": "1x1x1", "target_config": text})


def test_without_a_name_a_configuration_is_needed():
    with pytest.raises(InvalidArgumentError, match="GPUs with figures: v100"):
        expand("", {"topology": "1x1x1"})


@given(st.text(max_size=40))
def test_any_name_is_expanded_or_refused(name):
    with contextlib.suppress(InvalidArgumentError):
        expand(name, {})


def test_the_compilers_tools_are_found_in_wheels(tmp_path):
    assert _tools.compiler_flags([str(tmp_path)]) == {}
    for kit in ("cu12", "cu13"):
        folder = tmp_path / "nvidia" / kit
        (folder / "nvvm" / "libdevice").mkdir(parents=True)
        (folder / "bin").mkdir()
        ptxas = folder / "bin" / "ptxas"
        ptxas.write_text("")
        assert str(folder) not in _tools.compiler_flags([str(tmp_path)]).values()
        ptxas.chmod(0o755)
        assert _tools.compiler_flags([str(tmp_path)]) == {"xla_gpu_cuda_data_dir": str(folder)}


def test_what_is_missing_is_named():
    explained = _tools.explain(DevrtError("compile failed: libdevice not found at x", code=13, a=1))
    assert isinstance(explained, UnimplementedError)
    assert "pip install nvidia-cuda-nvcc nvidia-nvvm" in explained.message
    assert explained.a == 1
    other = DevrtError("another")
    assert _tools.explain(other) is other


def test_options_of_a_gpu_client_have_the_plugins_names():
    assert CUDA.adapt_options({"allowed_devices": {2, 0}, "mock": True, "node_id": 1}) == {
        "visible_devices": [0, 2],
        "enable_mock_nccl": True,
        "node_id": 1,
    }
    assert CUDA.adapt_options({"allowed_devices": [3]}) == {"visible_devices": [3]}

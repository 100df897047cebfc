"""NVRTC compiles CUDA C++ for real, for devices that are not there."""

import dataclasses

import pytest

from devrt.compiling.cache import ExecutableCache
from devrt.errors import BackendUnavailableError, InvalidArgumentError
from devrt.native.kernel_compiler import KernelCompiler
from devrt.native.wheel_libraries import VendorLibrary
from devrt_cuda.kernels import NVRTC

GOOD = """extern "C" __global__ void add(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 1;
}"""
BAD = GOOD.replace("x[i] + 1", "x[i] + missing")


@pytest.fixture
def compiler():
    try:
        NVRTC.version()
    except BackendUnavailableError:
        pytest.skip("NVRTC is not installed (nvidia-cuda-nvrtc)")
    return NVRTC


def test_a_source_becomes_a_cubin_for_each_architecture(compiler):
    images = [compiler.compile(GOOD, name) for name in ("sm_80", "sm_90")]
    assert [image[:4] for image in images] == [b"\x7fELF"] * 2
    assert all(int.from_bytes(image[18:20], "little") == 190 for image in images)  # EM_CUDA
    assert all(b"add" in image for image in images)
    assert images[0] != images[1]


def test_a_source_that_is_wrong_is_refused_with_the_line(compiler):
    with pytest.raises(
        InvalidArgumentError, match=r"kernels\.cuda\(3\): error.*missing"
    ) as refused:
        compiler.compile(BAD, "sm_90")
    assert refused.value.data["operation"] == "compile"
    with pytest.raises(InvalidArgumentError, match="gpu-architecture"):
        compiler.compile(GOOD, "sm_1")


def test_an_image_is_kept_by_source_options_and_architecture(compiler, tmp_path):
    cache = ExecutableCache(tmp_path / "kept")
    first = compiler.compile(GOOD, "sm_90", cache=cache)
    (entry,) = cache.entries()
    assert compiler.compile(GOOD, "sm_90", cache=cache) == first
    assert [each.path for each in cache.entries()] == [entry.path]
    compiler.compile(GOOD, "sm_80", cache=cache)
    compiler.compile(GOOD, "sm_90", ["--use_fast_math"], cache)
    compiler.compile(GOOD + " ", "sm_90", cache=cache)
    assert len(cache.entries()) == 4


def test_an_absent_compiler_says_what_to_install():
    absent = KernelCompiler(
        format="acme",
        prefix="acmertc",
        image="Code",
        architecture="--arch=",
        library=VendorLibrary(
            names=("libacmertc.so.1",),
            purpose="compiler for kernels",
            remedy="Install its wheel: pip install acmertc",
        ),
    )
    with pytest.raises(BackendUnavailableError, match=r"libacmertc\.so\.1 .* pip install acmertc"):
        absent.compile(GOOD, "acme1")


TEMPLATE = """template <typename T, int N> __global__ void scale(T* x, T by) {
  x[threadIdx.x] *= by * N;
}
namespace ours { __global__ void plain(int* x) { *x = 1; } }"""
NAMES = ["scale<float, 2>", "scale<double, 3>", "ours::plain"]


def test_name_expressions_make_templates_and_say_what_c_plus_plus_calls_them(compiler, tmp_path):
    cache = ExecutableCache(tmp_path / "kept")
    image, names = compiler.compile_named(TEMPLATE, "sm_90", NAMES, cache=cache)
    assert list(names) == NAMES
    assert names["ours::plain"] == "_ZN4ours5plainEPi"
    assert all(lowered.encode() in image for lowered in names.values())
    assert compiler.compile_named(TEMPLATE, "sm_90", NAMES, cache=cache) == (image, names)
    assert len(cache.entries()) == 1
    assert compiler.compile_named(TEMPLATE, "sm_90", NAMES[:1], cache=cache)[0] != image
    with pytest.raises(InvalidArgumentError, match="absent"):
        compiler.compile_named(TEMPLATE, "sm_90", ["absent<float>"])


HALVES = """#include <cuda_fp16.h>
extern "C" __global__ void half(__half* x) { x[0] = __float2half(1.f); }"""


def test_headers_are_found_where_the_toolkit_is(compiler, tmp_path, monkeypatch):
    for folder, bits in (("one", 1), ("other", 2)):
        (tmp_path / folder / "include").mkdir(parents=True)
        (tmp_path / folder / "include" / "cuda_fp16.h").write_text(
            "struct __half { unsigned short bits; };\n"
            f"__device__ __half __float2half(float) {{ return {{{bits}}}; }}\n"
        )
    bare = dataclasses.replace(compiler, header_folders=(), system_header_folders=())
    for name in compiler.header_variables:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidArgumentError, match=r"could not open source file .cuda_fp16\.h"):
        bare.compile(HALVES, "sm_90")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "one"))
    first = bare.compile(HALVES, "sm_90")
    given = [f"-I{tmp_path / 'other' / 'include'}"]
    assert bare.compile(HALVES, "sm_90", given) != first  # the caller's folders come first

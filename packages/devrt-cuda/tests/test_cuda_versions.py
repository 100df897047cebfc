"""Versions of CUDA's libraries, read in a child process from libraries that the test compiles."""

import types

import pytest

from devrt.errors import BackendUnavailableError
from devrt.native import gpu_engine
from devrt_cuda import _versions
from devrt_cuda._engine import ENGINE
from devrt_cuda.traits import CUDA
from support import shared_library

SOURCES = {
    "driver": "int cuDriverGetVersion(int* v) { *v = 13000; return 0; }",
    "cudart": "int cudaRuntimeGetVersion(int* v) { *v = 13050; return 0; }",
    "cudnn": "#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 91101; }",
    "cufft": "int cufftGetVersion(int* v) { *v = 12500; return 0; }",
    "cusolver": "#include <stdlib.h>\nint cusolverGetVersion(int* v) { *v = 1; return 0; }",
    "cupti": "int cuptiGetVersion(unsigned* v) { return 999; }",
    "cublas": "int cublasGetProperty(int p, int* v) { *v = p ? 10 : 13; return 0; }",
    "cusparse": "#include <stdlib.h>\nint cusparseGetProperty(int p, int* v) { abort(); }",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a library of each kind; the last one crashes."""
    folder = tmp_path_factory.mktemp("libraries")
    for row in _versions.LIBRARIES:
        shared_library(folder / row.file, SOURCES[row.name])
    return folder


@pytest.fixture
def found(folder, monkeypatch):
    """Return what is read of them."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.delenv(_versions.IGNORED, raising=False)
    monkeypatch.setattr(_versions, "_PLUGIN", "devrt-cuda")  # one that is installed
    _versions._found.cache_clear()
    _versions._capabilities.cache_clear()
    yield {each.library.name: each for each in _versions._found()}
    _versions._found.cache_clear()


def test_versions_are_read_as_each_library_gives_them(found, folder):
    versions = {name: each.version for name, each in found.items() if each.version}
    assert versions == {
        "driver": (13, 0),
        "cudart": (13, 5),
        "cudnn": (9, 11),
        "cufft": (12, 5),
        "cusolver": (0, 0),
        "cublas": (13, 10),
    }
    assert found["cudart"].path == str(folder / "libcudart.so.13")
    assert "status 999" in found["cupti"].problem
    assert "ended with status -6" in found["cusparse"].problem


def test_an_old_library_is_refused_with_its_file_and_both_versions(found, monkeypatch):
    with pytest.raises(BackendUnavailableError) as raised:
        _versions.check()
    for text in (found["cudnn"].path, "version 9.11", "9.12 or later", "nvidia-cudnn-cu13"):
        assert text in str(raised.value)
    monkeypatch.setenv(_versions.IGNORED, "cudnn, cusolver")
    _versions.check()  # what cannot be read is left to the plugin


def test_the_doctor_has_a_finding_for_each(found):
    codes = {each.code: each.severity for each in _versions.findings()}
    assert codes == {
        "cudnn-old": "error",
        "cusolver-old": "error",
        "cupti-unknown": "info",
        "cusparse-unknown": "info",
    }


def test_nothing_is_read_where_the_plugin_is_not_installed(monkeypatch):
    monkeypatch.setattr(_versions, "_PLUGIN", "a-wheel-that-is-not-here")
    _versions._found.cache_clear()
    assert _versions._found() == ()
    _versions._found.cache_clear()


def test_the_loader_reads_them_before_the_plugins_client(found):
    with pytest.raises(BackendUnavailableError, match=r"libcudnn.so.9"):
        CUDA.adapt_options({"preallocate": False})


def test_the_clients_engine_reads_them_before_it_opens_the_wheels_plugin(found, monkeypatch):
    client = types.SimpleNamespace(local_devices=list)  # none of them simulated
    wheel = gpu_engine.GpuLibrary("plugin.so", "jax-cuda13-pjrt", "0.12")
    monkeypatch.setattr(gpu_engine, "find", lambda vendor: wheel)
    for use in (
        lambda: ENGINE.compile_and_load(client, "func.func @main() { return }"),
        lambda: ENGINE.deserialize_executable(client, b""),
    ):
        with pytest.raises(BackendUnavailableError, match=r"libcudnn.so.9"):
            use()
    named = gpu_engine.GpuLibrary("plugin.so")  # its needs are not known
    monkeypatch.setattr(gpu_engine, "find", lambda vendor: named)
    assert ENGINE.opened(client) is named


def test_an_old_driver_is_refused_before_the_libraries(found, folder, monkeypatch):
    (folder / "old").mkdir()
    shared_library(
        folder / "old/libcuda.so.1", "int cuDriverGetVersion(int* v) { *v = 12040; return 0; }"
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}/old:{folder}")
    _versions._found.cache_clear()
    with pytest.raises(BackendUnavailableError) as raised:
        CUDA.adapt_options({})
    for text in (f"{folder}/old/libcuda.so.1", "up to 12.4", "needs 13.0", "driver 580"):
        assert text in str(raised.value)
    (finding,) = (each for each in _versions.findings() if each.code == "driver-old")
    assert finding.severity == "error"
    assert finding.remedy.startswith("Install driver 580")
    monkeypatch.setenv(_versions.IGNORED, "driver,cudnn,cusolver")
    _versions.check()


def test_a_driver_that_is_not_there_is_the_probes_to_report(monkeypatch):
    absent = [_versions.Found(row, row.file, (), "not there") for row in _versions.LIBRARIES]
    monkeypatch.setattr(_versions, "_found", lambda: absent)
    codes = [each.code for each in _versions.findings()]
    assert "cudart-unknown" in codes
    assert "driver-unknown" not in codes

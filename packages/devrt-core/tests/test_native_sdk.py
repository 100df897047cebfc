"""A project outside the tree builds against the native SDK and works."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devrt import errors
from devrt.native import ABI_VERSION, check_abi, cmake_dir, include_dir

PROJECT = Path(__file__).with_name("native_sdk")
CORE = Path(__file__).parents[1]


def _run(*command, sdk=None, fails=False):
    """Run a command with the devrt-core in ``sdk`` before any other; return what it printed."""
    path = os.pathsep.join(filter(None, [str(sdk or ""), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=240,
        check=False,
    )
    assert (done.returncode != 0) == fails, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr if fails else done.stdout


def _need_tools():
    if shutil.which("cmake") is None:
        pytest.skip("cmake, which builds the outside project, is not installed")
    if not any(shutil.which(os.environ.get("CXX", name)) for name in ("c++", "g++", "clang++")):
        pytest.skip("a C++ compiler, which builds the outside project, is not installed")
    for module in ("nanobind", "nanobind_backend"):
        pytest.importorskip(module, reason=f"{module}, which modules are built with, is missing")


class Outside:
    """The project in ``native_sdk``, built with the SDK of an installed devrt-core."""

    def __init__(self, folder):
        self.sdk = folder / "installed"
        self.build = folder / "build"
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(*pip, "--no-deps", "--target", str(self.sdk), str(CORE))

    def configure(self, *, fails=False):
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        python = f"-DPython_EXECUTABLE={sys.executable}"
        command = ("cmake", "-S", str(PROJECT), "-B", str(self.build), *generator, python)
        flags = ("-DCMAKE_CXX_FLAGS=-O0", "-DDEVRT_WERROR=ON")
        return _run(*command, *flags, sdk=self.sdk, fails=fails)

    def make(self, *target):
        _run("cmake", "--build", str(self.build), *target, sdk=self.sdk)

    def set_abi(self, version):
        header = self.sdk / "devrt" / "native" / "include" / "devrt" / "base" / "abi.h"
        text = header.read_text()
        header.write_text(re.sub(r"(NATIVE_ABI) \d+", rf"\1 {version}", text))

    def module(self):
        (file,) = self.build.glob("_sdk_example*.so")
        spec = importlib.util.spec_from_file_location("_sdk_example", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """The outside project, configured and built."""
    _need_tools()
    project = Outside(tmp_path_factory.mktemp("native_sdk"))
    project.configure()
    project.make()
    return project


@pytest.fixture(scope="module")
def sdk_example(outside):
    """The project's module, loaded before any test builds it otherwise."""
    return outside.module()


def test_folders_are_printed():
    printed = _run(sys.executable, "-m", "devrt.native", "--include-dir", "--cmake-dir", "--abi")
    assert printed.splitlines() == [include_dir(), cmake_dir(), str(ABI_VERSION)]
    assert (Path(include_dir()) / "devrt" / "base" / "status.hpp").is_file()
    assert (Path(cmake_dir()) / "devrtConfig.cmake").is_file()


def test_outside_module_works(sdk_example):
    filler = sdk_example.Filler()
    assert filler.fill(100_000, 7) == b"\x07" * 100_000
    assert filler.bytes_in_use == 0
    assert filler.bytes_reserved >= 100_000
    filler.trim()
    assert filler.bytes_reserved == 0


def test_outside_errors_are_devrt_errors(sdk_example):
    with pytest.raises(errors.OutOfMemoryError, match="bytes_limit=1048576") as raised:
        sdk_example.Filler().fill(2 << 20, 0)
    assert raised.value.args  # the status, as devrt.errors made it


def test_versions_agree():
    header = (Path(include_dir()) / "devrt" / "base" / "abi.h").read_text()
    assert re.findall(r"#define DEVRT_NATIVE_ABI (\d+)", header) == [str(ABI_VERSION)]
    check_abi("devrt_acme", ABI_VERSION)


@pytest.mark.parametrize(
    ("built", "upgrade"),
    [(ABI_VERSION + 1, "devrt-core"), (ABI_VERSION - 1, "devrt-acme")],
)
def test_another_abi_is_refused(built, upgrade):
    with pytest.raises(errors.PluginLoadError, match=f"Upgrade {upgrade} with: pip") as raised:
        check_abi("devrt_acme", built)
    data = raised.value.data
    assert data.pop("remedy") in str(raised.value)
    assert data == {
        "plugin": "devrt_acme",
        "upgrade": upgrade,
        "built_abi": built,
        "installed_abi": ABI_VERSION,
    }


def test_stub_is_written(outside, sdk_example):
    outside.make("--target", "_sdk_example_stub")
    assert "class Filler:" in (outside.build / "_sdk_example.pyi").read_text()


def test_module_of_another_abi_is_refused(outside, sdk_example):
    """When it is built, and when it is imported where it was not built."""
    outside.set_abi(ABI_VERSION + 1)
    try:
        outside.make("--target", "_sdk_example")
        source = f"import sys; sys.path.insert(0, {str(outside.build)!r}); import _sdk_example"
        printed = _run(sys.executable, "-c", source, sdk=outside.sdk, fails=True)
        refused = outside.configure(fails=True)
    finally:
        outside.set_abi(ABI_VERSION)
    assert "devrt.errors.PluginLoadError: The native module of sdk_example was built" in printed
    assert f"against version {ABI_VERSION + 1} of" in printed
    assert f"devrt-core has version {ABI_VERSION}. Upgrade devrt-core" in printed
    assert f'requested version "{ABI_VERSION}"' in " ".join(refused.split())
    assert f"version: {ABI_VERSION + 1}" in refused

"""A project outside the tree builds against the native SDK and works."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from devrt import errors
from devrt.native import cmake_dir, include_dir

PROJECT = Path(__file__).with_name("native_sdk")


def _run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, env=_environment(), timeout=240, check=False
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _environment() -> dict[str, str]:
    """Let CMake's Python find the same devrt as this one."""
    source = str(Path(include_dir()).parents[2])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def _need_tools() -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake, which builds the outside project, is not installed")
    if not any(shutil.which(os.environ.get("CXX", name)) for name in ("c++", "g++", "clang++")):
        pytest.skip("a C++ compiler, which builds the outside project, is not installed")
    for module in ("nanobind", "nanobind_backend"):
        pytest.importorskip(module, reason=f"{module}, which modules are built with, is missing")


@pytest.fixture(scope="module")
def sdk_example(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module of the project in ``native_sdk``, built in a folder of its own."""
    _need_tools()
    build = str(tmp_path_factory.mktemp("native_sdk"))
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    _run(
        *("cmake", "-S", str(PROJECT), "-B", build, *generator),
        *("-DCMAKE_CXX_FLAGS=-O0", "-DDEVRT_WERROR=ON", f"-DPython_EXECUTABLE={sys.executable}"),
    )
    _run("cmake", "--build", build)
    (file,) = Path(build).glob("_sdk_example*.so")
    spec = importlib.util.spec_from_file_location("_sdk_example", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_folders_are_printed() -> None:
    printed = _run(sys.executable, "-m", "devrt.native", "--include-dir", "--cmake-dir")
    assert printed.splitlines() == [include_dir(), cmake_dir()]
    assert (Path(include_dir()) / "devrt" / "status.hpp").is_file()
    assert (Path(cmake_dir()) / "devrtConfig.cmake").is_file()


def test_outside_module_works(sdk_example: ModuleType) -> None:
    filler = sdk_example.Filler()
    assert filler.fill(100_000, 7) == b"\x07" * 100_000
    assert filler.bytes_in_use == 0
    assert filler.bytes_reserved >= 100_000
    filler.trim()
    assert filler.bytes_reserved == 0


def test_outside_errors_are_devrt_errors(sdk_example: ModuleType) -> None:
    with pytest.raises(errors.OutOfMemoryError, match="bytes_limit=1048576") as raised:
        sdk_example.Filler().fill(2 << 20, 0)
    assert raised.value.args  # the status, as devrt.errors made it

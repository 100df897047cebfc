"""The stubs of the native modules say what the modules offer: they are made again and compared."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The generator lists what the interpreter adds to a class (__buffer__ from 3.12 on), so the stubs
# are those of the lowest Python that is supported.
PYTHON = (3, 11)
NATIVE = sorted(path.parent for path in ROOT.glob("packages/*/CMakeLists.txt"))


def make_stub(module, folder):
    stub = folder / "made.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", module, "-o", str(stub)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return stub.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.version_info[:2] != PYTHON, reason="the stubs are made with Python 3.11")
@pytest.mark.parametrize("package", NATIVE, ids=[package.name for package in NATIVE])
def test_the_committed_stub_is_the_modules(package, tmp_path):
    (folder,) = package.glob("src/*")
    module = f"{folder.name}._ext"
    importlib.import_module(module)  # fails with its own words where the package is not built
    committed = (folder / "_ext.pyi").read_text(encoding="utf-8")
    assert make_stub(module, tmp_path) == committed, (
        f"{folder / '_ext.pyi'} is out of date: run python -m nanobind.stubgen -m {module}"
    )

"""The committed stub is what nanobind makes of the module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STUB = Path(__file__).parents[2] / "src" / "devrt_cpu" / "_ext.pyi"


def test_stub_is_current(tmp_path):
    """Regenerate with ``python packages/devrt-cpu/tests/regenerate_stub.py``."""
    pytest.importorskip("nanobind", reason="nanobind, which makes stubs, is not installed")
    made = tmp_path / "_ext.pyi"
    script = Path(__file__).parents[1] / "regenerate_stub.py"
    subprocess.run([sys.executable, os.fspath(script), os.fspath(made)], check=True)
    assert made.read_text() == STUB.read_text()

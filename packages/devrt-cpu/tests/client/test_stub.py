"""The committed stub is what nanobind makes of the module."""

from pathlib import Path

import pytest

from support import run_python

STUB = Path(__file__).parents[2] / "src" / "devrt_cpu" / "_ext.pyi"


def test_stub_is_current(tmp_path):
    """Regenerate with ``python packages/devrt-cpu/tests/regenerate_stub.py``."""
    pytest.importorskip("nanobind", reason="nanobind, which makes stubs, is not installed")
    made = tmp_path / "_ext.pyi"
    script = Path(__file__).parents[1] / "regenerate_stub.py"
    run_python(script, made)
    assert made.read_text() == STUB.read_text()

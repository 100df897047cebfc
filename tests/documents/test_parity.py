"""Every row of docs/parity.md is true, and the page is what its rows say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import devrt

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def parity(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import parity

    return parity


def test_every_row_is_true_and_the_page_is_current():
    """Run ``make parity`` after a change of a row."""
    for module in ("devrt_cpu", "devrt_pjrt", "xla_plugins"):
        pytest.importorskip(module, reason=f"needs {module}")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DEVRT_", "JAX_", "PJRT_"))}
    done = subprocess.run(
        [sys.executable, str(TOOLS / "parity.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=env,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.parametrize(
    ("state", "check", "note", "problem"),
    [
        ("works", "1 == 1", "", ""),
        ("works", "1 == 2", "", "its check is false"),
        ("works", "x.missing", "", "AttributeError"),
        ("works", "1 == 1", "with a note", "what does not work has a note"),
        ("differs", "1 == 1", "", "what does not work has a note"),
        ("differs", "unknown", "so", "NameError"),
        ("absent", "x.missing", "needs more", "has no attribute 'missing'"),
        ("absent", "x._missing", "needs more", ""),
        ("absent", "int.missing", "needs more", ""),
        ("absent", "devrt.vmap", "needs more", ""),
        ("absent", "devrt.errors.ConfigError('no').missing", "needs more", "has no attribute"),
        ("absent", "devrt.get_backend('none')", "needs more", ""),
        ("absent", "x", "needs more", "it is there"),
        ("absent", "unknown", "needs more", "NameError"),
        ("there", "x", "", "the state is one of"),
    ],
)
def test_a_row_that_is_no_longer_true_is_found(parity, state, check, note, problem):
    found = parity.problem_of(parity.Row(state, "name", check, note), {"x": 5, "devrt": devrt})
    assert problem in found
    assert bool(problem) == bool(found)


def test_every_name_stands_once(parity):
    for title, sections in parity.tables():
        for section, rows in sections.items():
            names = [row.name for row in rows]
            assert len(names) == len(set(names)), (title, section)

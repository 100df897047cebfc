"""Every Python block of the users' pages runs as it stands, by itself.

Those whose blocks build on each other are run by ``test_pages``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_pages import STORIES

pytest.importorskip("devrt_cpu")

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({*(ROOT / "docs" / "users").glob("*.md")} - {ROOT / page for page in STORIES})
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[str]:
    return BLOCK.findall(text)


SNIPPETS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_snippet_runs(snippet, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DEVRT_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippet],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_blocks_are_found():
    assert blocks("a\n```python\nx = 1\n```\n```toml\ny\n```\n") == ["x = 1\n"]
    assert len(SNIPPETS) >= 5

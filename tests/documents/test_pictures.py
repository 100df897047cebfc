"""The pictures are what their script draws, light, and readable on dark pages."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
DRAWN = runpy.run_path(str(ROOT / "docs" / "pictures.py"))["PICTURES"]


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_its_script_draws(name):
    text = (ROOT / "docs" / "_static" / name).read_text(encoding="utf-8")
    assert text == DRAWN[name](), "run python docs/pictures.py"
    assert len(text) < 6000
    assert "prefers-color-scheme:dark" in text
    root = ElementTree.fromstring(text)
    assert root.findtext("{http://www.w3.org/2000/svg}title")


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_on_a_page(name):
    pages = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/users/*.md"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"!\[[^]]+\]\(\S*_static/{re.escape(name)}\)", pages + readme)

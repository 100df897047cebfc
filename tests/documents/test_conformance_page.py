"""The page of the conformance kit's cases has every case, and the guide every level and status."""

import runpy
from pathlib import Path

from devrt.testing.conformance import LEVELS, Status, all_cases

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "backend-authors" / "conformance.md"


def test_the_page_is_up_to_date():
    made = runpy.run_path(str(ROOT / "tools" / "conformance_page.py"))
    output = made["PAGE"].read_text(encoding="utf-8")
    assert output == made["text"](), "run: python tools/conformance_page.py"
    assert all(f"| `{case.name}`" in output for case in all_cases())


def test_the_guide_has_every_level_and_status():
    text = GUIDE.read_text(encoding="utf-8")
    assert [level for level in LEVELS if f"| `{level}` |" not in text] == []
    assert [status for status in Status if f"`{status.value}`" not in text] == []

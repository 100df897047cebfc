"""Write docs/backend-authors/conformance-cases.md from the kit's cases; a test compares the two.

Run ``python tools/conformance_page.py`` after a change of a case.
"""

from __future__ import annotations

from pathlib import Path

from devrt.testing.conformance import LEVELS, Case, all_cases

PAGE = Path(__file__).parent.parent / "docs" / "backend-authors" / "conformance-cases.md"
_HEAD = """# The cases of the conformance kit

What [the conformance kit](conformance.md) sees to, and where the contract asks for it. A case with
`*` has a child process of its own. This page is written by `tools/conformance_page.py`.
"""
_COLUMNS = "| case | a right backend | the contract |\n|---|---|---|\n"


def text() -> str:
    """Return the page as it should be."""
    cases = all_cases()
    return _HEAD + "".join(_section(level, cases) for level in LEVELS)


def _section(level: str, cases: tuple[Case, ...]) -> str:
    rows = [_row(case) for case in cases if case.level == level]
    head = f"\n## {level}: {len(rows)} cases\n\n{_COLUMNS}"
    return head + "".join(rows) if rows else ""


def _row(case: Case) -> str:
    name = f"`{case.name}`{' *' if case.alone else ''}"
    return f"| {name} | {_cell(case.title)} | {_cell(case.contract)} |\n"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")

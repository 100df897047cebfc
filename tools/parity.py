"""Write docs/parity.md: which names of JAX and jaxlib devrt has, and in what they differ.

The rows are data (``parity_rows/*.toml``): a state, a name, a check, and what differs. Every check
is an expression that is evaluated here: of a name that is there it must be true, of one that is
absent it must raise, of a public one with more to say than that. So the page says what holds.

Usage: ``python tools/parity.py`` writes the page, ``--check`` compares it with what it should be.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "parity.md"
STATES = ("works", "differs", "absent")
_HEAD = """# Names of JAX and jaxlib

What programs for JAX and jaxlib use, after `import jax` becomes `import devrt` and
`from jaxlib import xla_client` becomes `from devrt import xla_client`. A public name that is
*absent* raises an error that says why or what to do; private names and members of classes are just
not there. This page is written by `tools/parity.py`, which runs a check for every row.

"""


class Row(NamedTuple):
    """A name: its state, the expression that shows it, and what differs or is missing."""

    state: str
    name: str
    check: str
    note: str = ""


Sections = dict[str, list[Row]]


def tables() -> Iterator[tuple[str, Sections]]:
    """Yield the title of each table, and its rows by section."""
    for file in sorted((HERE / "parity_rows").glob("*.toml")):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        title = data.pop("title")
        yield title, {name: [Row(*row) for row in part["rows"]] for name, part in data.items()}


def problem_of(row: Row, names: dict[str, Any]) -> str:
    """Return why a row is not true; empty if it is."""
    if row.state not in STATES or (row.state != "works") != bool(row.note):
        return f"the state is one of {STATES}, and what does not work has a note"
    try:
        value = eval(row.check, names)
    except (AttributeError, RuntimeError, ValueError, NotImplementedError) as error:
        is_explained = row.state == "absent" and not _is_bare(error)
        return "" if is_explained else f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001  # a row must not hide the others
        return f"{type(error).__name__}: {error}"
    if row.state == "absent":
        return "it is there"
    return "" if value else "its check is false"


def _is_bare(error: Exception) -> bool:
    """Return whether an error says no more of a public name of a module than Python itself."""
    name = getattr(error, "name", None)
    if name is None or name.startswith("_") or isinstance(getattr(error, "obj", None), type):
        return not str(error)
    return str(error).endswith(f"has no attribute {name!r}")


def findings() -> list[str]:
    """Return the rows that are not true."""
    import parity_names

    with parity_names.given() as names:
        return [
            f"{title}: {row.name}: {problem}"
            for title, sections in tables()
            for rows in sections.values()
            for row in rows
            if (problem := problem_of(row, names))
        ]


def text() -> str:
    """Return the page as it should be."""
    return _HEAD + _summary() + "".join(_table(*table) for table in tables())


def _summary() -> str:
    lines = ["| | " + " | ".join(STATES) + " |", "|---|" + "---|" * len(STATES)]
    for title, sections in tables():
        states = [row.state for rows in sections.values() for row in rows]
        counts = " | ".join(str(states.count(state)) for state in STATES)
        lines.append(f"| {title} | {counts} |")
    return "\n".join(lines) + "\n"


def _table(title: str, sections: Sections) -> str:
    parts = [f"\n## {title}\n"]
    for name, rows in sections.items():
        parts += [f"\n### {name}\n\n| name | | |\n|---|---|---|\n"]
        parts += [f"| `{_cell(row.name)}` | {row.state} | {_cell(row.note)} |\n" for row in rows]
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Run the rows; write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    only_check = parser.parse_args().check
    found = findings()
    if only_check and PAGE.read_text(encoding="utf-8") != text():
        found.append(f"{PAGE.name} is not what its rows say: run python tools/parity.py")
    elif not only_check and not found:
        PAGE.write_text(text(), encoding="utf-8")
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    os.environ["DEVRT_NUM_CPU_DEVICES"] = "8"  # before devrt is imported
    sys.path.insert(0, str(HERE))
    sys.exit(main())

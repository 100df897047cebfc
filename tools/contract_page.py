"""Write docs/backend-authors/contract.md from the abstract classes; a test compares the two.

Run ``python tools/contract_page.py`` after a change of `devrt.contract`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from devrt import contract
from devrt.contract.members import members

PAGE = Path(__file__).parent.parent / "docs" / "backend-authors" / "contract.md"
_HEAD = """# What a client's classes must have

A backend's classes derive from those of `devrt.contract`, or are native classes registered with
`Client.register(...)` and its like. "needed" members have no default. A class that derives from
these may leave out the others; to a registered class that lacks them devrt gives the defaults. A
class without a needed member is refused with one error that names all of them: when it is
registered, or, for one that derives, when the client is made: every class of your package that is
there by then and that no other derives from. A base that is abstract on purpose has an abstract
member of its own, or derives from `abc.ABC` too.

[writing a backend](writing-a-backend.md) says what else a backend has; the full descriptions are in
the [reference](../reference/contract.md). This page is written by `tools/contract_page.py`.
"""
_DOOR = """
## What a backend imports

Of devrt, a backend imports these modules and no other, and no name that begins with an underscore.
They are `devrt.contract.PUBLIC_MODULES`. A backend's own tests can hold it to that:

```python
from pathlib import Path

from devrt.testing import import_findings


def test_imports():
    project = Path(__file__).parents[1]  # has pyproject.toml and src/
    assert import_findings(project) == []
```

| module | |
|---|---|
"""
_KINDS = (
    *(contract.Client, contract.Device, contract.Memory, contract.Buffer),
    *(contract.Executable, contract.LoadedExecutable, contract.ExecutionToken, contract.Topology),
    contract.PjrtLoader,
)


def text() -> str:
    """Return the page as it should be."""
    return _HEAD + _DOOR + _modules() + "".join(_section(kind) for kind in _KINDS)


def _modules() -> str:
    about = {
        name: inspect.getdoc(importlib.import_module(name)) for name in contract.PUBLIC_MODULES
    }
    return "".join(
        f"| `{name}` | {(doc or '').partition(chr(10))[0]} |\n" for name, doc in about.items()
    )


def _section(kind: type) -> str:
    rows = [
        f"| `{name}` | {'needed' if needed else ''} | {_sentence(kind, name)} |\n"
        for name, needed in members(kind).items()
        if name not in ("_unimplemented", "_no_dlpack")
    ]
    return f"\n## `{kind.__name__}`\n\n| member | | |\n|---|---|---|\n{''.join(rows)}"


def _sentence(kind: type, name: str) -> str:
    value = inspect.getattr_static(kind, name)
    output = inspect.getdoc(value.fget if isinstance(value, property) else value) or ""
    if not output or name == "__call__":
        field = re.search(
            rf"^{name} : .*\n {{4}}(.*(?:\n {{4}}.*)*)", inspect.getdoc(kind) or "", re.M
        )
        output = " ".join(field.group(1).split()) if field else ""
    return re.sub(r"``(.*?)``", r"`\1`", output.partition("\n")[0]).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")

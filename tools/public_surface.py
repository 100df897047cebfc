"""Write tests/repo/public_surface.txt: what backends and users may rely on, one line a name.

Run ``python tools/public_surface.py`` after a change of a public name or signature; a test compares
the two. It reads sources only: the modules of `devrt.contract.PUBLIC_MODULES` with the members of
their classes, and the names of `devrt` itself.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SNAPSHOT = ROOT / "tests" / "repo" / "public_surface.txt"
_SOURCES = ROOT / "packages" / "devrt-core" / "src"
_LONGEST = 40  # characters of a value that are shown


class Found(NamedTuple):
    """Where a name is defined; ``node`` is None for a module."""

    module: str
    node: ast.stmt | None


def text() -> str:
    """Return the file as it should be."""
    lines = {line for module in public_modules() for line in _module_lines(module)}
    return "".join(f"{line}\n" for line in sorted(lines | set(_facade_lines())))


def public_modules() -> tuple[str, ...]:
    """Return `devrt.contract.PUBLIC_MODULES`, from its source."""
    (node,) = _definitions("devrt.contract.public_modules")["PUBLIC_MODULES"]
    assert isinstance(node, ast.Assign)
    names: tuple[str, ...] = ast.literal_eval(node.value)
    return names


def _module_lines(module: str) -> Iterator[str]:
    for name in _exported(module):
        found = _find(module, name)
        yield from _lines(f"{module}.{name}", found, with_members=True)


def _facade_lines() -> Iterator[str]:
    stub = ast.parse(_path("devrt").with_suffix(".pyi").read_text(encoding="utf-8"))
    yield from (f"devrt.{ast.unparse(n)}" for n in stub.body if isinstance(n, ast.AnnAssign))
    for name in _exported("devrt"):
        yield from _lines(f"devrt.{name}", _find("devrt", name), with_members=False)


def _lines(name: str, found: Found, *, with_members: bool) -> Iterator[str]:
    node = found.node
    if node is None:
        yield f"{name}: module"
    elif isinstance(node, ast.FunctionDef):
        yield f"{name}{_signature(node)}"
    elif isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        yield f"{name}: class({bases})"
        yield from _member_lines(name, node, with_members)
    elif isinstance(node, ast.AnnAssign):
        yield f"{name}: {ast.unparse(node.annotation)}{_value(node.value)}"
    elif isinstance(node, ast.Assign):
        yield f"{name}{_value(node.value) or ': value'}"


def _member_lines(name: str, node: ast.ClassDef, with_all: bool) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and _counts(item.name, with_all):
            yield f"{name}.{_method(item)}"
        elif with_all and (field := _field(item)) and not field.startswith("_"):
            yield f"{name}.{field}"


def _method(node: ast.FunctionDef) -> str:
    marks = " ".join(map(ast.unparse, node.decorator_list))
    needed = " (needed)" if "abstractmethod" in marks else ""
    if "property" not in marks:
        return f"{node.name}{_signature(node)}{needed}"
    returns = f": {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}{returns}{needed}"


def _field(node: ast.stmt) -> str:
    """Return a class's attribute; empty if a statement sets none."""
    if isinstance(node, ast.AnnAssign):
        shown = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    elif isinstance(node, ast.Assign):
        shown = ast.unparse(node.targets[0])
    else:
        return ""
    return shown + _value(node.value)


def _counts(name: str, with_all: bool) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return name == "__init__" or (with_all and (is_special or not name.startswith("_")))


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returns}"


def _value(node: ast.expr | None) -> str:
    shown = "" if node is None else ast.unparse(node)
    return f" = {shown if len(shown) <= _LONGEST else '...'}" if shown else ""


def _find(module: str, name: str) -> Found:
    """Return where a name of a module is defined, through whatever imports it."""
    stubbed = _stub(module).get(name)
    if stubbed == module:
        return Found(f"{module}.{name}", None)
    if stubbed is not None:
        return _find(stubbed, name)
    for node in _definitions(module).get(name, ()):
        if isinstance(node, ast.ImportFrom):
            return _imported(node, name)
        return Found(module, node)
    return Found(f"{module}.{name}", None)


def _imported(node: ast.ImportFrom, name: str) -> Found:
    original = next(a.name for a in node.names if (a.asname or a.name) == name)
    source = str(node.module)
    if _path(f"{source}.{original}").exists():
        return Found(f"{source}.{original}", None)
    return _find(source, original) if _path(source).exists() else Found(source, None)


@functools.cache
def _definitions(module: str) -> dict[str, list[ast.stmt]]:
    """Return what each name at the top of a module is defined by."""
    found: dict[str, list[ast.stmt]] = {}
    for node in ast.parse(_path(module).read_text(encoding="utf-8")).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for t in node.targets for target in ast.walk(t) if _is_name(target)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
        for name in names:
            found.setdefault(name, []).append(node)
    return found


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _exported(module: str) -> list[str]:
    if stub := _stub(module):
        return sorted(stub)
    nodes = _definitions(module).get("__all__", [])
    values = (node.value for node in nodes if isinstance(node, ast.Assign))
    return sorted(name for value in values for name in ast.literal_eval(value))


@functools.cache
def _stub(module: str) -> dict[str, str]:
    """Return the module of each name of a package whose names stand in its stub."""
    path = _path(module).with_suffix(".pyi")
    if not path.exists():
        return {}
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {str(a.asname): str(n.module) for n in imports for a in n.names if a.asname}


def _path(module: str) -> Path:
    path = _SOURCES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


if __name__ == "__main__":
    SNAPSHOT.write_text(text(), encoding="utf-8")

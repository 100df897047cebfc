"""Whether a backend imports the modules that the contract lists, and nothing else of devrt.

Imports in Python count at any depth, for annotations alone too, and so do strings that name a
module: in Python for `importlib`, in C and C++ for the interpreter.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from importlib import metadata
from pathlib import Path

import devrt
from devrt.contract import PUBLIC_MODULES
from devrt.plugins.discovery.sources import find_module

__all__ = [
    "file_findings",
    "import_findings",
    "installed_findings",
    "modules_of",
    "used_modules",
]

_NATIVE = (".c", ".h", ".cpp", ".hpp", ".in")
_MODULE = re.compile(r"devrt(?:\.\w+)+")
_NATIVE_MODULE = re.compile(rf'"({_MODULE.pattern})"(?:\s*[,)](?:\.attr\()?\s*"(\w+)")?')


def import_findings(project: str | os.PathLike[str]) -> list[str]:
    """Return what a backend imports of devrt and should not; an empty list if it is right.

    Parameters
    ----------
    project
        The folder of the backend's project: Python code below ``src/``, C and C++ code below a
        folder ``native``, as devrt's own backends and ``examples/devrt-acme`` have it.

    Returns
    -------
    list of str
        One line each, ``file:line: what``: a module that is not in
        `devrt.contract.PUBLIC_MODULES`, a private name, another backend's package.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or no Python code in it.
    """
    root = Path(project)
    if not any(root.glob("src/**/*.py")):
        msg = f"{root}/src has no Python code: pass the folder of its pyproject.toml"
        raise FileNotFoundError(msg)
    return _findings(_files(root), {path.name for path in root.glob("src/*")})


def installed_findings(module: str, distribution: str) -> list[str]:
    """Return what an installed backend imports of devrt and should not, without importing it.

    Parameters
    ----------
    module
        The module that its entry point names; the whole package that it is in is read.
    distribution
        The name of the distribution that brings it, whose other packages it may import.

    Returns
    -------
    list of str
        As of `import_findings`.
    """
    package = _package_of(module)
    files = sorted(package.rglob("*.py")) if package.is_dir() else [package]
    texts = ((path.as_posix(), path.read_text(encoding="utf-8")) for path in files)
    return _findings(texts, {package.stem, *_packages_beside(package, distribution)})


def _package_of(module: str) -> Path:
    """Return the folder of a module's top package, below namespace packages, or its file."""
    top, *rest = module.split(".")
    if (spec := find_module(top)) is None:
        msg = f"there is no module {top!r}: is its distribution installed?"
        raise FileNotFoundError(msg)
    if spec.origin is None:  # a namespace package, whose parts bring modules of several backends
        folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
        found = [
            path for name in rest[:1] for f in folders for path in (f / name, f / f"{name}.py")
        ]
        return next(path for path in found if path.exists())
    file = Path(spec.origin)
    return file.parent if file.name == "__init__.py" else file


def _packages_beside(package: Path, distribution: str) -> set[str]:
    """Return the packages that came with one: of its distribution, or of its source tree."""
    if package.parent.name == "src":  # installed in editable form
        return {path.name for path in package.parent.iterdir() if path.is_dir()}
    with contextlib.suppress(metadata.PackageNotFoundError):
        return {file.parts[0] for file in metadata.files(distribution) or ()}
    return set()


def _findings(files: Iterable[tuple[str, str]], own: Collection[str]) -> list[str]:
    modules = modules_of(Path(devrt.__path__[0]))
    return [
        finding
        for path, text in files
        for finding in file_findings(path, text, PUBLIC_MODULES, modules, frozenset(own))
    ]


def used_modules(project: Path) -> set[str]:
    """Return every module of devrt that a backend's project uses."""
    modules = modules_of(Path(devrt.__path__[0]))
    return {
        module_in(f"{module}.{name}", modules)
        for path, text in _files(project)
        for _, module, name in _uses(path, text)
        if module.partition(".")[0] == "devrt"
    }


def file_findings(
    path: str,
    source: str,
    public: Collection[str],
    modules: Collection[str],
    own: frozenset[str] = frozenset(),
) -> list[str]:
    """Return the findings of one file; ``own`` are the packages of the backend's own wheel."""
    found = []
    for line, module, name in _uses(path, source):
        package = module.partition(".")[0]
        if package.startswith("devrt_") and package not in own:
            found.append(f"{path}:{line}: a backend imports another backend, {package}")
        elif package == "devrt" and (target := module_in(f"{module}.{name}", modules)):
            if target == f"{module}.{name}" and module in public and _exports(module, name):
                target = module
            rest = f"{module}.{name}".removeprefix(f"{target}.")
            if target not in public:
                found.append(f"{path}:{line}: {target} is not in devrt.contract.PUBLIC_MODULES")
            elif rest.startswith("_"):
                found.append(f"{path}:{line}: {target}.{rest} is a private name")
    return found


def _exports(module: str, name: str) -> bool:
    """Return whether a package's own name hides its module of the same name."""
    return name in getattr(importlib.import_module(module), "__all__", ())


def modules_of(core: Path) -> set[str]:
    """Return every module and package of devrt, found without an import."""
    paths = (path.relative_to(core.parent).with_suffix("") for path in core.rglob("*.py"))
    return {".".join(path.parts).removesuffix(".__init__") for path in paths}


def module_in(dotted: str, modules: Collection[str]) -> str:
    """Return the module that a dotted name begins with; empty for a name that is no path."""
    parts = dotted.rstrip(".").split(".")
    if len(parts) > 1 and parts[1][:1].isupper():  # the name of a type that C++ tells a plugin
        return ""
    ends = range(len(parts), 0, -1)
    return next(name for end in ends if (name := ".".join(parts[:end])) in modules)


def _files(project: Path) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that goes into a backend's wheel."""
    for path in sorted(project.rglob("*")):
        parts = path.relative_to(project).parts
        is_python = parts[0] == "src" and path.suffix == ".py"
        is_native = path.suffix in _NATIVE and "native" in parts and "tests" not in parts
        if (is_python or is_native) and "build" not in parts:
            yield path.as_posix(), path.read_text(encoding="utf-8")


def _uses(path: str, source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the module and the name in it of all that a file takes from devrt."""
    return _native_uses(source) if path.endswith(_NATIVE) else _python_uses(source)


def _python_uses(source: str) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and _MODULE.fullmatch(str(node.value)):
            yield node.lineno, str(node.value), ""


def _native_uses(source: str) -> Iterator[tuple[int, str, str]]:
    for match in _NATIVE_MODULE.finditer(source):
        yield source.count("\n", 0, match.start()) + 1, match.group(1), match.group(2) or ""

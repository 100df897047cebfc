"""Backends import the modules that the contract lists, and nothing else of the core.

Imports in Python count at any depth, for annotations alone too, and so do strings that name a
module: in Python for `importlib`, in C and C++ for the interpreter.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LIST = "contract/public_modules.py"
NATIVE = (".c", ".h", ".cpp", ".hpp", ".in")
MODULE = re.compile(r"devrt(?:\.\w+)+")
NATIVE_MODULE = re.compile(rf'"({MODULE.pattern})"(?:\s*[,)](?:\.attr\()?\s*"(\w+)")?')


def public_modules(core: Path) -> set[str]:
    """Return the list, read without an import."""
    (value,) = (
        node.value
        for node in ast.parse((core / LIST).read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PUBLIC_MODULES"
    )
    return set(ast.literal_eval(value))


def modules_of(core: Path) -> set[str]:
    """Return every module and package of the core."""
    paths = (path.relative_to(core.parent).with_suffix("") for path in core.rglob("*.py"))
    return {".".join(path.parts).removesuffix(".__init__") for path in paths}


def uses(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the module and the name in it of all that Python code takes from devrt."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and MODULE.fullmatch(str(node.value)):
            yield node.lineno, str(node.value), ""


def native_uses(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the same of C and C++ code, which names modules in strings."""
    for match in NATIVE_MODULE.finditer(source):
        yield source.count("\n", 0, match.start()) + 1, match.group(1), match.group(2) or ""


def door_findings(
    path: str, source: str, public: set[str], modules: set[str], own: frozenset[str] = frozenset()
) -> list[str]:
    """Return what one file of a backend takes past the door.

    ``own`` are the packages of the backend's own wheel.
    """
    found = []
    for line, module, name in native_uses(source) if path.endswith(NATIVE) else uses(source):
        package = module.partition(".")[0]
        if package.startswith("devrt_") and package not in own:
            found.append(f"{path}:{line}: a backend imports another backend, {package}")
        elif package == "devrt" and (target := module_in(f"{module}.{name}", modules)):
            rest = f"{module}.{name}".removeprefix(f"{target}.")
            if target not in public:
                found.append(f"{path}:{line}: a backend imports {target}, which is not in {LIST}")
            elif rest.startswith("_"):
                found.append(f"{path}:{line}: a backend imports a private name, {target}.{rest}")
    return found


def module_in(dotted: str, modules: set[str]) -> str:
    """Return the module that a dotted name begins with; empty for a name that is no path."""
    parts = dotted.rstrip(".").split(".")
    if len(parts) > 1 and parts[1][:1].isupper():  # the name of a type that C++ tells a plugin
        return ""
    ends = range(len(parts), 0, -1)
    return next(name for end in ends if (name := ".".join(parts[:end])) in modules)


def backend_files(root: Path, core: Path) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield path, text and the wheel's own packages of each file that goes into a backend."""
    for project in (*root.glob("packages/*"), *root.glob("examples/*")):
        own = frozenset(path.name for path in project.glob("src/*"))
        for path in sorted(project.rglob("*")):
            parts = path.relative_to(project).parts
            is_python = parts[0] == "src" and path.suffix == ".py" and core not in path.parents
            is_native = path.suffix in NATIVE and "native" in parts and "tests" not in parts
            if (is_python or is_native) and "build" not in parts:
                name = path.relative_to(root).as_posix()
                yield name, path.read_text(encoding="utf-8"), own


def test_backends_come_in_by_the_door(checkout):
    public, modules = public_modules(checkout.core), modules_of(checkout.core)
    found = [
        finding
        for path, text, own in backend_files(checkout.root, checkout.core)
        for finding in door_findings(path, text, public, modules, own)
    ]
    assert not found, "\n".join(found)


def test_every_module_on_the_list_is_used(checkout):
    uses_of = [
        f"{module}.{name}"
        for path, text, _ in backend_files(checkout.root, checkout.core)
        for _, module, name in (native_uses(text) if path.endswith(NATIVE) else uses(text))
        if module.partition(".")[0] == "devrt"
    ]
    modules = modules_of(checkout.core)
    assert public_modules(checkout.core) <= {module_in(used, modules) for used in uses_of}


def test_the_list_has_modules_that_are_there_and_say_what_they_are_for(checkout):
    public = public_modules(checkout.core)
    assert public <= modules_of(checkout.core)
    assert not [name for name in public if "._" in name]
    for name in sorted(public):
        path = checkout.core.joinpath(*name.split(".")[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), name


PUBLIC = {"devrt.contract", "devrt.native"}
MODULES = {*PUBLIC, "devrt", "devrt.arrays", "devrt.contract.device", "devrt._support"}


@pytest.mark.parametrize(
    "source",
    [
        "import devrt",
        "from devrt import devices",
        "from devrt import arrays",
        "def f():\n    import devrt.arrays",
        "from devrt.arrays import Array",
        "from devrt.contract.device import Device",
        "from devrt.contract import device",
        "from devrt.contract import _nulls",
        "from devrt._support import log",
        "importlib.import_module('devrt.arrays')",
        "MODULE = 'devrt.arrays'",
        "from devrt_other import plugin",
    ],
)
def test_what_goes_past_the_door_is_reported(source):
    assert len(door_findings("devrt_acme/x.py", source, PUBLIC, MODULES)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'get(cache, "devrt.contract.device", "Device")',
        'import_("devrt.arrays").attr("Array")',
        'PyImport_ImportModule("devrt._support");',
        'get(cache, "devrt.contract", "_CURRENT")',
        'import_("devrt.contract").attr(\n"_CURRENT")',
    ],
)
def test_a_string_in_native_code_that_goes_past_it_is_reported(source):
    assert len(door_findings("native/x.cpp", source, PUBLIC, MODULES)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("x.py", "from devrt.contract import Client\nfrom devrt import contract"),
        ("x.py", "from ..x import y\nfrom devrt_acme import z\nimport numpy"),
        ("x.py", '"""Derives from devrt.arrays."""\nNAME = "devrt"'),
        ("x.cpp", 'get(cache, "devrt.contract", "Client"); log("devrt", "_x");'),
        ("x.cpp", 'import_("devrt.native").attr("check_abi")  // not devrt.arrays'),
        ("x.cpp", 'constexpr std::string_view kName = "devrt.HeldError";'),
    ],
)
def test_what_comes_in_by_the_door_is_not(path, source):
    own = frozenset({"devrt_acme"})
    assert door_findings(path, source, PUBLIC, MODULES, own) == []

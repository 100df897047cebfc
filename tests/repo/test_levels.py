"""A package of the core imports from its own level or a lower one; backends have their own test.

The levels are those of docs/architecture.md. An import for annotations alone counts too: a package
that names another one's type knows of it.
"""

import ast
from pathlib import PurePosixPath

import pytest

FACADE = "__init__"

LEVELS = {
    0: {
        "_clusters",
        "_config",
        "_pytree",
        "_support",
        "checkpoint_policies",
        "compiling",
        "contract",
        "dtypes",
        "errors",
        "hardware",
        "hookspecs",
        "layout",
        "native",
        "records",
        "topology",
        "wire",
    },
    1: {"doctor", "plugins", "probing", "runtime"},
    2: {"sharding", "distributed", "tracing"},
    3: {"arrays", "dlpack", "tree", "tree_util"},
    4: {"debug", "experimental", "lax", "nn", "numpy", "programs", "random"},
    5: {FACADE},
    6: {"cli", "xla_bridge", "xla_client", "testing", "examples", "__main__"},
}
LEVEL_OF = {layer: level for level, layers in LEVELS.items() for layer in layers}

EXCEPTIONS = {
    ("native", "arrays"): "a kernel, which a client compiles, is launched with arrays",
    ("native", "tracing"): "a kernel that is called in a traced function becomes part of the trace",
    ("native", "plugins"): "the check of a wheel reads its manifest as a start would",
    ("tracing", "numpy"): "operators of arrays and traced values are functions of devrt.numpy",
}
"""(importing package, imported package) and the reason; a row without an import fails."""


def layer_of(path):
    """Return the layer of a file below src/devrt/."""
    return PurePosixPath(path).parts[0].removesuffix(".py")


def imports(source, package):
    """Yield the line and the dotted name of everything that a module imports, at any depth.

    ``package`` is the dotted package that the module lies in, against which relative imports are
    resolved.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).rpartition(".")[2]
            name = node.args[0]
            if called in {"import_module", "__import__"} and isinstance(name, ast.Constant):
                yield node.lineno, str(name.value)


def imported_layers(source, package, layers):
    """Yield the line and the layer of every import from the core."""
    for line, name in imports(source, package):
        first, _, rest = name.partition(".")
        if first == "devrt":
            layer = rest.partition(".")[0]
            yield line, layer if layer in layers else FACADE


def level_findings(path, source, layers):
    """Return the imports of one file of the core that go up, or lead to a layer without a level."""
    layer = layer_of(path)
    if layer not in LEVEL_OF:
        return [f"{path}:1: layer '{layer}' has no level: give it one in LEVELS of this test"]
    package = ".".join(["devrt", *PurePosixPath(path).parts[:-1]])
    found = []
    for line, target in imported_layers(source, package, layers):
        if target not in LEVEL_OF:
            found.append(f"{path}:{line}: imports layer '{target}', which has no level")
        elif LEVEL_OF[target] > LEVEL_OF[layer] and (layer, target) not in EXCEPTIONS:
            found.append(
                f"{path}:{line}: '{layer}' (level {LEVEL_OF[layer]}) imports "
                f"'{target}' (level {LEVEL_OF[target]})"
            )
    return found


def files_below(folder):
    return [
        (path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    ]


def layers_of(core):
    return {layer_of(path) for path, _ in files_below(core)} | LEVEL_OF.keys()


def test_the_core_imports_downwards_only(checkout):
    layers = layers_of(checkout.core)
    findings = [level_findings(path, text, layers) for path, text in files_below(checkout.core)]
    assert not any(findings), "\n".join(line for found in findings for line in found)


def test_every_exception_is_needed(checkout):
    used = {
        (layer_of(path), target)
        for path, text in files_below(checkout.core)
        for _, target in imported_layers(
            text, ".".join(["devrt", *PurePosixPath(path).parts[:-1]]), layers_of(checkout.core)
        )
    }
    assert EXCEPTIONS.keys() <= used


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("runtime/runtime.py", "from devrt.arrays import Array"),
        ("runtime/runtime.py", "import devrt.arrays.array"),
        ("runtime/runtime.py", "def f():\n    from devrt.sharding import Mesh"),
        ("runtime/runtime.py", "if TYPE_CHECKING:\n    from devrt.cli import main"),
        ("runtime/runtime.py", "from devrt import Array"),
        ("runtime/runtime.py", "from devrt import arrays"),
        ("runtime/runtime.py", "import devrt"),
        ("runtime/runtime.py", "from ..arrays import Array"),
        ("runtime/runtime.py", "from .. import arrays"),
        ("errors.py", "from .plugins import Registry"),
        ("errors.py", "importlib.import_module('devrt.plugins')"),
        ("__init__.py", "from devrt.xla_client import Client"),
        ("attic/_new.py", ""),
    ],
)
def test_an_import_that_goes_up_is_reported(path, source):
    assert len(level_findings(path, source, set(LEVEL_OF))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("runtime/runtime.py", "from devrt.plugins import Registry\nfrom devrt import errors"),
        ("runtime/runtime.py", "from ._default import x\nfrom . import _default"),
        ("arrays/array.py", "from ..errors import DevrtError\nimport numpy as np"),
        ("__init__.py", "from devrt.arrays import Array\nfrom .errors import DevrtError"),
        ("cli/commands.py", "import devrt\nfrom devrt import Array"),
    ],
)
def test_an_import_that_goes_down_is_not(path, source):
    assert level_findings(path, source, set(LEVEL_OF)) == []

"""No import leads in a circle, between packages or between the modules of one.

An import in a function counts as one at the top: it runs, only later. What stands under
``TYPE_CHECKING`` counts between packages, which know of each other by it; two modules of a package
may name each other's types. A name of a lazy package leads to the module that its stub says.
"""

import ast

import pytest

MOST_AT_THE_ROOT = 13
"""Modules beside the packages in the core's folder, ``__init__`` and ``__main__`` among them."""

ALLOWED = {
    ("devrt.arrays.array", "devrt.arrays.shard"): "properties of an array return its shards",
    ("devrt.arrays.described", "devrt.arrays.placement"): "to_device is device_put as a method",
    ("devrt.arrays.array", "devrt.arrays.pickling"): "unpickling puts an array, pickle asks it",
    ("devrt.tracing.operators", "devrt.numpy.namespace"): "the array API's __array_namespace__",
    ("devrt.tracing.operators", "devrt.numpy"): "operators of arrays are its functions",
    ("devrt.tracing.operators", "devrt.numpy.indexing"): "x[i] is a function of indexing",
    ("devrt.tracing.operators", "devrt.numpy.updates"): "x.at[i] is a function of updates",
    ("devrt.contract.client", "devrt.topology"): "a client's topology is made of its devices",
    ("devrt.contract.pjrt_loader", "devrt.records"): "a loader takes and answers what plugins do",
}
"""(importing module, imported module) and the reason; a row without such an import fails."""

Graph = dict[str, set[str]]


class Sources:
    """The modules of one import package: their texts, and where lazy packages' names come from."""

    def __init__(self, texts, packages, stubs):
        self.texts, self.packages = texts, packages
        self.modules_of = {name: _rows(stub) for name, stub in stubs.items()}

    @classmethod
    def below(cls, folder):
        texts, packages, stubs = {}, set(), {}
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.pyi")]):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            if path.suffix == ".py":
                texts[name] = path.read_text(encoding="utf-8")
            elif is_package:
                stubs[name] = path.read_text(encoding="utf-8")
            else:
                texts.setdefault(name, "")  # a native module
            if is_package:
                packages.add(name)
        return cls(texts, packages, stubs)

    def graph(self, *, annotations):
        """Return the modules that each module imports."""
        made = {}
        for name, text in self.texts.items():
            nodes = imports(ast.parse(text), annotations)
            found = {target for node in nodes for target in self._targets(node)}
            made[name] = {t for t in found - {name} if (name, t) not in ALLOWED}
        return made

    def _targets(self, node):
        for alias in node.names:
            if isinstance(node, ast.Import):
                target = alias.name
            else:
                target = f"{node.module}.{alias.name}"
                if target not in self.texts:
                    lazy = self.modules_of.get(str(node.module), {})
                    target = lazy.get(alias.name, str(node.module))
            if target in self.texts:
                yield target


def _rows(stub):
    nodes = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in nodes for alias in node.names}


def imports(tree, annotations):
    """Yield the imports of a module at any depth, those for annotations only if wanted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for part in (*(node.body if annotations else ()), *node.orelse):
                yield from imports(ast.Module([part], []), annotations)
        else:
            yield from imports(node, annotations)


def between_packages(graph, packages):
    """Return which packages import which; a module beside packages stands for itself."""

    def unit(module):
        first_two = ".".join(module.split(".")[:2])
        return first_two if module != first_two or module in packages else module

    units = {}
    for module, imported in graph.items():
        if "." in module:  # the façade imports all of them
            units.setdefault(unit(module), set()).update(unit(m) for m in imported if "." in m)
    return {name: found - {name} for name, found in units.items()}


def circles(graph):
    """Return the groups of nodes that reach each other, by Tarjan's algorithm."""
    index = {}
    low = {}
    stack = []
    found = []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == index[node]:
            at = stack.index(node)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def circle_findings(sources):
    """Return the circles among packages, then those among modules."""
    packages = between_packages(sources.graph(annotations=True), sources.packages)
    modules = sources.graph(annotations=False)
    return [
        *(f"packages import each other: {', '.join(group)}" for group in circles(packages)),
        *(f"modules import each other: {', '.join(group)}" for group in circles(modules)),
    ]


def test_no_import_leads_in_a_circle(checkout):
    folders = sorted(
        p for p in checkout.root.glob("packages/*/src/*") if (p / "__init__.py").exists()
    )
    assert len(folders) >= 6
    found = [line for folder in folders for line in circle_findings(Sources.below(folder))]
    assert not found, "\n".join(found)


def test_every_exception_is_needed(checkout, monkeypatch):
    allowed = dict(ALLOWED)
    monkeypatch.setattr(f"{__name__}.ALLOWED", {})
    graph = Sources.below(checkout.core).graph(annotations=True)
    assert [row for row in allowed if row[1] not in graph.get(row[0], ())] == []


def test_few_modules_lie_at_the_root(checkout):
    modules = sorted(path.name for path in checkout.core.glob("*.py"))
    assert len(modules) <= MOST_AT_THE_ROOT, modules


def test_names_of_lazy_packages_are_written_once(checkout):
    """A package with a stub reads its names from there: its module has no imports for them."""
    found = [
        str(stub.relative_to(checkout.root))
        for stub in checkout.root.glob("packages/*/src/**/__init__.pyi")
        if (names := set(_rows(stub.read_text()))) - {"Config"}
        and names & _names_in(stub.with_suffix(".py").read_text()) - {"default_runtime"}
    ]
    assert found == []


def _names_in(source):
    """Return the names that a module imports, and the texts in its lists."""
    tree = ast.parse(source)
    lists = [n for n in ast.walk(tree) if isinstance(n, ast.List | ast.Tuple | ast.Dict | ast.Set)]
    texts = {n.value for part in lists for n in ast.walk(part) if isinstance(n, ast.Constant)}
    imported = {a.name for node in imports(tree, True) for a in node.names}
    return imported | {text for text in texts if isinstance(text, str)}


ONE = {"p": "", "p.a": "from p.b import x", "p.b": ""}


def sources(stubs=None, **texts):
    named = ONE | {name.replace("_", "."): text for name, text in texts.items()}
    return Sources(named, {"p"}, stubs or {})


@pytest.mark.parametrize(
    "text",
    [
        "from p.a import y",
        "import p.a",
        "from p import a",
        "def f():\n    from p.a import y",
        "try:\n    import p.a\nexcept ImportError: ...",
        "from p.c import y",
    ],
)
def test_a_circle_is_reported(text):
    made = sources(p_b=text, p_c="import p.a")
    assert "modules import each other: p.a, p.b" in circle_findings(made)[-1]


def test_a_circle_through_the_names_of_a_lazy_package_is_reported():
    made = sources({"p": "from p.a import y as y"}, p_b="from p import y")
    assert circle_findings(made) == [
        "packages import each other: p.a, p.b",
        "modules import each other: p.a, p.b",
    ]


def test_modules_of_a_package_may_name_each_others_types():
    types = "if TYPE_CHECKING:\n    from {} import x"
    texts = {"p": "", "p.q": "", "p.q.a": "import p.q.b", "p.q.b": types.format("p.q.a")}
    assert circle_findings(Sources(texts, {"p", "p.q"}, {})) == []
    texts |= {"p.r": types.format("p.q.a"), "p.q.a": "import p.r"}
    assert circle_findings(Sources(texts, {"p", "p.q"}, {})) == [
        "packages import each other: p.q, p.r"
    ]

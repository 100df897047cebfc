"""In the PJRT loader a module uses nothing private of another: names, or members of its classes."""

import ast

import pytest

OWN = ("self", "cls")


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def accesses(tree):
    """Yield every use of a private member."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node


def is_own(node):
    return isinstance(node.value, ast.Name) and node.value.id in OWN


def defined(tree):
    """Return the private members that a module's classes define."""
    found = {node.attr for node in accesses(tree) if is_own(node) and is_stored(node)}
    for node in ast.walk(tree):
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            targets = item.targets if isinstance(item, ast.Assign) else [item]
            names = (getattr(t, "id", getattr(t, "name", "")) for t in targets)
            found |= {name for name in names if is_private(name)}
    return found


def is_stored(node):
    return isinstance(node.ctx, ast.Store)


def findings(sources):
    """Return where a module uses a private member that only classes of other modules define."""
    trees = {path: ast.parse(source) for path, source in sources.items()}
    own = {path: defined(tree) for path, tree in trees.items()}
    every = set().union(*own.values())
    return [
        f"{path}:{node.lineno}: uses {ast.unparse(node)}, which another module's class defines"
        for path, tree in trees.items()
        for node in accesses(tree)
        if not is_own(node) and node.attr in every - own[path]
    ]


def imported(path, source):
    """Return which private names a module imports from others."""
    return [
        f"{path}:{node.lineno}: imports {node.module}.{alias.name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("devrt_pjrt.")
        for alias in node.names
        if is_private(alias.name)
    ]


def test_the_loader_uses_no_private_members_of_other_modules(checkout):
    folder = "packages/devrt-tpu/src/devrt_pjrt/"
    every = {name: text for name, text in checkout.texts(".py") if name.startswith(folder)}
    found = findings(every) + [line for item in every.items() for line in imported(*item)]
    assert not found, "\n".join(found)


CLIENT = """
class Client:
    _count = 0
    def __init__(self):
        self._pointer = None
    def _place(self):
        return self._pointer
def address(client):
    return client._pointer
"""


@pytest.mark.parametrize("name", ["_pointer", "_place", "_count"])
def test_a_private_member_of_another_modules_class_is_reported(name):
    (found,) = findings({"client.py": CLIENT, "buffer.py": f"def f(client): client.{name}"})
    assert found.startswith("buffer.py:1: uses client._")


def test_own_members_and_those_of_other_packages_are_not():
    source = (
        "class Buffer(Client):\n    def f(self, x): return self._pointer, x._fields, x.__dict__"
    )
    assert findings({"client.py": CLIENT, "buffer.py": source}) == []


@pytest.mark.parametrize(("name", "count"), [("_args", 1), ("Api", 0)])
def test_a_private_name_that_is_imported_is_reported(name, count):
    assert len(imported("x.py", f"from devrt_pjrt.library.api import {name}")) == count

"""Every hook is documented with its exact signature, every public name with a docstring."""

import ast
import re

import pytest

HOOKS_PAGE = "docs/backend-authors/hooks.md"

NOT_IMPERATIVE = re.compile(r"(?:\w+(?:[^s\W]s|ing)|the|a|an|this|it|which)\b", re.I)
"""First words of a sentence that describes a function instead of saying what it does."""

IMPERATIVE_THOUGH = {"alias", "bring", "focus", "bias", "canvas"}


FROM_AN_INDEX = re.compile(r"pip install[^\n`]*?[\s\"']devrt-")
"""An installation that needs devrt's own distributions on an index, where they are not yet."""


def hook_functions(source):
    """Yield the functions that are marked as hook specifications."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if ast.unparse(decorator).partition("(")[0] == "hookspec":
                    yield node


def signature(node, source):
    """Return a function's head, from ``def`` to the colon, as it stands in its source."""
    return "\n".join(source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1])


def hook_findings(hookspecs, page):
    """Return the hooks without a heading, or whose signature or sentence the page does not have."""
    found = []
    for node in hook_functions(hookspecs):
        sentence = (ast.get_docstring(node) or "").partition("\n")[0]
        if not sentence:
            found.append(f"hookspecs.py:{node.lineno}: {node.name} has no sentence")
        for what in (f"## `{node.name}`\n", f"{signature(node, hookspecs)}\n", f"{sentence}\n"):
            if what not in page:
                found.append(f"{HOOKS_PAGE}:1: lacks {what.strip()!r}")
    documented = set(re.findall(r"^## `(devrt_\w+)`$", page, re.M))
    for name in sorted(documented - {node.name for node in hook_functions(hookspecs)}):
        found.append(f"{HOOKS_PAGE}:1: documents {name}, which is no hook")
    return found


def record_findings(records, page):
    """Return the fields of the records that the page does not explain."""
    found = []
    for node in ast.parse(records).body:
        if not isinstance(node, ast.ClassDef):
            continue
        section = re.search(rf"^#+ `{node.name}`\n(.*?)(?=^#|\Z)", page, re.M | re.S)
        if section is None:
            found.append(f"{HOOKS_PAGE}:1: has no section on record {node.name}")
            continue
        fields = [
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
        rows = re.findall(r"^\| `(\w+)` \|", section.group(1), re.M)
        if rows != fields:
            found.append(f"{HOOKS_PAGE}:1: {node.name} has fields {fields}, the page {rows}")
    return found


def public_names(tree):
    """Return the names in a module's ``__all__``, where it is a literal."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(ast.unparse(target) == "__all__" for target in targets):
                strings = (n for n in ast.walk(node.value) if isinstance(n, ast.Constant))
                return {str(constant.value) for constant in strings}
    return set()


def docstring_findings(path, source):
    """Return the public functions and classes whose docstring is missing or is no sentence."""
    tree = ast.parse(source)
    public = public_names(tree)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = []
    for node in tree.body:
        if not isinstance(node, kinds) or node.name not in public:
            continue
        if any(ast.unparse(d).rpartition(".")[2] == "overload" for d in node.decorator_list):
            continue
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        if not first:
            found.append(f"{path}:{node.lineno}: {node.name} has no docstring")
        elif not first.endswith("."):
            found.append(f"{path}:{node.lineno}: {node.name}: its first line is no sentence")
        elif not isinstance(node, ast.ClassDef) and not is_imperative(first):
            found.append(f"{path}:{node.lineno}: {node.name}: its first line is not imperative")
    return found


def is_imperative(sentence):
    word = sentence.split()[0].strip("`.,:").lower()
    return word in IMPERATIVE_THOUGH or not NOT_IMPERATIVE.fullmatch(word)


def test_every_hook_is_documented(checkout):
    page = (checkout.root / HOOKS_PAGE).read_text()
    hookspecs = (checkout.core / "hookspecs.py").read_text()
    assert list(hook_functions(hookspecs))
    found = hook_findings(hookspecs, page)
    assert not found, "\n".join(found)


def test_every_field_of_every_record_is_documented(checkout):
    page = (checkout.root / HOOKS_PAGE).read_text()
    found = record_findings((checkout.core / "records.py").read_text(), page)
    assert not found, "\n".join(found)


def test_every_public_name_has_a_docstring(checkout):
    found = [
        finding
        for path, text in checkout.texts(".py")
        if re.match(r"(?:packages|examples)/[^/]+/src/", path)
        for finding in docstring_findings(path, text)
    ]
    assert not found, "\n".join(found)


def index_findings(path, text):
    """Return the lines of a page that install devrt from an index."""
    return [
        f"{path}:{number}: {line.strip()}; devrt is not on an index: write ./packages/..."
        for number, line in enumerate(text.splitlines(), 1)
        if FROM_AN_INDEX.search(line)
    ]


def test_no_page_promises_devrt_from_an_index(checkout):
    assert not (found := checkout.report(index_findings, ".md")), found


def test_no_message_promises_devrt_from_an_index(checkout):
    found = [
        finding
        for ending in (".py", ".toml", ".cpp", ".hpp")
        for path, text in checkout.texts(ending)
        if "/src/" in path or "/native/" in path
        for finding in index_findings(path, text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("line", ["pip install devrt-cpu", "`pip install x 'devrt-cpu[xla]'`"])
def test_a_promise_of_an_index_is_reported(line):
    assert len(index_findings("x.md", line)) == 1


def test_the_checkout_is_no_index():
    assert (
        index_findings("x.md", 'pip install ./packages/devrt-core "./packages/devrt-cpu[xla]"')
        == []
    )


HOOK = """
@hookspec
def devrt_x(a: int, *, b: str = 'c') -> list[X]:
    'Return the X.'
"""
PAGE = """
## `devrt_x`

```python
def devrt_x(a: int, *, b: str = 'c') -> list[X]:
```

Return the X.
"""


def test_a_documented_hook_passes():
    assert hook_findings(HOOK, PAGE) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("## `devrt_x`", "## `devrt_y`"),
        ("a: int", "a: float"),
        (" -> list[X]", ""),
        ("Return the X.", "Return a list."),
    ],
)
def test_a_hook_that_is_documented_otherwise_is_reported(old, new):
    assert hook_findings(HOOK, PAGE.replace(old, new))
    assert hook_findings(HOOK, "")


RECORD = "class Kind:\n    name: str\n    size: int = 0\n"


def test_a_record_that_is_documented_otherwise_is_reported():
    page = "### `Kind`\n\n| field | meaning |\n| `name` | x |\n| `size` | y |\n\n### `Other`\n"
    assert record_findings(RECORD, page) == []
    assert record_findings(RECORD, page.replace("size", "length"))
    assert record_findings(RECORD, page.replace("Kind", "Sort"))
    assert record_findings(RECORD, page.replace("| `size` | y |\n", "") + "| `size` | y |")


@pytest.mark.parametrize(
    "body",
    [
        "def f(): ...",
        'def f():\n    """Returns the device."""',
        'def f():\n    """The device."""',
        'def f():\n    """Getting the device."""',
        'def f():\n    """Return the device"""',
        "class f: ...",
        'async def f():\n    """Waits."""',
    ],
)
def test_a_docstring_that_is_missing_or_no_sentence_is_reported(body):
    assert len(docstring_findings("x.py", f"__all__ = ['f']\n{body}\n")) == 1


@pytest.mark.parametrize(
    "body",
    [
        'def f():\n    """Return the device."""',
        'def f():\n    """Pass the device on."""',
        'class f:\n    """The device."""',
        "def g(): ...",
        "@overload\ndef f(): ...",
    ],
)
def test_a_docstring_that_is_a_sentence_is_not(body):
    assert docstring_findings("x.py", f"__all__ = ['f']\n{body}\n") == []

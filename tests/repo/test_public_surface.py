"""The public names and signatures are those that a file lists: each change is a decision."""

import difflib
import importlib.util

import pytest

HOW = """
The public surface differs from tests/repo/public_surface.txt. docs/backend-authors/policy.md says
what may change: a line with '-' is a name or a signature that somebody relies on, and goes only
after two minor versions of the contract; one with '+' is a promise from now on. If it is meant, run
    python tools/public_surface.py
and commit the file with the change and an entry in the changelog."""


@pytest.fixture(scope="module")
def tool(checkout):
    path = checkout.root / "tools" / "public_surface.py"
    spec = importlib.util.spec_from_file_location("public_surface", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differences(kept, made):
    lines = difflib.unified_diff(kept.splitlines(), made.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[:3] not in ("---", "+++") and line[:2] != "@@"]


def test_the_public_surface_is_the_one_that_is_listed(tool):
    found = differences(tool.SNAPSHOT.read_text(encoding="utf-8"), tool.text())
    assert not found, "\n".join(["", *found[:40], HOW])


def test_the_list_is_not_empty_anywhere(tool):
    text = tool.text()
    for module in tool.public_modules():
        assert f"\n{module}." in text, f"{module} shows no name"
    for line in (
        "devrt.contract.Client.close(self) -> None (needed)",
        "devrt.contract.Client.platform: str (needed)",
        "devrt.records.ClientFactory.priority: int = 0",
        "devrt.errors.OutOfMemoryError: class(DevrtError, MemoryError)",
        "devrt.hookspecs.devrt_memory_kinds() -> Iterable[MemoryKind]",
        "devrt.lax: module",
        "devrt.__version__: str",
    ):
        assert f"{line}\n" in text


def test_a_change_is_shown_by_its_line():
    assert differences("a\nb(x)\nc\n", "a\nb(x, y)\nc\n") == ["-b(x)", "+b(x, y)"]

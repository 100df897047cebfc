"""What docs/architecture.md and the SDK's DESIGN.md name exists: paths, and names in them."""

import re

import pytest

PAGE = "docs/architecture.md"
DESIGN = "packages/devrt-core/src/devrt/native/DESIGN.md"
HEADERS = "packages/devrt-core/src/devrt/native/include/devrt"

ROOTS = (
    "",
    "packages/devrt-core/src/devrt",
    HEADERS,
    "packages/devrt-core/src/devrt/native/src",
    "packages/devrt-cpu/src/devrt_cpu",
    "packages/devrt-tpu/src/devrt_pjrt",
)
"""Folders that the page's paths are relative to."""

PREFIXES = {
    "SDK: ": (HEADERS,),
    "client: ": ("packages/devrt-core/src/devrt/native/src",),
    "CPU: ": ("packages/devrt-cpu/src/devrt_cpu",),
    "loader: ": ("packages/devrt-tpu/src/devrt_pjrt",),
}
"""What the page writes before a path to say which folder it is relative to."""

PATH = re.compile(
    r"(SDK: |client: |CPU: |loader: )?`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|cpp|hpp|c|h|md))`"
)


def path_findings(page, exists):
    """Return the paths in backquotes on a page that are not below their folder, or none of them."""
    return [
        f"{PAGE}:{number}: there is no {path}"
        for number, line in enumerate(page.splitlines(), 1)
        for prefix, path in PATH.findall(line)
        if not any(f"{root}/{path}".strip("/") in exists for root in PREFIXES.get(prefix, ROOTS))
    ]


def test_every_path_exists(checkout):
    files = {path.relative_to(checkout.root) for path in checkout.files}
    known = {p.as_posix() for file in files for p in (file, *file.parents)}
    found = path_findings((checkout.root / PAGE).read_text(encoding="utf-8"), known)
    assert not found, "\n".join(found)


def test_every_header_of_the_design_exists(checkout):
    named = set(re.findall(r"`([\w/]+\.hp{0,2})`", (checkout.root / DESIGN).read_text("utf-8")))
    assert len(named) > 40
    assert not [name for name in sorted(named) if not (checkout.root / HEADERS / name).is_file()]


NAME = re.compile(r"`([A-Za-z_.]+)` in `([\w./-]+\.(?:py|[ch]|[ch]pp))`")


def name_findings(page, text_of):
    """Return the names that a page looks for in a file which does not have them."""
    return [
        f"{PAGE}:{number}: {path} has no {name}"
        for number, line in enumerate(page.splitlines(), 1)
        for name, path in NAME.findall(line)
        if not re.search(rf"\b{name.rpartition('.')[2]}\b", text_of(path))
    ]


def test_every_name_is_in_its_file(checkout):
    def text_of(path):
        files = (checkout.root / root / path for root in ROOTS)
        return next(file for file in files if file.is_file()).read_text(encoding="utf-8")

    page = (checkout.root / PAGE).read_text(encoding="utf-8")
    assert len(NAME.findall(page)) > 5
    found = name_findings(page, text_of)
    assert not found, "\n".join(found)


def test_a_name_that_is_gone_is_reported():
    line = "`Runtime.close` in `runtime/runtime.py`"
    assert name_findings(line, lambda _: "def close(self)") == []
    assert name_findings(line, lambda _: "def closed(self)") == [
        f"{PAGE}:1: runtime/runtime.py has no Runtime.close"
    ]


@pytest.mark.parametrize("path", ["errors.py", "arrays/put.py", "plugins/loading/", "docs/x.md"])
def test_a_path_that_is_gone_is_reported(path):
    assert path_findings(f"see `{path}`", set()) == [f"{PAGE}:1: there is no {path}"]
    assert path_findings(f"see `{path}`", {f"{ROOTS[1]}/{path}".rstrip("/")}) == []


@pytest.mark.parametrize("code", ["devrt.devices", "float32[4]", "--level", "device_put(x, y)"])
def test_other_code_is_no_path(code):
    assert path_findings(f"`{code}`", set()) == []
